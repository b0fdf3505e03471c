// SPDX-License-Identifier: MIT
#include "vulkan/store.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/block_format.hpp"
#include "core/tasks.hpp"
#include "core/try.hpp"
#include "vulkan/block_layout.hpp"

namespace vkformer::vulkan {

using graph::Tensor;
using graph::TensorKind;
using graph::Value;

std::vector<std::byte> encode(DType dtype, std::span<const float> values) {
    if (is_quantized(dtype)) {
        std::vector<std::byte> blocks(bytes_of(dtype, values.size()));
        quantize(dtype, values, blocks);
        ArrangedBlocks arranged = arrange_blocks(dtype, blocks);
        arranged.vectors.insert(arranged.vectors.end(), arranged.rest.begin(), arranged.rest.end());
        return std::move(arranged.vectors);
    }
    std::vector<std::byte> bytes((values.size() * element_bytes(dtype) + 3) / 4 * 4);
    const auto put = [&](std::size_t i, std::uint16_t value) { std::memcpy(bytes.data() + 2 * i, &value, 2); };
    if (dtype == DType::f16)
        for (std::size_t i = 0; i < values.size(); ++i) put(i, float_to_half(values[i]));
    else if (dtype == DType::bf16)
        for (std::size_t i = 0; i < values.size(); ++i) put(i, float_to_bfloat(values[i]));
    else
        std::memcpy(bytes.data(), values.data(), values.size_bytes());
    return bytes;
}

std::vector<MemoryBlocks::Request> requests_of(std::span<const Tensor* const> tensors) {
    std::vector<MemoryBlocks::Request> requests;
    for (const Tensor* tensor : tensors) requests.push_back({graph::storage_bytes(*tensor), tensor->name});
    return requests;
}

namespace {

/// A part of a weight, whose first element is number `at` of the whole: blocks, arranged as the shaders read them.
Result<void> upload_blocks(Transfer& transfer, const Slice& slice, const Tensor& tensor, const TensorData& part,
                           std::uint64_t at) {
    constexpr std::uint64_t kChunk = 1 << 22;  // elements: so many blocks that their rests are whole words
    const std::uint64_t count = part.shape.element_count(), rests_at = tensor.shape.element_count();
    const std::uint64_t block = block_elements(tensor.dtype), vectors = vector_bytes(tensor.dtype);
    for (std::uint64_t first = 0; first < count; first += kChunk) {
        const std::uint64_t bytes = bytes_of(tensor.dtype, std::min(kChunk, count - first));
        const ArrangedBlocks arranged =
            arrange_blocks(tensor.dtype, part.bytes.subspan(bytes_of(tensor.dtype, first), bytes));
        const std::uint64_t index = (at + first) / block;
        VKFORMER_CHECK(transfer.upload(slice, index * vectors, arranged.vectors));
        VKFORMER_CHECK(
            transfer.upload(slice, rests_at / block * vectors + index * rest_bytes(tensor.dtype), arranged.rest));
    }
    return {};
}

/// The same of numbers, converted to what the device stores.
Result<void> upload_numbers(Transfer& transfer, const Slice& slice, const Tensor& tensor, const TensorData& part,
                            std::uint64_t at) {
    constexpr std::size_t kChunk = 1 << 20;  // elements; even, so that a chunk of halves is whole words
    const std::size_t count = part.shape.element_count(), size = element_bytes(tensor.dtype);
    if (part.dtype == tensor.dtype) return transfer.upload(slice, at * size, part.bytes);
    std::vector<float> floats(tensor.dtype == DType::i32 ? 0 : std::min(kChunk, count));
    std::vector<std::int32_t> integers(tensor.dtype == DType::i32 ? std::min(kChunk, count) : 0);
    for (std::size_t first = 0; first < count; first += kChunk) {
        const std::size_t n = std::min(kChunk, count - first);
        if (tensor.dtype == DType::i32) {
            VKFORMER_CHECK(convert(part.dtype, part.bytes, first, std::span(integers).first(n)));
            VKFORMER_CHECK(transfer.upload(slice, (at + first) * size, std::as_bytes(std::span(integers).first(n))));
        } else {
            VKFORMER_CHECK(convert(part.dtype, part.bytes, first, std::span(floats).first(n)));
            VKFORMER_CHECK(
                transfer.upload(slice, (at + first) * size, encode(tensor.dtype, std::span(floats).first(n))));
        }
    }
    return {};
}

Result<void> upload_weight(Transfer& transfer, const Slice& slice, const Tensor& tensor) {
    std::uint64_t at = 0;
    for (const TensorData& part : tensor.data) {
        if (is_quantized(tensor.dtype)) {
            VKFORMER_CHECK(upload_blocks(transfer, slice, tensor, part, at));
        } else {
            VKFORMER_CHECK(upload_numbers(transfer, slice, tensor, part, at));
        }
        at += part.shape.element_count();
    }
    return {};
}

}  // namespace

VulkanStore::Entry VulkanStore::entry(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return entries_.at(name);
}

bool VulkanStore::has(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return entries_.contains(name);
}

namespace {

/// The bytes of a weight that the device can read where the host has them: stored as the shaders read it, in one piece, and large enough
/// to be worth the pages around it. Else nothing.
std::span<const std::byte> bytes_in_place(const Device& device, const Tensor& tensor) {
    constexpr std::size_t kLeastBytes = 64 << 10;
    constexpr VkDeviceSize kVectorBytes = 32;  // which then never lies in two cache lines
    const Capabilities& c = device.capabilities();
    if (c.host_memory_alignment == 0 || !c.unified_memory || tensor.kind != TensorKind::weight) return {};
    if (is_quantized(tensor.dtype) || tensor.data.empty()) return {};
    const std::byte* const begin = tensor.data.front().bytes.data();
    const std::byte* end = begin;
    for (const TensorData& part : tensor.data) {
        const bool follows = part.bytes.data() == end && part.owner && part.owner == tensor.data.front().owner;
        if (!follows || part.dtype != tensor.dtype) return {};
        end += part.bytes.size();
    }
    const auto bytes = static_cast<std::size_t>(end - begin);
    const VkDeviceSize alignment = std::max(slice_alignment(device), kVectorBytes);
    if (reinterpret_cast<std::uintptr_t>(begin) % alignment != 0 || bytes % 4 != 0) return {};
    if (bytes < kLeastBytes || bytes > c.max_storage_buffer_range) return {};
    return {begin, bytes};
}

/// Splits what lies in one owner's memory into pieces that a buffer may have, and calls take(pieces' tensors, bytes) for each.
void for_each_piece(std::vector<const Tensor*> tensors, const Device& device, auto&& take) {
    constexpr std::uint64_t kMostBytes = 1 << 30;
    const std::uint64_t most = std::min(kMostBytes, device.capabilities().max_allocation_bytes / 2);
    const auto bytes_of_tensor = [&](const Tensor* t) { return bytes_in_place(device, *t); };
    std::ranges::sort(tensors, {}, [&](const Tensor* t) { return bytes_of_tensor(t).data(); });
    for (std::size_t first = 0, last = 0; first < tensors.size(); first = last) {
        const auto& owner = tensors[first]->data.front().owner;
        const std::byte* const begin = bytes_of_tensor(tensors[first]).data();
        const std::byte* end = begin;
        for (last = first; last < tensors.size() && tensors[last]->data.front().owner == owner; ++last) {
            const auto bytes = bytes_of_tensor(tensors[last]);
            const std::byte* const further = std::max(end, bytes.data() + bytes.size());
            if (last > first && static_cast<std::uint64_t>(further - begin) > most) break;
            end = further;
        }
        take(std::span(tensors).subspan(first, last - first), std::span(begin, end));
    }
}

}  // namespace

void VulkanStore::import_in_place(Tensors& missing) {
    Tensors tensors;
    std::ranges::copy_if(missing, std::back_inserter(tensors),
                         [&](const Tensor* t) { return !bytes_in_place(*device_, *t).empty(); });
    for_each_piece(std::move(tensors), *device_, [&](auto piece, std::span<const std::byte> bytes) {
        auto buffer = HostBuffer::import(*device_, bytes, "vkformer weights");
        if (!buffer) return;
        for (const Tensor* tensor : piece)
            entries_.emplace(tensor->name,
                             Entry{tensor->dtype, tensor->shape, buffer->slice(bytes_in_place(*device_, *tensor))});
        share_.add(graph::Stored::weights_in_place, bytes.size());
        owners_.push_back(piece.front()->data.front().owner);
        imported_.push_back(*std::move(buffer));
    });
    std::erase_if(missing, [&](const Tensor* t) { return entries_.contains(t->name); });
}

Result<VulkanStore::Tensors> VulkanStore::find_missing(const PiecedPlan& pieced, TensorKind kind) const {
    Tensors missing;
    const graph::Graph& graph = pieced.plan.graph;
    for (std::uint32_t id = 0; id < graph.tensors().size(); ++id) {
        const Tensor& tensor = graph.tensor(Value{id});
        if (tensor.kind != kind || tensor.alias_of || pieced.cut.contains(id)) continue;
        const auto known = entries_.find(tensor.name);
        if (known == entries_.end()) {
            missing.push_back(&tensor);
        } else if (known->second.dtype != tensor.dtype || known->second.shape != tensor.shape) {
            return Error{ErrorCode::ShapeMismatch,
                         tensor.name + " is " + std::string(to_string(known->second.dtype)) + " " +
                             to_string(known->second.shape) + " in another program of this store, here " +
                             std::string(to_string(tensor.dtype)) + " " + to_string(tensor.shape)};
        }
    }
    return missing;
}

Result<void> VulkanStore::make(const Tensors& tensors, TensorKind kind, Buffer::Use use, bool guards) {
    if (tensors.empty()) return {};
    const bool is_weight = kind == TensorKind::weight, is_on_host = use == Buffer::Use::host_tensors;
    VKFORMER_TRY(auto blocks, MemoryBlocks::create(*device_, requests_of(tensors), guards,
                                                   is_weight ? "vkformer weights" : "vkformer states", use));
    Transfer& transfer = device_->transfer();
    std::vector<Result<void>> filled(tensors.size());
    const auto fill = [&](std::size_t i) {
        const Slice& slice = blocks.slices()[i];
        filled[i] = is_weight ? upload_weight(transfer, slice, *tensors[i]) : transfer.clear(slice);
    };
    if (device_->is_own()) {
        run_tasks(tensors.size(), fill);
    } else {
        for (std::size_t i = 0; i < tensors.size(); ++i) fill(i);
    }
    for (auto& result : filled) VKFORMER_CHECK(std::move(result));
    for (std::size_t i = 0; i < tensors.size(); ++i)
        entries_.emplace(tensors[i]->name, Entry{tensors[i]->dtype, tensors[i]->shape, blocks.slices()[i]});
    share_.add(is_on_host  ? graph::Stored::weights_in_place
               : is_weight ? graph::Stored::weights
                           : graph::Stored::states,
               blocks.total_bytes());
    blocks_.push_back(std::move(blocks));
    return {};
}

Result<void> VulkanStore::add_missing(const PiecedPlan& pieced, TensorKind kind, bool guards) {
    const std::lock_guard lock(mutex_);
    VKFORMER_TRY(Tensors missing, find_missing(pieced, kind));
    if (!guards) import_in_place(missing);
    return make(missing, kind, Buffer::Use::tensors, guards);
}

std::uint64_t VulkanStore::bytes_to_offload(std::uint64_t missing_bytes, std::uint64_t room) const {
    if (!has_host_memory(*device_)) return 0;  // what does not fit is told by who allocates it
    const std::uint64_t wanted = device_->offload().bytes;
    return wanted == Offload::kRest ? missing_bytes - std::min(missing_bytes, room)
                                    : wanted - std::min(wanted, offloaded_.bytes);
}

Result<std::string> VulkanStore::place_weights(const PiecedPlan& pieced, std::uint64_t room, bool guards) {
    const std::lock_guard lock(mutex_);
    VKFORMER_TRY(Tensors missing, find_missing(pieced, TensorKind::weight));
    if (!guards) import_in_place(missing);
    const std::vector<PlacedWeight> weights = placed_weights(pieced, missing);
    const std::uint64_t all = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0},
                                              [](std::uint64_t sum, const PlacedWeight& w) { return sum + w.bytes; });
    const std::vector<bool> chosen = choose_offloaded(weights, bytes_to_offload(all, room));
    Tensors kept, offloaded;
    for (std::size_t i = 0; i < missing.size(); ++i) (chosen[i] ? offloaded : kept).push_back(missing[i]);
    VKFORMER_CHECK(make(offloaded, TensorKind::weight, Buffer::Use::host_tensors, guards));
    for (std::size_t i = 0; i < missing.size(); ++i) {
        if (!chosen[i]) continue;
        offloaded_.bytes += weights[i].bytes;
        offloaded_.bytes_per_run += static_cast<double>(weights[i].bytes) * weights[i].part_read;
    }
    VKFORMER_CHECK(make(kept, TensorKind::weight, Buffer::Use::tensors, guards));
    if (offloaded.empty() || !device_->offload().report) return std::string();
    const Tensor& largest =
        **std::ranges::max_element(offloaded, {}, [](const Tensor* t) { return graph::storage_bytes(*t); });
    offloaded_.bytes_per_second = device_->transfer().read_speed(entries_.at(largest.name).slice);
    return to_string(offloaded_);
}

Result<void> VulkanStore::add_weights(const PiecedPlan& pieced, std::uint64_t room, bool guards) {
    VKFORMER_TRY(const std::string told, place_weights(pieced, room, guards));
    if (!told.empty()) device_->offload().report(told);  // without the lock
    return {};
}

std::uint64_t VulkanStore::offloaded_bytes() const {
    const std::lock_guard lock(mutex_);
    return offloaded_.bytes;
}

bool needs_memory(const Device& device, const Tensor& tensor) { return bytes_in_place(device, tensor).empty(); }

}  // namespace vkformer::vulkan
