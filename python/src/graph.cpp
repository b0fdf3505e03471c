// SPDX-License-Identifier: MIT
/// Graphs of the C interface: devices, graphs that grow by ops, programs that run on arrays.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <exception>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/pair.h>

#include "convert.hpp"
#include "vkformer/vkformer.h"

namespace vkformer::python {
namespace {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Target = nb::ndarray<nb::c_contig, nb::device::cpu>;
using Extents = std::vector<std::uint64_t>;
using Count = std::uint32_t;

/// Raises what the last call of this thread has met: VKF_ERROR_NO_DEVICE is "no_device" in Python.
void check(vkf_result result) {
    if (result >= 0) return;
    std::string code = vkf_result_string(result);
    code.erase(0, std::string("VKF_ERROR_").size());
    std::ranges::transform(code, code.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const nb::object made = nb::module_::import_("vkformer._errors")
                                .attr("from_library")(text(vkf_error_message()), code, int(vkf_error_vk_result()));
    PyErr_SetObject(made.type().ptr(), made.ptr());
    throw nb::python_error();
}

/// What a function of the C interface gives that runs for long.
vkf_result without_gil(const auto& call) {
    vkf_result done = VKF_SUCCESS;
    {
        nb::gil_scoped_release no_gil;
        done = call();
    }
    check(done);
    return done;
}

/// What handlers of signals raise while a run on the CPU goes on; they run in the main thread alone.
class Signals {
public:
    static constexpr std::chrono::nanoseconds kBetween = std::chrono::milliseconds(50);

    /// Without the GIL, which another thread may hold for milliseconds: it is taken from time to time.
    bool have_raised() {
        const auto now = std::chrono::steady_clock::now();
        if (now - asked_ < kBetween) return false;
        asked_ = now;
        const nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() == 0) return false;
        raised_ = std::make_exception_ptr(nb::python_error());
        return true;
    }
    void rethrow() {
        if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
    }

private:
    std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
    std::exception_ptr raised_;
};

template <class T>
struct Destroy;
template <>
struct Destroy<vkf_device> {
    static void call(vkf_device* device) { vkf_device_destroy(device); }
};
template <>
struct Destroy<vkf_program> {
    static void call(vkf_program* program) { vkf_program_destroy(program); }
};

/// A handle of the process that made it: in a forked one the threads of drivers are gone, and it is left alone.
template <class T>
class Owned {
public:
    Owned() = default;
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() { close(); }

    T** target() { return &handle_; }
    T* get() const {
        if (getpid() != process_)
            throw nb::builtin_exception(nb::exception_type::runtime_error,
                                        "the graph was made before this process was forked and cannot be used in it: "
                                        "make it here, or start processes by \"spawn\"");
        if (!handle_) throw nb::value_error("the graph is closed");
        return handle_;
    }
    void close() {
        T* const handle = std::exchange(handle_, nullptr);
        if (!handle || getpid() != process_) return;
        nb::gil_scoped_release no_gil;
        Destroy<T>::call(handle);
    }

private:
    T* handle_ = nullptr;
    pid_t process_ = getpid();
};

struct Device : Owned<vkf_device> {
    Device(const nb::str& choice, bool plain, const std::map<std::string, std::string>& variants) {
        const std::string name = text_of(choice);
        std::vector<vkf_variant> named;
        for (const auto& [op, variant] : variants) named.push_back({op.c_str(), variant.c_str()});
        vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
        options.variants = plain ? VKF_VARIANTS_PLAIN : VKF_VARIANTS_DEFAULT;
        options.named_variants = named.empty() ? nullptr : named.data();
        options.named_variant_count = static_cast<Count>(named.size());
        without_gil([&] { return vkf_device_create(name.c_str(), &options, target()); });
    }
};

/// A graph that grows. Values are numbers, 0 is none.
class Builder {
public:
    Builder() { check(vkf_graph_create(&graph_)); }
    Builder(const Builder&) = delete;
    Builder& operator=(const Builder&) = delete;
    ~Builder() { vkf_graph_destroy(graph_); }

    vkf_graph* get() const noexcept { return graph_; }

    /// What a function of the C interface adds.
    template <class Function, class... Arguments>
    vkf_value add(Function function, Arguments... arguments) {
        vkf_value value = 0;
        check(function(graph_, arguments..., &value));
        return value;
    }

