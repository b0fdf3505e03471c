// SPDX-License-Identifier: MIT
/// A case: a graph of one op with its operands, and what the op costs at least. The benchmarks measure them, `bench pipelines` compiles
/// them, and the tests of ops run them at the sizes that kernels name (KernelTraits::edges).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/builders.hpp"
#include "graph/program.hpp"
#include "vkformer/result.hpp"

namespace vkformer::cases {

/// The arithmetic that the inner loop of an op is made of: which measured peak its rate is held against.
enum class Arithmetic : std::uint8_t {
    f32,      ///< float32 operands
    f16,      ///< float16 operands, sums in float32: packed halves or cooperative matrices may serve
    integer,  ///< quantised operands: integer dot products may serve
};
std::string_view to_string(Arithmetic arithmetic) noexcept;

/// What a run of the op cannot do without.
struct Work {
    double flops = 0;    ///< additions and multiplications, 2 per term of a product; exp, tanh and the like count 1
    double read = 0;     ///< bytes: every operand once
    double written = 0;  ///< bytes: every result once
    Arithmetic arithmetic = Arithmetic::f32;

    double bytes() const noexcept { return read + written; }
};

/// How the tensors of a case are stored.
struct Types {
    DType x;       ///< activations
    DType stored;  ///< weights and caches
    DType y;       ///< results

    /// What only weights and caches are stored as meets activations of float32.
    constexpr Types(DType all) : Types(is_computed(all) ? all : DType::f32, all) {}  // implicit: most cases have one
    constexpr Types(DType activations, DType weights) : x(activations), stored(weights), y(activations) {}
    constexpr Types(DType activations, DType weights, DType results) : x(activations), stored(weights), y(results) {}

    /// "f16", "q8_0"; "f16_q8_0" where the activations are not what is said above, "f16_to_f32" where the results are others.
    std::string name() const;
    friend bool operator==(const Types&, const Types&) = default;

private:
    static constexpr bool is_computed(DType dtype) { return dtype == DType::f32 || dtype == DType::f16; }
};

/// Builds one copy of a case after the other into one graph. A copy has operands of its own (other memory, the same
/// contents), so that running over the copies finds cold caches.
class CaseBuilder {
public:
    enum class Contents : std::uint8_t {
        random,
        none,  ///< for who compiles the graph and does not run it
    };
    CaseBuilder() = default;
    explicit CaseBuilder(Contents contents) : has_contents_(contents == Contents::random) {}

    graph::Graph graph;

    void begin_copy(std::size_t copy) {
        suffix_ = copy == 0 ? std::string() : std::string("#").append(std::to_string(copy));
    }

    /// Inputs with values uniform in ±magnitude; weights are constants of the graph, in any dtype that it stores. Errors: those of
    /// Graph, and InvalidArgument (rows that are no whole blocks).
    Result<graph::Value> input(const std::string& name, DType dtype, const Shape& shape, float magnitude = 1);
    Result<graph::Value> weight(const std::string& name, DType dtype, const Shape& shape, float magnitude = 1);
    Result<graph::Value> state(const std::string& name, DType dtype, const Shape& shape, float magnitude = 1);
    Result<graph::Value> ints(const std::string& name, const Shape& shape, std::vector<std::int32_t> values);
    Result<graph::Value> int_state(const std::string& name, const Shape& shape, std::vector<std::int32_t> values);
    Result<graph::Value> int_state(const std::string& name, const Shape& shape) {  // zeros
        return int_state(name, shape, std::vector<std::int32_t>(shape.element_count()));
    }
    Result<graph::Value> random_ints(const std::string& name, const Shape& shape, std::int32_t lowest,
                                     std::int32_t highest);
    /// The host reads it after the run: it is compared.
    void result(graph::Value value);

    std::span<const graph::Value> results() const noexcept { return results_; }

    using Floats = std::shared_ptr<const std::vector<float>>;
    using Integers = std::shared_ptr<const std::vector<std::int32_t>>;
    /// What inputs and states hold before the run, by the ids of their tensors.
    const std::map<std::uint32_t, std::variant<Floats, Integers>>& contents() const noexcept { return contents_; }
    /// Writes the contents of inputs and states.
    Result<void> feed(graph::Program& program) const;
    /// Writes the integer states again: positions and steps, which runs advance.
    Result<void> rewind(graph::Program& program) const;
    /// The operand of that name as the device stores it, in whole words; nothing if there is none. Weights too.
    struct Stored {
        DType dtype;
        std::vector<std::byte> bytes;
    };
    std::optional<Stored> operand(const std::string& name) const;

private:
    Floats floats(const std::string& name, std::size_t count, float magnitude);

    bool has_contents_ = true;
    std::string suffix_;
    std::map<std::string, Floats> floats_;      // by name without the copy: copies share their contents
    std::map<std::string, TensorData> blocks_;  // the same of weights in block formats, which take long to make
    std::map<std::uint32_t, std::variant<Floats, Integers>> contents_;  // by tensor id
    std::vector<graph::Value> results_;
};

/// One op with one shape and dtype.
struct Case {
    std::string op, shape, dtype;
    Work work;
    std::function<Result<void>(CaseBuilder&)> build;

    std::string name() const { return op + " " + shape + " " + dtype; }
};

/// A kind of case: an op in some form (with a mask, say), whose sizes are numbers.
struct Family {
    using Dims = std::vector<std::uint64_t>;
    /// Dims and types of cases that nobody runs for their own sake.
    struct Compiled {
        Dims shape;
        std::vector<Types> types;
    };

    std::string_view name;           ///< of the op, or what --op calls this form of it: "attention_causal"
    std::string_view op;             ///< of the node that the case is about
    std::string_view dims;           ///< what the numbers of --shape are: "rows x in x out"
    std::vector<Types> types;        ///< the first is the default
    std::vector<Dims> shapes{};      ///< what models have; they are measured
    std::vector<Dims> gpu_shapes{};  ///< besides, where the device is no CPU
    std::vector<Compiled>
        compiled{};  ///< and what `bench pipelines` asks the kernels for besides: other forms of their shaders
    /// Errors: InvalidArgument (dimensions that do not fit each other). `shape` has as many numbers as `dims` names.
    Result<Case> (*make)(const Dims& shape, const Types& types);

    std::size_t rank() const;
};

/// Every family, in the order of families.cpp.
const std::vector<Family>& families();
/// The families of an op whose shapes have so many numbers.
std::vector<const Family*> families_of(std::string_view op, std::size_t rank);

/// One of each pipeline that models need, and more than one of many: all shapes of all families, with activations of float32 and of
/// float16, then what families have compiled.
Result<std::vector<Case>> compiled_cases();

/// "1x576x49152"; numbers of 1 to 2^31. Errors: InvalidArgument.
Result<Family::Dims> parse_shape(std::string_view text);
std::string to_text(const Family::Dims& shape);

/// What --op, --shape, --dtype choose.
struct Choice {
    std::vector<std::string> ops;     ///< empty: all
    std::vector<std::string> shapes;  ///< empty: each family's own
    std::vector<std::string> dtypes;  ///< empty: each family's first
    bool is_gpu = false;              ///< takes the gpu_shapes too
};
/// Errors: InvalidArgument (an unknown op or dtype, a shape that the op does not take).
Result<std::vector<Case>> choose_cases(const Choice& choice);

}  // namespace vkformer::cases
