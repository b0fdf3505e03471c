// SPDX-License-Identifier: MIT
/// Safetensors files: 8 bytes of header length, a JSON header, the tensors' bytes one after another.
/// Format: https://huggingface.co/docs/safetensors
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor_data.hpp"
#include "formats/output_tensor.hpp"
#include "formats/weights.hpp"
#include "vkformer/result.hpp"

namespace vkformer::formats {

using Metadata = std::map<std::string, std::string, std::less<>>;

/// One parsed file. The tensors point into it and keep it alive; nothing is copied.
/// Every statement of the header is checked: whoever holds a Safetensors holds tensors whose bytes are there, whose size is
/// shape × dtype and which do not overlap.
class Safetensors {
public:
    static constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit

    /// Maps the file. Errors: FileNotFound, CorruptFile, UnsupportedDtype, OutOfHostMemory.
    static Result<Safetensors> open(const std::filesystem::path& path);
    /// `file` must stay valid as long as `owner`, which every tensor keeps. `name` begins the messages.
    static Result<Safetensors> parse(std::span<const std::byte> file, std::shared_ptr<const void> owner,
                                     std::string_view name);

    /// Sorted.
    std::vector<std::string_view> names() const;
    /// nullptr where there is no such tensor; valid as long as this object.
    const TensorData* find(std::string_view name) const;
    const TensorMap& tensors() const& noexcept { return tensors_; }
    TensorMap&& tensors() && noexcept { return std::move(tensors_); }
    /// The free texts under `__metadata__`.
    const Metadata& metadata() const noexcept { return metadata_; }

private:
    Safetensors(TensorMap tensors, Metadata metadata) : tensors_(std::move(tensors)), metadata_(std::move(metadata)) {}

    TensorMap tensors_;
    Metadata metadata_;
};

struct NamedTensor {
    std::string name;
    TensorData data;
};

/// Writes a file that the reference implementation would write for the same tensors, byte for byte (its order of dtypes and
/// names, its padding); metadata sorted by key. A temporary file beside it takes the name at the end, so that a reader never
/// sees half a file. Errors: InvalidArgument (a name twice or not UTF-8, bytes that do not fit the shape), FileNotFound
/// (cannot create or write), OutOfHostMemory.
Result<void> write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                               const Metadata& metadata = {});

/// The same for tensors that are converted while they are written. Errors: UnsupportedDtype besides (a block format, which
/// safetensors do not have).
Result<void> write_safetensors(const std::filesystem::path& path, std::span<const OutputTensor> tensors,
                               const Metadata& metadata = {}, const WriteProgress& progress = {});

}  // namespace vkformer::formats
