// SPDX-License-Identifier: MIT
#include "bench/shader_case.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "bench/measure.hpp"
#include "bench/shader_runner.hpp"
#include "core/try.hpp"

namespace vkformer::bench {
namespace {

constexpr std::size_t kMaxShaderCopies = 16;  // each is a pipeline and buffers of its own
constexpr double kMaxDispatches = 64;

/// What the manifest compares with.
struct Reference {
    cases::Case which;
    cases::CaseBuilder builder;
};

Result<Reference> make_reference(const ShaderManifest::Reference& asked) {
    cases::Choice choice{.ops = {asked.op}, .shapes = {asked.shape}};
    if (!asked.dtype.empty()) choice.dtypes = {asked.dtype};
    VKFORMER_TRY(auto found, cases::choose_cases(choice));
    Reference reference{.which = std::move(found.front())};
    VKFORMER_CHECK(reference.which.build(reference.builder));
    return reference;
}

/// A buffer with what is in it before the first run.
struct Buffer {
    BufferRequest request;
    DType dtype = DType::f32;
    std::size_t count = 0;
    std::vector<std::byte> contents;
};

std::size_t padded_bytes(DType dtype, std::size_t count) { return (count * element_bytes(dtype) + 3) / 4 * 4; }

template <class T>
void fill(std::vector<std::byte>& bytes, std::size_t count, T value) {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

void fill_random(Buffer& buffer) {
    std::mt19937 random(buffer.request.binding + 1);
    std::uniform_real_distribution<float> distribution(-1, 1);
    for (std::size_t i = 0; i < buffer.count; ++i) {
        const float value = distribution(random);
        const std::uint16_t half = float_to_half(value);
        if (buffer.dtype == DType::f32)
            std::memcpy(buffer.contents.data() + 4 * i, &value, 4);
        else
            std::memcpy(buffer.contents.data() + 2 * i, &half, 2);
    }
}

void fill_with(Buffer& buffer, double value) {
    switch (buffer.dtype) {
    case DType::f16: return fill(buffer.contents, buffer.count, float_to_half(static_cast<float>(value)));
    case DType::i32: return fill(buffer.contents, buffer.count, static_cast<std::int32_t>(value));
    default: return fill(buffer.contents, buffer.count, static_cast<float>(value));
    }
}

Result<Buffer> make_operand(const ManifestBuffer& asked, const Reference& reference) {
    auto stored = reference.builder.operand(asked.operand);
    if (!stored) {
        std::string names;
        for (const graph::Tensor& tensor : reference.builder.graph.tensors())
            if (reference.builder.operand(tensor.name)) names += (names.empty() ? "" : ", ") + tensor.name;
        return Error{ErrorCode::InvalidArgument,
                     reference.which.name() + " has no operand \"" + asked.operand + "\"; it has: " + names};
    }
    Buffer buffer{.dtype = stored->dtype, .contents = std::move(stored->bytes)};
    if (!is_quantized(buffer.dtype)) buffer.count = buffer.contents.size() / element_bytes(buffer.dtype);
    buffer.contents.resize((buffer.contents.size() + 3) / 4 * 4);  // blocks may end within a word
    return buffer;
}

Result<Buffer> make_result(const ManifestBuffer& asked, const Reference& reference) {
    const auto results = reference.builder.results();
    if (*asked.result >= results.size())
        return Error{ErrorCode::InvalidArgument,
                     reference.which.name() + " has " + std::to_string(results.size()) + " results, counted from 0"};
    const graph::Tensor& tensor = reference.builder.graph.tensor(results[*asked.result]);
    Buffer buffer{.dtype = tensor.dtype, .count = tensor.shape.element_count()};
    if (auto stored = reference.builder.operand(tensor.name)) {  // a state: what it holds before matters
        buffer.contents = std::move(stored->bytes);
        return buffer;
    }
    buffer.contents.resize(padded_bytes(buffer.dtype, buffer.count));
    fill_with(buffer, buffer.dtype == DType::i32 ? std::numeric_limits<std::int32_t>::min()
                                                 : std::numeric_limits<double>::quiet_NaN());
    return buffer;
}

Buffer make_own(const ManifestBuffer& asked) {
    Buffer buffer{.dtype = asked.dtype, .count = asked.count};
    buffer.request.binding = asked.binding;
    buffer.contents.resize(padded_bytes(buffer.dtype, buffer.count));
    if (asked.random)
        fill_random(buffer);
    else
        fill_with(buffer, asked.value);
    return buffer;
}

Result<std::vector<Buffer>> make_buffers(const ShaderManifest& manifest, const Reference* reference,
                                         std::uint64_t most_bytes) {
    std::vector<Buffer> buffers;
    for (const ManifestBuffer& asked : manifest.buffers) {
        const std::string label = "binding " + std::to_string(asked.binding);
        const std::uint64_t bytes = asked.count * element_bytes(asked.dtype);
        if (bytes > most_bytes)
            return Error{ErrorCode::InvalidArgument, label + ": " + std::to_string(bytes) +
                                                         " bytes; the device binds at most " +
                                                         std::to_string(most_bytes)};
        if (!asked.operand.empty()) {
            VKFORMER_TRY(buffers.emplace_back(), make_operand(asked, *reference));
        } else if (asked.result) {
            VKFORMER_TRY(buffers.emplace_back(), make_result(asked, *reference));
        } else {
            buffers.push_back(make_own(asked));
        }
        buffers.back().request = {.binding = asked.binding, .bytes = buffers.back().contents.size(), .label = label};
    }
    return buffers;
}

Result<std::unique_ptr<ShaderRunner>> make_runner(const std::shared_ptr<vulkan::Device>& device, const ShaderCode& code,
                                                  const std::vector<Buffer>& buffers) {
    std::vector<BufferRequest> requests;
    for (const Buffer& buffer : buffers) requests.push_back(buffer.request);
    VKFORMER_TRY(auto runner, ShaderRunner::create(device, code, requests));
    for (std::size_t i = 0; i < buffers.size(); ++i) VKFORMER_CHECK(runner->write(i, buffers[i].contents));
    return runner;
}

Result<Check> check_result(const Oracle& oracle, graph::Value result, const Buffer& buffer,
                           const std::vector<std::byte>& bytes) {
    if (buffer.dtype == DType::i32) {
        std::vector<std::int32_t> found(buffer.count);
        VKFORMER_CHECK(convert(buffer.dtype, bytes, 0, std::span(found)));
        return oracle.compare(result, std::span<const std::int32_t>(found));
    }
    std::vector<double> found(buffer.count);
    VKFORMER_CHECK(convert(buffer.dtype, bytes, 0, std::span(found)));
    return oracle.compare(result, std::span<const double>(found));
}

/// Every result that the manifest binds, after one run.
Result<Check> check_results(const ShaderManifest& manifest, const Reference& reference,
                            const std::vector<Buffer>& buffers, ShaderRunner& runner) {
    VKFORMER_TRY(const Oracle oracle, Oracle::run(reference.builder));
    Check worst;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        if (!manifest.buffers[i].result) continue;
        std::vector<std::byte> bytes(buffers[i].contents.size());
        VKFORMER_CHECK(runner.read(i, bytes));
        const graph::Value result = reference.builder.results()[*manifest.buffers[i].result];
        VKFORMER_TRY(Check check, check_result(oracle, result, buffers[i], bytes));
        if (!check.right()) {
            check.failure = buffers[i].request.label + ": " + check.failure;
            return check;
        }
        if (check.error >= worst.error) worst = check;
    }
    return worst;
}

cases::Work work_of(const ShaderManifest& manifest, const Reference* reference, const std::vector<Buffer>& buffers) {
    if (manifest.work) return *manifest.work;
    if (reference) return reference->which.work;
    cases::Work work;
    for (const Buffer& buffer : buffers) work.read += static_cast<double>(buffer.contents.size());
    return work;
}

/// Submits to the runners in turn until the times are stable; `launch.times` dispatches per submission.
Result<void> sample(std::vector<std::unique_ptr<ShaderRunner>>& runners, const ShaderLaunch& launch,
                    const MeasureOptions& options, Measurement& result) {
    Sampler device(options.stopping), wall(options.stopping);
    using SteadyClock = std::chrono::steady_clock;
    const std::chrono::duration<double> warm_up(options.warm_up_seconds);
    const auto start = SteadyClock::now();
    auto begin = start;
    for (std::size_t submission = 0;; ++submission) {
        VKFORMER_TRY(const auto times, runners[submission % runners.size()]->run(launch));
        if (submission < options.warm_up || SteadyClock::now() - start < warm_up) {
            begin = SteadyClock::now();
            continue;
        }
        wall.add(times.wall_ns / launch.times);
        if (times.device_ns > 0) device.add(times.device_ns / launch.times);
        const std::chrono::duration<double> elapsed = SteadyClock::now() - begin;
        if ((device.count() > 0 ? device : wall).done(elapsed.count())) break;
    }
    result.device_ns = device.summary();
    result.wall_ns = wall.summary();
    return {};
}

std::size_t copies_for(const MeasureOptions& options, const std::vector<Buffer>& buffers) {
    double bytes = 0;
    for (const Buffer& buffer : buffers) bytes += static_cast<double>(buffer.contents.size());
    if (options.cache == Cache::hot || bytes == 0) return 1;
    return static_cast<std::size_t>(std::clamp(std::ceil(static_cast<double>(options.cold_bytes) / bytes), 1.0,
                                               static_cast<double>(kMaxShaderCopies)));
}

std::string text_of(const std::array<std::uint32_t, 3>& groups) {
    return std::to_string(groups[0]) + "x" + std::to_string(groups[1]) + "x" + std::to_string(groups[2]);
}

/// The dispatches of a submission: as many as take long enough, one where the operands rotate.
Result<std::uint32_t> dispatches(ShaderRunner& runner, const ShaderLaunch& launch, std::size_t copies) {
    if (copies > 1) return 1u;
    VKFORMER_TRY(const auto times, runner.run(launch));
    const double wanted = kSubmitSeconds * 1e9 / std::max(times.best(), 1.0);
    return static_cast<std::uint32_t>(std::clamp(std::floor(wanted), 1.0, kMaxDispatches));
}

}  // namespace

Result<void> check_fit(const SpirvModule& module, const ShaderManifest& manifest) {
    const auto wrong = [](const std::string& what) { return Error{ErrorCode::InvalidArgument, what}; };
    for (const auto& [set, binding, is_storage_buffer, block] : module.resources) {
        if (set != 0) return wrong("the shader has a resource in set " + std::to_string(set) + "; there is set 0 only");
        if (!is_storage_buffer)
            return wrong("binding " + std::to_string(binding) + " of the shader is no storage buffer");
        if (std::ranges::find(manifest.buffers, binding, &ManifestBuffer::binding) == manifest.buffers.end())
            return wrong("the shader has binding " + std::to_string(binding) +
                         ", for which the manifest has no buffer");
    }
    for (const ManifestBuffer& buffer : manifest.buffers)
        if (std::ranges::find(module.resources, buffer.binding, &SpirvModule::Resource::binding) ==
            module.resources.end())
            return wrong("the manifest has a buffer for binding " + std::to_string(buffer.binding) +
                         ", which the shader does not have");
    for (const auto& [id, bits] : manifest.constants)
        if (!module.constants.contains(id))
            return wrong("the manifest sets constant " + std::to_string(id) + ", which the shader does not have");
    return {};
}

Result<CaseReport> measure_shader(const std::shared_ptr<vulkan::Device>& device, const std::string& name,
                                  const SpirvModule& module, const ShaderManifest& manifest,
                                  const MeasureOptions& options) {
    VKFORMER_CHECK(check_fit(module, manifest));
    std::optional<Reference> reference;
    if (manifest.reference) {
        VKFORMER_TRY(reference, make_reference(*manifest.reference));
    }
    const Reference* const known = reference ? &*reference : nullptr;
    VKFORMER_TRY(const auto buffers, make_buffers(manifest, known, device->capabilities().max_storage_buffer_range));
    CaseReport report{.op = name,
                      .shape = known ? known->which.shape : text_of(manifest.groups),
                      .dtype = known ? known->which.dtype : "-",
                      .cache = std::string(to_string(options.cache)),
                      .work = work_of(manifest, known, buffers)};
    const ShaderCode code{
        .name = name, .words = module.words, .constants = manifest.constants, .entry_point = manifest.entry_point};
    std::vector<std::unique_ptr<ShaderRunner>> runners;
    VKFORMER_TRY(runners.emplace_back(), make_runner(device, code, buffers));
    ShaderLaunch launch{.groups = manifest.groups, .push = manifest.push};
    VKFORMER_CHECK(runners.front()->run(launch));
    VKFORMER_CHECK(runners.front()->check_guards());
    report.measured.variant = "own";
    report.measured.shader = name;
    report.measured.code = {runners.front()->code()};
    if (known) {
        VKFORMER_TRY(report.measured.check, check_results(manifest, *known, buffers, *runners.front()));
    }
    if (!report.measured.check.right()) return report;

    report.measured.copies = copies_for(options, buffers);
    while (runners.size() < report.measured.copies) {
        VKFORMER_TRY(runners.emplace_back(), make_runner(device, code, buffers));
    }
    VKFORMER_TRY(launch.times, dispatches(*runners.front(), launch, runners.size()));
    VKFORMER_CHECK(sample(runners, launch, options, report.measured));
    return report;
}

}  // namespace vkformer::bench
