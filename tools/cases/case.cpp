// SPDX-License-Identifier: MIT
#include "cases/case.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/block_format.hpp"
#include "core/try.hpp"

namespace vkformer::cases {

using graph::Value;

std::string_view to_string(Arithmetic arithmetic) noexcept {
    switch (arithmetic) {
    case Arithmetic::f32: return "f32";
    case Arithmetic::f16: return "f16";
    case Arithmetic::integer: return "integer";
    }
    return "";
}

std::string Types::name() const {
    const std::string base(to_string(stored));
    const std::string own = x == Types(stored).x ? base : std::string(to_string(x)) + "_" + base;
    return y == x ? own : own + "_to_" + std::string(to_string(y));
}

CaseBuilder::Floats CaseBuilder::floats(const std::string& name, std::size_t count, float magnitude) {
    Floats& known = floats_[name];
    if (!known) {
        std::mt19937 random(static_cast<std::uint32_t>(std::hash<std::string>()(name)));
        std::uniform_real_distribution<float> distribution(-magnitude, magnitude);
        std::vector<float> values(count);
        for (float& value : values) value = distribution(random);
        known = std::make_shared<const std::vector<float>>(std::move(values));
    }
    return known;
}

Result<Value> CaseBuilder::input(const std::string& name, DType dtype, const Shape& shape, float magnitude) {
    VKFORMER_TRY(const Value value, graph.input(name + suffix_, dtype, shape));
    if (has_contents_) contents_[value.id] = floats(name, shape.element_count(), magnitude);
    return value;
}

Result<Value> CaseBuilder::state(const std::string& name, DType dtype, const Shape& shape, float magnitude) {
    VKFORMER_TRY(const Value value, graph.state(name + suffix_, dtype, shape));
    if (has_contents_) contents_[value.id] = floats(name, shape.element_count(), magnitude);
    return value;
}

Result<Value> CaseBuilder::weight(const std::string& name, DType dtype, const Shape& shape, float magnitude) {
    if (!has_contents_) {
        // Kernels are chosen by dtypes and shapes: an input serves as well, where there can be one.
        if (!is_weight_only(dtype)) return graph.input(name + suffix_, dtype, shape);
        const auto zeros =
            std::make_shared<const std::vector<std::byte>>(vkformer::bytes_of(dtype, shape.element_count()));
        return graph.weight(name + suffix_, {.dtype = dtype, .shape = shape, .bytes = *zeros, .owner = zeros}, dtype);
    }
    const Floats values = floats(name, shape.element_count(), magnitude);
    const TensorData data{
        .dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*values)), .owner = values};
    if (!is_quantized(dtype)) return graph.weight(name + suffix_, data, dtype);
    TensorData& blocks = blocks_[name];
    if (blocks.bytes.empty()) {
        VKFORMER_TRY(blocks, quantized(data, dtype));
    }
    return graph.weight(name + suffix_, blocks, dtype);
}

Result<Value> CaseBuilder::ints(const std::string& name, const Shape& shape, std::vector<std::int32_t> values) {
    VKFORMER_TRY(const Value value, graph.input(name + suffix_, DType::i32, shape));
    contents_[value.id] = std::make_shared<const std::vector<std::int32_t>>(std::move(values));
    return value;
}

Result<Value> CaseBuilder::int_state(const std::string& name, const Shape& shape, std::vector<std::int32_t> values) {
    VKFORMER_TRY(const Value state, graph.state(name + suffix_, DType::i32, shape));
    contents_[state.id] = std::make_shared<const std::vector<std::int32_t>>(std::move(values));
    return state;
}

Result<Value> CaseBuilder::random_ints(const std::string& name, const Shape& shape, std::int32_t lowest,
                                       std::int32_t highest) {
    std::mt19937 random(7);
    std::uniform_int_distribution<std::int32_t> distribution(lowest, highest);
    std::vector<std::int32_t> values(shape.element_count());
    for (std::int32_t& value : values) value = distribution(random);
    return ints(name, shape, std::move(values));
}

