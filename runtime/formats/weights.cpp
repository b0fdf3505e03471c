// SPDX-License-Identifier: MIT
#include "formats/weights.hpp"

#include <algorithm>
#include <new>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/paths.hpp"
#include "core/try.hpp"
#include "formats/gguf.hpp"
#include "formats/json.hpp"
#include "formats/safetensors.hpp"

namespace vkformer::formats {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

bool file_exists(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
}

/// A shard lies beside the index: an index cannot point at other files of the machine.
bool is_plain_file_name(std::string_view name) {
    return name.ends_with(".safetensors") && name.find_first_of("/\\") == name.npos && name.find('\0') == name.npos;
}

Result<Weights> open_shards(const std::filesystem::path& folder) {
    VKFORMER_TRY(const nlohmann::json index, read_json(folder / kIndexFile));
    const auto corrupt = [](const std::string& what) {
        return Error{ErrorCode::CorruptFile, std::string(kIndexFile) + ": " + what};
    };
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
        return corrupt("has no object \"weight_map\"");

    std::map<std::string, Safetensors, std::less<>> shards;
    TensorMap tensors;
    for (const auto& [name, file_value] : index["weight_map"].items()) {
        const auto* file = file_value.get_ptr<const std::string*>();
        if (!file || !is_plain_file_name(*file))
            return corrupt("the file of tensor " + quote(name) +
                           " is not the name of a .safetensors file in the folder");
        auto shard = shards.find(*file);
        if (shard == shards.end()) {
            VKFORMER_TRY(auto opened, Safetensors::open(folder / utf8_path(*file)));
            shard = shards.emplace(*file, std::move(opened)).first;
        }
        const TensorData* tensor = shard->second.find(name);
        if (!tensor) return corrupt("says that tensor " + quote(name) + " is in " + *file + ", but it is not there");
        tensors.emplace(name, *tensor);
    }
    return Weights((folder / kIndexFile).string(), std::move(tensors));
}

Result<Weights> open_blocks(const std::filesystem::path& path) {
    VKFORMER_TRY(const auto file, Gguf::open(path));
    VKFORMER_TRY(const std::string architecture, file.string("general.architecture"));
    if (architecture == kBlockArchitecture) return file.weights();
    return Error{ErrorCode::InvalidArgument,
                 path.string() + " is a model of its own (" + quote(architecture) +
                     "), not the weights of the folder's config.json: name the file in place of the folder"};
}

/// Length of what two names have in common at both ends.
std::size_t similarity(std::string_view a, std::string_view b) {
    const auto front = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
    const auto ra = a.substr(front), rb = b.substr(front);
    std::size_t back = 0;
    while (back < std::min(ra.size(), rb.size()) && ra[ra.size() - 1 - back] == rb[rb.size() - 1 - back]) ++back;
    return front + back;
}

}  // namespace

const TensorData* LateTensors::find(std::string_view name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return nullptr;
    Tensor& tensor = found->second;
    const std::lock_guard lock(mutex_);
    if (!tensor.make) return &tensor.data;
    try {
        tensor.data = tensor.make();
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
    tensor.make = {};
    return &tensor.data;
}

std::vector<std::string_view> LateTensors::names() const {
    std::vector<std::string_view> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
}

const TensorData* Weights::find(std::string_view name) const {
    asked_->add(name);
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? late_->find(name) : &found->second;
}

Result<TensorData> Weights::get(std::string_view name) const {
    if (const TensorData* tensor = find(name)) return *tensor;
    if (const auto refused = refused_.find(name); refused != refused_.end())
        return Error{.code = ErrorCode::UnsupportedDtype,
                     .message = source_ + ": tensor " + quote(name) + " is of the type " + refused->second +
                                ", which vkformer does not read; llama.cpp's llama-quantize makes a file that it reads",
                     .hint = Hint::requantize};
    if (late_->contains(name))
        return Error{ErrorCode::OutOfHostMemory, source_ + ": not enough memory to repack tensor " + quote(name)};
    std::string message = source_ + " has no tensor " + quote(name);
    const auto nearest =
        std::ranges::max_element(tensors_, {}, [&](const auto& entry) { return similarity(entry.first, name); });
    if (nearest != tensors_.end() && similarity(nearest->first, name) * 2 > name.size())
        message += "; the nearest name is " + quote(nearest->first);
    return Error{ErrorCode::MissingTensor, message};
}

std::vector<std::string_view> Weights::names() const {
    std::vector<std::string_view> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    const auto late = late_->names();
    names.insert(names.end(), late.begin(), late.end());
    return names;
}

std::vector<std::string> Weights::unasked() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_)
        if (!asked_->has(name)) names.push_back(name);
    for (const auto& [name, type] : refused_)
        if (!asked_->has(name)) names.push_back(name);
    for (const std::string_view name : late_->names())
        if (!asked_->has(name)) names.emplace_back(name);
    std::ranges::sort(names);
    return names;
}

Result<Weights> open_weights(const std::filesystem::path& folder) {
    if (file_exists(folder / kSingleFile)) {
        VKFORMER_TRY(auto file, Safetensors::open(folder / kSingleFile));
        return Weights((folder / kSingleFile).string(), std::move(file).tensors());
    }
    if (file_exists(folder / kIndexFile)) return open_shards(folder);
    if (file_exists(folder / kBlockFile)) return open_blocks(folder / kBlockFile);
    if (!file_exists(folder)) return Error{ErrorCode::FileNotFound, "there is no folder " + folder.string()};
    std::string message =
        folder.string() + " has neither " + kSingleFile + " nor " + kIndexFile + " nor " + std::string(kBlockFile);
    if (file_exists(folder / "pytorch_model.bin") || file_exists(folder / "pytorch_model.bin.index.json"))
        message +=
            "; pytorch_model.bin is a Python pickle, which vkformer does not open. Convert it once with transformers: "
            "AutoModelForSeq2SeqLM.from_pretrained(FOLDER).save_pretrained(FOLDER, safe_serialization=True)";
    return Error{ErrorCode::FileNotFound, message};
}

}  // namespace vkformer::formats