    nb::tuple describe(vkf_value value) const {
        vkf_tensor tensor = VKF_TENSOR_INIT;
        check(vkf_graph_query(graph_, value, &tensor));
        return nb::make_tuple(vkf_dtype_string(tensor.dtype), Extents(tensor.shape, tensor.shape + tensor.rank));
    }

private:
    vkf_graph* graph_ = nullptr;
};

vkf_value find(const Builder& builder, const std::string& name) {
    vkf_value value = 0;
    check(vkf_graph_find(builder.get(), name.c_str(), &value));
    return value;
}

/// Destroyed before its device, which is handed to every call that runs.
struct Program : Owned<vkf_program> {
    Program(Device& device, Builder& builder) {
        vkf_device* const where = device.get();
        without_gil([&] { return vkf_program_create(where, builder.get(), nullptr, target()); });
    }

    void run(Device& device, const std::vector<std::pair<std::string, Array>>& inputs,
             const std::vector<std::pair<std::string, Target>>& outputs) {
        vkf_program* const program = get();
        std::uint64_t ticket = 0;
        Signals signals;
        vkf_submit_info info = VKF_SUBMIT_INFO_INIT;
        info.should_stop = [](void* user) -> VkBool32 { return static_cast<Signals*>(user)->have_raised(); };
        info.stop_user = &signals;
        try {
            without_gil([&] {
                for (const auto& [name, array] : inputs)
                    if (const auto r = vkf_program_write(program, name.c_str(), array.data(), array.nbytes()); r < 0)
                        return r;
                return vkf_program_submit(program, &info, &ticket);
            });
        } catch (const nb::python_error&) {
            signals.rethrow();
            throw;
        }
        vkf_device* const where = device.get();
        while (without_gil([&] { return vkf_device_wait(where, ticket, Signals::kBetween.count()); }) != VKF_SUCCESS)
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
        without_gil([&] {
            for (const auto& [name, array] : outputs)
                if (const auto r = vkf_program_read(program, name.c_str(), array.data(), array.nbytes()); r < 0)
                    return r;
            return VKF_SUCCESS;
        });
    }

