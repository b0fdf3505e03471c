// SPDX-License-Identifier: MIT
/// The named tensors of a model folder, whatever file holds them.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor_data.hpp"
#include "formats/asked_names.hpp"
#include "vkformer/result.hpp"

namespace vkformer::formats {

/// In the order of the names.
using TensorMap = std::map<std::string, TensorData, std::less<>>;

/// Tensors that are in the file, but whose type vkformer does not compute with: the type by the tensor's name.
using RefusedTensors = std::map<std::string, std::string, std::less<>>;

/// Tensors that are made when they are first asked for, and kept: TensorData by the tensor's name. Thread-safe.
class LateTensors {
public:
    void add(std::string name, std::function<TensorData()> make) { tensors_[std::move(name)].make = std::move(make); }
    bool contains(std::string_view name) const { return tensors_.contains(name); }
    /// nullptr where there is none of that name, or no memory for it; valid as long as this object.
    const TensorData* find(std::string_view name);
    std::vector<std::string_view> names() const;

private:
    struct Tensor {
        std::function<TensorData()> make;  // empty: made
        TensorData data;
    };
    std::mutex mutex_;
    std::map<std::string, Tensor, std::less<>> tensors_;
};

/// Tensors by name, with the name of their source for messages. A plain value; the tensors own the mapped files. Copies know together
/// what was asked for.
class Weights {
public:
    /// `source` is what messages call the tensors' file.
    Weights(std::string source, TensorMap tensors, RefusedTensors refused = {},
            std::shared_ptr<LateTensors> late = std::make_shared<LateTensors>())
        : source_(std::move(source)),
          tensors_(std::move(tensors)),
          refused_(std::move(refused)),
          late_(std::move(late)) {}

    /// The file has such a tensor, be it one that get refuses for its type. Ask this before an optional tensor is taken.
    bool has(std::string_view name) const {
        return tensors_.contains(name) || refused_.contains(name) || late_->contains(name);
    }
    /// nullptr where there is no such tensor or get refuses it; valid as long as this object. The tensor has been asked for then, as by get.
    const TensorData* find(std::string_view name) const;
    /// Errors: MissingTensor, with a similar name that is there if one is; UnsupportedDtype; OutOfHostMemory (of a late one).
    Result<TensorData> get(std::string_view name) const;

    std::vector<std::string_view> names() const;
    /// Without late ones.
    const TensorMap& tensors() const noexcept { return tensors_; }
    const std::string& source() const noexcept { return source_; }
    /// Other tensors of the same source; of them nothing has been asked for.
    Weights with(TensorMap tensors) const { return Weights(source_, std::move(tensors), refused_); }
    /// Tensors in the file that nobody asked for, those that get refuses too; sorted.
    std::vector<std::string> unasked() const;

private:
    std::string source_;
    TensorMap tensors_;
    RefusedTensors refused_;
    std::shared_ptr<LateTensors> late_;
    std::shared_ptr<AskedNames> asked_ = std::make_shared<AskedNames>();
};

/// What holds a folder's weights where some are in block formats, which safetensors have none of: a GGUF file with the names, the shapes
/// and the order of rows of the folder's safetensors, of an architecture of its own, so that nobody takes it for a model.
inline constexpr std::string_view kBlockFile = "model.gguf";
inline constexpr std::string_view kBlockArchitecture = "vkformer";

/// The weights of a Hugging Face folder: `model.safetensors`, the shards that `model.safetensors.index.json` lists, or kBlockFile. The
/// files are mapped, not read. Errors: FileNotFound (says what to do where only `pytorch_model.bin` is there), CorruptFile,
/// UnsupportedDtype; InvalidArgument (model.gguf is a model of its own).
Result<Weights> open_weights(const std::filesystem::path& folder);

}  // namespace vkformer::formats
