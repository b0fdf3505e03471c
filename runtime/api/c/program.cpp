// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <set>

#include "api/c/handles.hpp"
#include "core/dtype.hpp"
#include "core/try.hpp"
#include "cpu/backend.hpp"
#include "decoding/tensor_io.hpp"

using namespace vkformer;

namespace {

using graph::Value;
using vulkan::VulkanProgram;

constexpr vkf_program_options kDefaultProgramOptions = VKF_PROGRAM_OPTIONS_INIT;

std::uint64_t bytes_of(const graph::Graph& graph, Value value) {
    return graph.shape(value).element_count() * element_bytes(graph.dtype(value));
}

/// What the caller binds memory to, each but once.
class Bound {
public:
    explicit Bound(const c::NamedTensors& tensors) : tensors_(tensors) {}

    Result<Value> take(const char* tensor) {
        const std::string name = tensor ? tensor : "";
        const auto found = tensors_.values.find(name);
        if (found == tensors_.values.end())
            return Error{ErrorCode::InvalidArgument, "no input or output is called \"" + name + "\""};
        if (!taken_.insert(name).second)
            return Error{ErrorCode::InvalidArgument, "\"" + name + "\" is bound twice; give it one buffer or image"};
        return found->second;
    }

private:
    const c::NamedTensors& tensors_;
    std::set<std::string> taken_;
};

/// Elements between neighbours along each dimension of a tensor without gaps.
std::vector<std::uint64_t> row_major_strides(const Shape& shape) {
    std::vector<std::uint64_t> strides(shape.rank(), 1);
    for (std::size_t i = shape.rank(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    return strides;
}

/// The caller's buffers, with gaps and without. Outputs that are views of one tensor share its memory, which can be in one buffer: the
/// others' are copied to.
Result<void> bind_buffers(const vkf_program_options& options, const graph::Graph& graph, Bound& bound,
                          vulkan::ProgramOptions& target) {
    if (options.buffer_count > 0 && !options.buffers)
        return Error{ErrorCode::InvalidArgument, "vkf_program_options::buffers is null, but buffer_count is not 0"};
    for (const vkf_buffer_binding& binding : std::span(options.buffers, options.buffer_count)) {
        VKFORMER_TRY(const Value value, bound.take(binding.tensor));
        const Shape& shape = graph.shape(value);
        const vulkan::Slice slice{binding.buffer, binding.offset, binding.size, nullptr};
        if (binding.strides) {
            target.strided.push_back({value, slice, {binding.strides, binding.strides + shape.rank()}});
        } else if (!target.bindings.emplace(graph.tensor(graph.storage(value)).name, slice).second) {
            target.strided.push_back({value, slice, row_major_strides(shape)});
        }
    }
    return {};
}

Result<std::map<std::string, vulkan::ImageSource>> images_of(const vkf_program_options& options,
                                                             const graph::Graph& graph, Bound& bound) {
    std::map<std::string, vulkan::ImageSource> images;
    if (options.image_count > 0 && !options.images)
        return Error{ErrorCode::InvalidArgument, "vkf_program_options::images is null, but image_count is not 0"};
    for (const vkf_image_binding& binding : std::span(options.images, options.image_count)) {
        VKFORMER_TRY(const Value value, bound.take(binding.tensor));
        vulkan::ImageSource image{.view = binding.view,
                                  .layout = binding.layout,
                                  .mean = {},
                                  .deviation = {},
                                  .storage_format = binding.storage_format};
        std::ranges::copy(binding.mean, image.mean.begin());
        std::ranges::copy(binding.deviation, image.deviation.begin());
        images.emplace(graph.tensor(graph.storage(value)).name, image);
    }
    return images;
}

Result<Value> find(const vkf_program& program, const char* name) {
    const auto found = program.tensors.values.find(name ? std::string_view(name) : std::string_view());
    if (found != program.tensors.values.end()) return found->second;
    std::string known;
    for (const std::string& n : program.tensors.names) known += (known.empty() ? "" : ", ") + n;
    return Error{ErrorCode::InvalidArgument,
                 std::string("no input or output is called \"") + (name ? name : "") + "\"; there are: " + known};
}

/// The tensor of that name, which `data` has as many bytes as.
Result<Value> find_for_copy(vkf_program& program, const char* name, const void* data, size_t bytes) {
    VKFORMER_TRY(const Value value, find(program, name));
    const std::uint64_t needed = bytes_of(program.program->plan().graph, value);
    if (!data) return Error{ErrorCode::InvalidArgument, "data is required"};
    if (bytes != needed)
        return Error{ErrorCode::ShapeMismatch,
                     std::string(name) + " has " + std::to_string(needed) + " bytes, not " + std::to_string(bytes)};
    return value;
}

/// Where the tensor lies, once nothing of ours uses it any more.
Result<vulkan::Slice> slice_for_copy(vulkan::VulkanProgram& program, Value value) {
    VKFORMER_CHECK(program.wait());
    return program.slice(value);
}

Result<void> write_to(graph::Program& program, Value value, std::span<const std::byte> data) {
    const graph::Graph& graph = program.plan().graph;
    const std::size_t count = graph.shape(value).element_count();
    const auto write = [&]<class T>(std::vector<T> values) -> Result<void> {
        VKFORMER_CHECK(convert(graph.dtype(value), data, 0, values));
        return program.write(value, std::span<const T>(values));
    };
    return graph.dtype(value) == DType::i32 ? write(std::vector<std::int32_t>(count))
                                            : write(std::vector<float>(count));
}

Result<void> read_from(graph::Program& program, Value value, std::span<std::byte> data) {
    const auto copy = [&](const auto& numbers) { std::memcpy(data.data(), numbers.data(), data.size()); };
    const DType dtype = program.plan().graph.dtype(value);
    if (dtype == DType::i32) {
        VKFORMER_TRY(const auto ints, decoding::read_ints(program, value));
        copy(ints);
        return {};
    }
    VKFORMER_TRY(const auto floats, decoding::read_tensor<float>(program, value));
    if (dtype == DType::f32) {
        copy(floats);
        return {};
    }
    std::vector<std::uint16_t> halves(floats.size());
    std::ranges::transform(floats, halves.begin(), float_to_half);
    copy(halves);
    return {};
}

std::vector<vulkan::SemaphorePoint> points(std::uint32_t count, const VkSemaphore* semaphores,
                                           const std::uint64_t* values) {
    std::vector<vulkan::SemaphorePoint> result;
    for (std::uint32_t i = 0; i < count; ++i) result.push_back({semaphores[i], values[i]});
    return result;
}

}  // namespace

namespace vkformer::c {

Result<Submission> submission_of(const Device& device, const vkf_submit_info* info) {
    constexpr vkf_submit_info kDefault = VKF_SUBMIT_INFO_INIT;
    VKFORMER_TRY(const auto given, read_struct(info, kDefault, "vkf_submit_info"));
    const bool is_whole = (given.wait_count == 0 || (given.wait_semaphores && given.wait_values)) &&
                          (given.signal_count == 0 || (given.signal_semaphores && given.signal_values));
    if (!is_whole)
        return Error{ErrorCode::InvalidArgument,
                     "vkf_submit_info: a count without semaphores and values; all of them are timeline semaphores"};
    if (given.wait_count > 0 || given.signal_count > 0) VKFORMER_CHECK(device.need_vulkan("a semaphore"));
    Submission result{
        .semaphores = {.waits = points(given.wait_count, given.wait_semaphores, given.wait_values),
                       .signals = points(given.signal_count, given.signal_semaphores, given.signal_values)},
        .should_stop = {}};
    if (given.should_stop)
        result.should_stop = [ask = given.should_stop, user = given.stop_user] { return ask(user) != VK_FALSE; };
    return result;
}

Result<vulkan::VulkanBackend*> Device::need_vulkan(const std::string& what) const {
    if (vulkan_) return vulkan_;
    return Error{ErrorCode::MissingFeature, what + " needs Vulkan, and this device is VKF_DEVICE_CPU"};
}

namespace {

/// What the chosen variants are called, where no choice stands for the first.
vulkan::ChosenVariants variants_by_name(const vulkan::VulkanBackend& backend, const graph::Plan& plan,
                                        vulkan::ChosenVariants chosen) {
    const auto nodes = plan.graph.nodes();
    chosen.resize(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i)
        if (chosen[i].empty())
            chosen[i] = vulkan::fitting_kernels(nodes[i].op, {plan.graph, backend.capabilities()}).front()->name;
    return chosen;
}

Result<void> compile_on(vulkan::VulkanBackend& backend, const graph::Plan& plan,
                        std::shared_ptr<graph::TensorStore> weights, vulkan::ProgramOptions memory,
                        vkf_program& target) {
    const auto states = std::make_shared<vulkan::VulkanStore>(backend.device());
    const graph::Plan* const plans[] = {&plan};
    VKFORMER_TRY(const auto needs, vulkan::memory_needs(*backend.device(), plans,
                                                        static_cast<const vulkan::VulkanStore&>(*weights), *states));
    VKFORMER_CHECK(backend.device()->allocator().check(needs.total(), "the program"));
    VKFORMER_TRY(auto chosen, backend.default_options(plan));
    chosen.bindings = std::move(memory.bindings);
    chosen.strided = std::move(memory.strided);
    chosen.images = std::move(memory.images);
    target.variants = variants_by_name(backend, plan, chosen.variants);
    VKFORMER_TRY(auto program, backend.compile_program(plan, std::move(weights), states, chosen));
    target.vulkan = program.get();
    target.program = std::move(program);
    return {};
}

}  // namespace

Result<std::unique_ptr<vkf_program>> compile(std::shared_ptr<Device> device, graph::Graph graph, NamedTensors tensors,
                                             const vkf_program_options* options,
                                             std::shared_ptr<graph::TensorStore> weights) {
    VKFORMER_TRY(const auto given, read_struct(options, kDefaultProgramOptions, "vkf_program_options"));
    if (given.buffer_count > 0 || given.image_count > 0)
        VKFORMER_CHECK(device->need_vulkan("vkf_program_options: to bind buffers and images"));
    Bound bound(tensors);
    vulkan::ProgramOptions memory;
    VKFORMER_CHECK(bind_buffers(given, graph, bound, memory));
    VKFORMER_TRY(memory.images, images_of(given, graph, bound));
    graph::Backend& backend = device->backend();
    graph::Plan plan = graph::make_plan_for(backend, std::move(graph));
    auto made = std::make_unique<vkf_program>();
    if (device->vulkan()) {
        VKFORMER_CHECK(compile_on(*device->vulkan(), plan, std::move(weights), std::move(memory), *made));
    } else {
        VKFORMER_TRY(made->program, backend.compile(std::move(plan), std::move(weights), backend.make_store()));
    }
    made->device = std::move(device);
    made->tensors = std::move(tensors);
    return made;
}

}  // namespace vkformer::c

vkf_result vkf_program_create(vkf_device* device, vkf_graph* graph, const vkf_program_options* options,
                              vkf_program** program) {
    if (!device || !graph || !program) return c::invalid("device, graph and program are required");
    if (graph->is_spent) return c::invalid("the graph has become a program already; make a new one");
    return c::guarded([&]() -> Result<void> {
        graph->is_spent = true;
        VKFORMER_TRY(auto made, c::compile(device->device, std::move(graph->graph), std::move(graph->tensors), options,
                                           device->device->backend().make_store()));
        *program = made.release();
        return {};
    });
}

void vkf_program_destroy(vkf_program* program) { delete program; }

vkf_result vkf_program_tensor(const vkf_program* program, const char* name, vkf_tensor* tensor) {
    if (!program) return c::invalid("program is required");
    return c::guarded([&] {
        const auto value = find(*program, name);
        if (!value) return c::fail(value.error());
        vkf_tensor answer = c::describe(program->program->plan().graph, *value);
        if (program->vulkan) {
            const auto slice = program->vulkan->slice(*value);
            if (!slice) return c::fail(slice.error());
            answer.buffer = slice->buffer;
            answer.offset = slice->offset;
            answer.mapped = slice->mapped;
            answer.memory = slice->memory;
            answer.memory_offset = slice->memory_offset;
        }
        return c::write_struct(tensor, answer, "vkf_tensor");
    });
}

const char* vkf_program_tensor_name(const vkf_program* program, uint32_t index) {
    return program && index < program->tensors.names.size() ? program->tensors.names[index].c_str() : nullptr;
}

vkf_result vkf_program_nodes(const vkf_program* program, uint32_t* count, vkf_node* nodes) {
    if (!program) return c::invalid("program is required");
    return c::guarded([&] {
        std::vector<vkf_node> answer;
        for (const graph::Node& node : program->program->plan().graph.nodes()) {
            const bool has_variant = answer.size() < program->variants.size();
            answer.push_back({.name = node.name.c_str(),
                              .op = graph::op_name(node.op).data(),
                              .variant = has_variant ? program->variants[answer.size()].c_str() : ""});
        }
        return c::write_array(std::span<const vkf_node>(answer), count, nodes);
    });
}

vkf_result vkf_program_record(const vkf_program* program, VkCommandBuffer commands) {
    if (!program || !commands) return c::invalid("program and commands are required");
    return c::guarded([&]() -> Result<void> {
        VKFORMER_CHECK(program->device->need_vulkan("to record a program"));
        program->vulkan->record(commands);
        return {};
    });
}

vkf_result vkf_program_submit(vkf_program* program, const vkf_submit_info* info, uint64_t* ticket) {
    if (!program) return c::invalid("program is required");
    return c::guarded([&]() -> Result<void> {
        VKFORMER_TRY(const auto submission, c::submission_of(*program->device, info));
        std::uint64_t value = 0;
        if (program->vulkan) {
            VKFORMER_TRY(value, program->vulkan->submit(submission.semaphores));
        } else {
            for (std::size_t node = 0; node < program->program->plan().graph.nodes().size(); ++node) {
                if (submission.should_stop && submission.should_stop())
                    return Error{ErrorCode::Cancelled, "vkf_submit_info::should_stop ended the run before its end"};
                VKFORMER_CHECK(cpu::run_node(*program->program, node));
            }
            value = program->device->take_ticket();
        }
        if (ticket) *ticket = value;
        return {};
    });
}

vkf_result vkf_program_write(vkf_program* program, const char* name, const void* data, size_t bytes) {
    if (!program) return c::invalid("program is required");
    return c::guarded([&]() -> Result<void> {
        VKFORMER_TRY(const Value value, find_for_copy(*program, name, data, bytes));
        const std::span source(static_cast<const std::byte*>(data), bytes);
        if (!program->vulkan) return write_to(*program->program, value, source);
        VKFORMER_TRY(const auto slice, slice_for_copy(*program->vulkan, value));
        return program->device->vulkan()->device()->transfer().upload(slice, 0, source);
    });
}

vkf_result vkf_program_read(vkf_program* program, const char* name, void* data, size_t bytes) {
    if (!program) return c::invalid("program is required");
    return c::guarded([&]() -> Result<void> {
        VKFORMER_TRY(const Value value, find_for_copy(*program, name, data, bytes));
        const std::span target(static_cast<std::byte*>(data), bytes);
        if (!program->vulkan) return read_from(*program->program, value, target);
        VKFORMER_TRY(const auto slice, slice_for_copy(*program->vulkan, value));
        return program->device->vulkan()->device()->transfer().download(slice, 0, target);
    });
}