    nb::list nodes() const {
        Count count = 0;
        check(vkf_program_nodes(get(), &count, nullptr));
        std::vector<vkf_node> found(count);
        check(vkf_program_nodes(get(), &count, found.data()));
        nb::list result;
        for (const vkf_node& node : found) result.append(nb::make_tuple(text(node.name), node.op, node.variant));
        return result;
    }
};

/// The value whose name vkf_dtype_string or the like gives.
template <class Enum>
Enum named(const std::string& name, const char* (*to_name)(Enum), Enum last, const char* what) {
    for (int code = 0; code <= static_cast<int>(last); ++code)
        if (name == to_name(static_cast<Enum>(code))) return static_cast<Enum>(code);
    throw nb::value_error(("there is no " + std::string(what) + " \"" + name + "\"").c_str());
}
vkf_dtype dtype_of(const std::string& name) { return named(name, vkf_dtype_string, VKF_MXFP4, "dtype"); }
vkf_activation activation_of(const std::string& name) {
    return named(name, vkf_activation_string, VKF_ACTIVATION_RELU_SQUARED, "activation");
}

void bind_builder(nb::module_& module) {
    nb::class_<Builder>(module, "GraphBuilder")
        .def(nb::init<>())
        .def("describe", &Builder::describe)
        .def("find", &find)
        .def("input",
             [](Builder& b, const std::string& name, const std::string& dtype, const Extents& shape) {
                 return b.add(vkf_graph_input, name.c_str(), dtype_of(dtype), Count(shape.size()), shape.data());
             })
        .def(
            "constant",
            [](Builder& b, const std::string& name, const std::string& dtype, const Extents& shape, const Array& data) {
                return b.add(vkf_graph_constant, name.c_str(), dtype_of(dtype), Count(shape.size()), shape.data(),
                             data.data(), data.nbytes());
            })
        .def("output", [](Builder& b, vkf_value value,
                          const std::string& name) { check(vkf_graph_output(b.get(), value, name.c_str())); })
        .def(
            "attention",
            [](Builder& b, vkf_value query, vkf_value key, vkf_value value, float scale, bool causal, Count window,
               float soft_cap, vkf_value lengths, vkf_value starts, vkf_value bias, Count split_keys,
               const std::string& weights) {
                vkf_attention_options options = VKF_ATTENTION_OPTIONS_INIT;
                options.scale = scale;
                options.causal = causal ? VK_TRUE : VK_FALSE;
                options.window = window;
                options.soft_cap = soft_cap;
                options.key_lengths = lengths;
                options.weights_output = weights.empty() ? nullptr : weights.c_str();
                options.starts = starts;
                options.bias = bias;
                options.split_keys = split_keys;
                return b.add(vkf_graph_attention, query, key, value, &options);
            },
            nb::arg("query"), nb::arg("key"), nb::arg("value"), nb::kw_only(), nb::arg("scale"), nb::arg("causal"),
            nb::arg("window"), nb::arg("soft_cap"), nb::arg("lengths"), nb::arg("starts"), nb::arg("bias"),
            nb::arg("split_keys"), nb::arg("weights"))
        .def("linear",
             [](Builder& b, vkf_value x, vkf_value w, vkf_value bias) { return b.add(vkf_graph_linear, x, w, bias); })
        .def("layer_norm", [](Builder& b, vkf_value x, vkf_value gain, vkf_value bias,
                              float eps) { return b.add(vkf_graph_layer_norm, x, gain, bias, eps); })
        .def("rms_norm",
             [](Builder& b, vkf_value x, vkf_value gain, float eps) { return b.add(vkf_graph_rms_norm, x, gain, eps); })
        .def("add", [](Builder& b, vkf_value x, vkf_value y) { return b.add(vkf_graph_add, x, y); })
        .def("concat", [](Builder& b, vkf_value x, vkf_value y) { return b.add(vkf_graph_concat, x, y); })
        .def("softmax", [](Builder& b, vkf_value x) { return b.add(vkf_graph_softmax, x); })
        .def("soft_cap", [](Builder& b, vkf_value x, float cap) { return b.add(vkf_graph_soft_cap, x, cap); })
        .def("activation", [](Builder& b, vkf_value x,
                              const std::string& f) { return b.add(vkf_graph_activation, x, activation_of(f)); })
        .def("gated_activation",
             [](Builder& b, vkf_value gate, vkf_value up, const std::string& f) {
                 return b.add(vkf_graph_gated_activation, gate, up, activation_of(f));
             })
        .def("embedding", [](Builder& b, vkf_value tokens, vkf_value table,
                             float scale) { return b.add(vkf_graph_embedding, tokens, table, scale); })
        .def("rope",
             [](Builder& b, vkf_value x, vkf_value table, vkf_value starts, bool interleaved) {
                 return b.add(vkf_graph_rope, x, table, starts, interleaved ? VKF_ROPE_INTERLEAVED : VKF_ROPE_HALVES);
             })
        .def("reshape", [](Builder& b, vkf_value x, const Extents& shape) {
            return b.add(vkf_graph_reshape, x, Count(shape.size()), shape.data());
        });
}

}  // namespace

void bind_graph(nb::module_& module) {
    nb::class_<Device>(module, "GraphDevice")
        .def(nb::init<const nb::str&, bool, const std::map<std::string, std::string>&>())
        .def("name", [](const Device& device) { return text(vkf_device_name(device.get())); })
        .def("close", &Device::close);
    bind_builder(module);
    nb::class_<Program>(module, "GraphProgram")
        .def(nb::init<Device&, Builder&>())
        .def("run", &Program::run, nb::arg("device"), nb::arg("inputs"), nb::arg("outputs"))
        .def("nodes", &Program::nodes)
        .def("close", &Program::close);

    module.def("quantized_bytes", [](const std::string& format, std::size_t count) {
        std::size_t bytes = 0;
        check(vkf_quantize(dtype_of(format), count, nullptr, &bytes, nullptr));
        return bytes;
    });
    module.def("quantize", [](const std::string& format, const Array& numbers, const Target& data) {
        const vkf_dtype dtype = dtype_of(format);
        std::size_t bytes = data.nbytes();
        without_gil([&] {
            return vkf_quantize(dtype, numbers.size(), static_cast<const float*>(numbers.data()), &bytes, data.data());
        });
    });
    module.def("dequantize", [](const std::string& format, const Array& data, const Target& numbers) {
        const vkf_dtype dtype = dtype_of(format);
        without_gil([&] {
            return vkf_dequantize(dtype, data.nbytes(), data.data(), numbers.size(),
                                  static_cast<float*>(numbers.data()));
        });
    });
}

}  // namespace vkformer::python
