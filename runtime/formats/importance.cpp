// SPDX-License-Identifier: MIT
#include "formats/importance.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>

#include "core/mapped_file.hpp"
#include "core/tensor_data.hpp"
#include "core/try.hpp"
#include "formats/gguf.hpp"
#include "formats/json.hpp"

namespace vkformer::formats {
namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";

Error corrupt(std::string_view name, const std::string& what) {
    return {ErrorCode::CorruptFile, std::string(name) + ": " + what};
}

Result<std::vector<float>> floats_of(const Weights& weights, const std::string& name) {
    VKFORMER_TRY(const TensorData data, weights.get(name));
    std::vector<float> values(data.shape.element_count());
    VKFORMER_CHECK(convert(data.dtype, data.bytes, 0, values));
    return values;
}

bool are_importances(std::span<const float> values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value) && value >= 0; });
}

/// Sums of as many matrices as there are counts become means.
bool divide(std::vector<float>& sums, std::span<const float> counts) {
    if (counts.empty() || sums.size() % counts.size() != 0) return false;
    const std::size_t inputs = sums.size() / counts.size();
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const float count = counts[i / inputs];
        sums[i] = count > 0 ? sums[i] / count : 1.0f;
    }
    return true;
}

Result<Importance> of_gguf(const Gguf& file) {
    VKFORMER_TRY(const std::string type, file.string("general.type", ""));
    if (type != "imatrix")
        return corrupt(file.file_name(),
                       "is no importance matrix: its general.type is " + quote(type) + ", not \"imatrix\"");
    Importance found;
    for (const GgufTensor& tensor : file.tensors()) {
        if (!tensor.name.ends_with(kSums)) continue;
        const std::string name(tensor.name.substr(0, tensor.name.size() - kSums.size()));
        if (!file.weights().has(name + std::string(kCounts)))
            return corrupt(file.file_name(), "has the sums of " + quote(name) + ", and no counts");
        VKFORMER_TRY(auto sums, floats_of(file.weights(), std::string(tensor.name)));
        VKFORMER_TRY(const auto counts, floats_of(file.weights(), name + std::string(kCounts)));
        if (!are_importances(counts) || !divide(sums, counts) || !are_importances(sums))
            return corrupt(file.file_name(), "the sums and counts of " + quote(name) + " are no means of squares");
        found.emplace(name, std::make_shared<const std::vector<float>>(std::move(sums)));
    }
    return found;
}

/// Numbers and texts from front to back.
class EntryReader {
public:
    explicit EntryReader(std::span<const std::byte> bytes) : rest_(bytes) {}

    std::optional<std::span<const std::byte>> take(std::size_t count) {
        if (count > rest_.size()) return {};
        const auto taken = rest_.first(count);
        rest_ = rest_.subspan(count);
        return taken;
    }
    /// As an int32 that is not negative is stored.
    std::optional<std::uint32_t> size() {
        const auto bytes = take(4);
        std::int32_t value = -1;
        if (bytes) std::memcpy(&value, bytes->data(), sizeof value);
        return value < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(value));
    }

private:
    std::span<const std::byte> rest_;
};

}  // namespace

Result<Importance> parse_old_importance(std::span<const std::byte> file, std::string_view name) {
    EntryReader reader(file);
    const auto cut = [&] { return corrupt(name, "is no importance matrix, or is cut short"); };
    const auto entries = reader.size();
    if (!entries || *entries == 0) return cut();
    Importance found;
    for (std::uint32_t entry = 0; entry < *entries; ++entry) {
        const auto length = reader.size();
        const auto text = length ? reader.take(*length) : std::nullopt;
        const auto calls = text ? reader.size() : std::nullopt;
        const auto count = calls ? reader.size() : std::nullopt;
        const auto bytes = count && *count > 0 ? reader.take(*count * sizeof(float)) : std::nullopt;
        if (!bytes) return cut();
        std::vector<float> values(*count);
        std::memcpy(values.data(), bytes->data(), bytes->size());
        const std::string matrix(reinterpret_cast<const char*>(text->data()), text->size());
        const float divisor = static_cast<float>(std::max(*calls, 1u));
        for (float& value : values) value /= divisor;
        if (!are_importances(values))
            return corrupt(name, "the values of " + quote(matrix) + " are no means of squares");
        if (!found.emplace(matrix, std::make_shared<const std::vector<float>>(std::move(values))).second)
            return corrupt(name, "has " + quote(matrix) + " twice");
    }
    return found;
}

Result<Importance> read_importance(const std::filesystem::path& path) {
    VKFORMER_TRY(const auto file, MappedFile::open(path));
    constexpr std::string_view kMagic = "GGUF";
    const auto bytes = file->bytes();
    if (bytes.size() < kMagic.size() || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
        return parse_old_importance(bytes, path.string());
    VKFORMER_TRY(const auto gguf, Gguf::open(path));
    VKFORMER_TRY(auto found, of_gguf(gguf));
    if (found.empty()) return corrupt(path.string(), "has no matrix");
    return found;
}

}  // namespace vkformer::formats