void CaseBuilder::result(Value value) {
    graph.mark_output(value);
    results_.push_back(value);
}

Result<void> CaseBuilder::feed(graph::Program& program) const {
    for (const auto& [id, contents] : contents_) {
        const Value value{id};
        VKFORMER_CHECK(
            std::visit([&](const auto& values) { return program.write(value, std::span(*values)); }, contents));
    }
    return {};
}

Result<void> CaseBuilder::rewind(graph::Program& program) const {
    for (const auto& [id, contents] : contents_) {
        const auto* const integers = std::get_if<Integers>(&contents);
        if (integers && graph.tensor(Value{id}).kind == graph::TensorKind::state)
            VKFORMER_CHECK(program.write(Value{id}, std::span(**integers)));
    }
    return {};
}

namespace {

/// dtype f32, f16, bf16, or q8_0 in the blocks of files.
std::vector<std::byte> store(DType dtype, std::span<const float> values) {
    if (is_quantized(dtype)) {
        std::vector<std::byte> blocks(vkformer::bytes_of(dtype, values.size()));
        quantize(dtype, values, blocks);
        return blocks;
    }
    std::vector<std::byte> bytes((values.size() * element_bytes(dtype) + 3) / 4 * 4);
    if (dtype == DType::f32) std::memcpy(bytes.data(), values.data(), values.size_bytes());
    for (std::size_t i = 0; dtype != DType::f32 && i < values.size(); ++i) {
        const std::uint16_t half = dtype == DType::bf16 ? float_to_bfloat(values[i]) : float_to_half(values[i]);
        std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
    return bytes;
}

}  // namespace

std::optional<CaseBuilder::Stored> CaseBuilder::operand(const std::string& name) const {
    const auto tensor = std::ranges::find(graph.tensors(), name, &graph::Tensor::name);
    if (tensor == graph.tensors().end()) return std::nullopt;
    if (const auto known = blocks_.find(name); known != blocks_.end()) {
        std::vector<std::byte> bytes(known->second.bytes.begin(), known->second.bytes.end());
        bytes.resize((bytes.size() + 3) / 4 * 4);
        return Stored{tensor->dtype, std::move(bytes)};
    }
    if (const auto known = floats_.find(name); known != floats_.end())
        return Stored{tensor->dtype, store(tensor->dtype, *known->second)};
    const auto found = contents_.find(static_cast<std::uint32_t>(tensor - graph.tensors().begin()));
    if (found == contents_.end()) return std::nullopt;
    const auto integers = std::as_bytes(std::span(*std::get<Integers>(found->second)));
    return Stored{DType::i32, {integers.begin(), integers.end()}};
}

std::size_t Family::rank() const {
    constexpr std::string_view kBetween = " x ";
    std::size_t count = 1;
    for (std::size_t at = dims.find(kBetween); at != dims.npos; at = dims.find(kBetween, at + 1)) ++count;
    return count;
}

Result<Family::Dims> parse_shape(std::string_view text) {
    const Error wrong{ErrorCode::InvalidArgument,
                      std::string("\"").append(text) + "\" is no shape: numbers with x between them, like 1x576x49152"};
    Family::Dims shape;
    for (const char* at = text.data(); at <= text.data() + text.size(); ++at) {
        std::uint64_t number = 0;
        const auto [end, failure] = std::from_chars(at, text.data() + text.size(), number);
        if (failure != std::errc() || number == 0 || number > (std::uint64_t{1} << 31)) return wrong;
        shape.push_back(number);
        if (end != text.data() + text.size() && *end != 'x') return wrong;
        at = end;
    }
    return shape;
}

std::string to_text(const Family::Dims& shape) {
    std::string text;
    for (const std::uint64_t number : shape) text.append(text.empty() ? "" : "x").append(std::to_string(number));
    return text;
}

std::vector<const Family*> families_of(std::string_view op, std::size_t rank) {
    std::vector<const Family*> found;
    for (const Family& family : families())
        if (family.op == op && family.rank() == rank) found.push_back(&family);
    return found;
}

Result<std::vector<Case>> compiled_cases() {
    std::vector<Case> cases;
    for (const Family& family : families()) {
        for (const Types& types : {Types(DType::f32), Types(DType::f16)}) {
            if (std::ranges::find(family.types, types) == family.types.end()) continue;
            for (const auto* shapes : {&family.shapes, &family.gpu_shapes})
                for (const Family::Dims& shape : *shapes) {
                    VKFORMER_TRY(cases.emplace_back(), family.make(shape, types));
                }
        }
        for (const Family::Compiled& compiled : family.compiled)
            for (const Types& types : compiled.types) {
                VKFORMER_TRY(cases.emplace_back(), family.make(compiled.shape, types));
            }
    }
    return cases;
}

namespace {

template <class Names>
bool holds(const Names& names, std::string_view name) {
    return std::ranges::find(names, name) != std::ranges::end(names);
}

std::string list_of(const auto& names) {
    std::string text;
    for (const auto& name : names) text += (text.empty() ? "" : ", ") + std::string(name);
    return text;
}

Result<std::vector<Family::Dims>> shapes_of(const Family& family, const Choice& choice) {
    if (choice.shapes.empty()) {
        std::vector<Family::Dims> shapes = family.shapes;
        if (choice.is_gpu) shapes.insert(shapes.end(), family.gpu_shapes.begin(), family.gpu_shapes.end());
        return shapes;
    }
    std::vector<Family::Dims> shapes;
    for (const std::string& text : choice.shapes) {
        VKFORMER_TRY(shapes.emplace_back(), parse_shape(text));
        if (shapes.back().size() != family.rank())
            return Error{ErrorCode::InvalidArgument,
                         std::string(family.name) + " takes the shape " + std::string(family.dims) + ", not " + text};
    }
    return shapes;
}

Result<void> check_names(const Choice& choice) {
    for (const std::string& op : choice.ops)
        if (std::ranges::find(families(), op, &Family::name) == families().end()) {
            std::vector<std::string_view> known;
            for (const Family& family : families()) known.push_back(family.name);
            return Error{ErrorCode::InvalidArgument,
                         "there is no case for op " + op + "; there are: " + list_of(known)};
        }
    return {};
}

}  // namespace

Result<std::vector<Case>> choose_cases(const Choice& choice) {
    VKFORMER_CHECK(check_names(choice));
    std::vector<Case> cases;
    for (const Family& family : families()) {
        if (!choice.ops.empty() && !holds(choice.ops, family.name)) continue;
        VKFORMER_TRY(const auto shapes, shapes_of(family, choice));
        std::vector<std::string> names = choice.dtypes;
        if (names.empty()) names.push_back(family.types.front().name());
        for (const std::string& name : names) {
            const auto types = std::ranges::find(family.types, name, &Types::name);
            if (types == family.types.end()) {
                if (choice.ops.empty()) continue;  // a sweep over all ops takes what each of them has
                std::vector<std::string> known;
                for (const Types& has : family.types) known.push_back(has.name());
                return Error{ErrorCode::InvalidArgument,
                             std::string(family.name) + " has no dtype " + name + "; it has: " + list_of(known)};
            }
            for (const Family::Dims& shape : shapes) {
                VKFORMER_TRY(cases.emplace_back(), family.make(shape, *types));
            }
        }
    }
    if (cases.empty() && choice.dtypes.empty())
        return Error{ErrorCode::InvalidArgument,
                     "no model has a shape of its own for " + list_of(choice.ops) + "; name one with --shape"};
    if (cases.empty()) return Error{ErrorCode::InvalidArgument, "no case has the dtype " + list_of(choice.dtypes)};
    return cases;
}

}  // namespace vkformer::cases
