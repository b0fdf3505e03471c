// SPDX-License-Identifier: MIT
#include "bench/shader_manifest.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"

namespace vkformer::bench {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxBuffers = 32;
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxConstantId = 65535;
constexpr std::size_t kMaxPushBytes = 128;  // what every device has

/// One object of the file; `where` ("shader.json: buffers[2]") begins its messages.
class Object {
public:
    static Result<Object> of(const json& value, std::string where, std::initializer_list<std::string_view> known) {
        Object object(value, std::move(where));
        if (!value.is_object()) return object.wrong("is no object");
        for (const auto& [key, ignored] : value.items())
            if (std::ranges::find(known, key) == known.end())
                return object.wrong("has an unknown field " + formats::quote(key));
        return object;
    }
    bool has(const char* key) const { return json_->contains(key); }
    const json& at(const char* key) const { return json_->at(key); }
    std::string path(const char* key) const { return where_ + ": " + key; }
    Error wrong(const std::string& what) const { return {ErrorCode::CorruptFile, where_ + " " + what}; }

    Result<std::string> text(const char* key) const {
        if (!has(key)) return wrong(std::string("lacks ") + key);
        if (!at(key).is_string()) return Error{ErrorCode::CorruptFile, path(key) + " is no text"};
        return at(key).get<std::string>();
    }
    Result<std::uint64_t> whole(const char* key, std::uint64_t low, std::uint64_t high) const {
        if (!has(key)) return wrong(std::string("lacks ") + key);
        return whole_number(at(key), path(key), low, high);
    }
    Result<double> number(const char* key) const {
        if (!has(key)) return wrong(std::string("lacks ") + key);
        if (!at(key).is_number()) return Error{ErrorCode::CorruptFile, path(key) + " is no number"};
        return at(key).get<double>();
    }
    /// An absent list is empty.
    Result<std::vector<const json*>> list(const char* key, std::size_t most) const {
        std::vector<const json*> elements;
        if (!has(key)) return elements;
        if (!at(key).is_array() || at(key).size() > most)
            return Error{ErrorCode::CorruptFile, path(key) + " is no list of at most " + std::to_string(most)};
        for (const json& element : at(key)) elements.push_back(&element);
        return elements;
    }

    static Result<std::uint64_t> whole_number(const json& value, const std::string& where, std::uint64_t low,
                                              std::uint64_t high) {
        if (value.is_number_unsigned() && value.get<std::uint64_t>() >= low && value.get<std::uint64_t>() <= high)
            return value.get<std::uint64_t>();
        return Error{ErrorCode::CorruptFile,
                     where + " is no whole number from " + std::to_string(low) + " to " + std::to_string(high)};
    }

private:
    Object(const json& value, std::string where) : json_(&value), where_(std::move(where)) {}
    const json* json_;
    std::string where_;
};

std::string numbered(const std::string& list, std::size_t index) { return list + "[" + std::to_string(index) + "]"; }

/// The 32 bits of a specialization constant: a whole number, a number with a fraction (float), true or false.
Result<std::uint32_t> constant_bits(const json& value, const std::string& where) {
    if (value.is_boolean()) return value.get<bool>() ? 1u : 0u;
    if (value.is_number_float()) return std::bit_cast<std::uint32_t>(static_cast<float>(value.get<double>()));
    if (value.is_number_integer()) {
        const auto number = value.get<std::int64_t>();
        if (number >= std::numeric_limits<std::int32_t>::min() && number <= std::numeric_limits<std::uint32_t>::max())
            return static_cast<std::uint32_t>(number);
    }
    return Error{ErrorCode::CorruptFile, where + " is no number of 32 bits, true or false"};
}

Result<std::map<std::uint32_t, std::uint32_t>> read_constants(const Object& root) {
    std::map<std::uint32_t, std::uint32_t> constants;
    if (!root.has("constants")) return constants;
    const std::string where = root.path("constants");
    if (!root.at("constants").is_object()) return Error{ErrorCode::CorruptFile, where + " is no object"};
    for (const auto& [key, value] : root.at("constants").items()) {
        std::uint32_t id = 0;
        const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
        if (failure != std::errc() || end != key.data() + key.size() || id > kMaxConstantId)
            return Error{ErrorCode::CorruptFile, where + ": " + formats::quote(key) + " is no id of a constant"};
        VKFORMER_TRY(constants[id], constant_bits(value, where + ": " + key));
    }
    return constants;
}

/// The contents of a buffer of its own.
Result<void> read_contents(const Object& object, ManifestBuffer& buffer) {
    VKFORMER_TRY(const std::string dtype, object.text("dtype"));
    if (dtype != "f32" && dtype != "f16" && dtype != "i32")
        return object.wrong("has a dtype that is not f32, f16 or i32");
    buffer.dtype = dtype == "f32" ? DType::f32 : dtype == "f16" ? DType::f16 : DType::i32;
    VKFORMER_TRY(buffer.count, object.whole("count", 1, kMaxElements));
    if (!object.has("fill")) return {};
    const json& fill = object.at("fill");
    buffer.random = fill == "random";
    if (fill == "nan")
        buffer.value = std::numeric_limits<double>::quiet_NaN();
    else if (fill.is_number() && std::abs(fill.get<double>()) <= 2147483647)
        buffer.value = fill.get<double>();
    else if (!buffer.random)
        return object.wrong("has a fill that is not \"random\", \"nan\" or a number");
    if (buffer.dtype == DType::i32 && (buffer.random || std::isnan(buffer.value)))
        return object.wrong("fills whole numbers with \"random\" or \"nan\"");
    return {};
}

Result<ManifestBuffer> read_buffer(const json& value, const std::string& where, bool has_reference) {
    VKFORMER_TRY(const Object object,
                 Object::of(value, where, {"binding", "operand", "result", "dtype", "count", "fill"}));
    ManifestBuffer buffer;
    VKFORMER_TRY(const auto binding, object.whole("binding", 0, kMaxBuffers - 1));
    buffer.binding = static_cast<std::uint32_t>(binding);
    const bool is_operand = object.has("operand"), is_result = object.has("result"), is_own = object.has("dtype");
    if (is_operand + is_result + is_own != 1)
        return object.wrong("needs one of operand, result (of the reference) and dtype (a buffer of its own)");
    if (!is_own && !has_reference) return object.wrong("names an operand or result, and there is no reference");
    if (!is_own && (object.has("count") || object.has("fill")))
        return object.wrong("has its size and contents from the reference: no count, no fill");
    if (is_operand) {
        VKFORMER_TRY(buffer.operand, object.text("operand"));
    } else if (is_result) {
        VKFORMER_TRY(buffer.result, object.whole("result", 0, kMaxBuffers));
    } else {
        VKFORMER_CHECK(read_contents(object, buffer));
    }
    return buffer;
}

Result<std::vector<ManifestBuffer>> read_buffers(const Object& root, bool has_reference) {
    std::vector<ManifestBuffer> buffers;
    std::set<std::uint32_t> bindings;
    VKFORMER_TRY(const auto list, root.list("buffers", kMaxBuffers));
    for (const json* const value : list) {
        const std::string where = numbered(root.path("buffers"), buffers.size());
        VKFORMER_TRY(buffers.emplace_back(), read_buffer(*value, where, has_reference));
        if (!bindings.insert(buffers.back().binding).second)
            return Error{ErrorCode::CorruptFile,
                         where + ": binding " + std::to_string(buffers.back().binding) + " is taken already"};
    }
    return buffers;
}

Result<std::vector<std::byte>> read_push(const Object& root) {
    std::vector<std::byte> bytes;
    VKFORMER_TRY(const auto list, root.list("push", kMaxPushBytes / 4));
    for (const json* const value : list) {
        const std::string where = numbered(root.path("push"), bytes.size() / 4);
        VKFORMER_TRY(const std::uint32_t bits, constant_bits(*value, where));
        bytes.resize(bytes.size() + 4);
        std::memcpy(bytes.data() + bytes.size() - 4, &bits, 4);
    }
    return bytes;
}

Result<std::array<std::uint32_t, 3>> read_groups(const Object& root) {
    std::array<std::uint32_t, 3> groups{1, 1, 1};
    if (!root.has("groups")) return root.wrong("lacks groups");
    VKFORMER_TRY(const auto list, root.list("groups", 3));
    if (list.empty()) return root.wrong("has no number in groups");
    for (std::size_t i = 0; i < list.size(); ++i) {
        VKFORMER_TRY(const auto count, Object::whole_number(*list[i], numbered(root.path("groups"), i), 1,
                                                            std::numeric_limits<std::uint32_t>::max()));
        groups[i] = static_cast<std::uint32_t>(count);
    }
    return groups;
}

Result<ShaderManifest::Reference> read_reference(const Object& root) {
    VKFORMER_TRY(const Object object,
                 Object::of(root.at("reference"), root.path("reference"), {"op", "shape", "dtype"}));
    ShaderManifest::Reference reference;
    VKFORMER_TRY(reference.op, object.text("op"));
    VKFORMER_TRY(reference.shape, object.text("shape"));
    if (object.has("dtype")) {
        VKFORMER_TRY(reference.dtype, object.text("dtype"));
    }
    return reference;
}

Result<cases::Work> read_work(const Object& root) {
    VKFORMER_TRY(const Object object, Object::of(root.at("work"), root.path("work"), {"flops", "read", "written"}));
    cases::Work work;
    for (const auto& [key, value] :
         {std::pair("flops", &work.flops), {"read", &work.read}, {"written", &work.written}}) {
        if (!object.has(key)) continue;
        VKFORMER_TRY(*value, object.number(key));
        if (!(*value >= 0) || *value > 1e30) return object.wrong(std::string("has no sensible ") + key);
    }
    return work;
}

}  // namespace

Result<ShaderManifest> parse_shader_manifest(const json& value, const std::string& name) {
    VKFORMER_TRY(const Object root,
                 Object::of(value, name,
                            {"entry_point", "defines", "constants", "buffers", "push", "groups", "reference", "work"}));
    ShaderManifest manifest;
    if (root.has("entry_point")) {
        VKFORMER_TRY(manifest.entry_point, root.text("entry_point"));
    }
    VKFORMER_TRY(const auto defines, root.list("defines", 256));
    for (const json* const define : defines) {
        if (!define->is_string() || define->get<std::string>().empty())
            return Error{ErrorCode::CorruptFile, root.path("defines") + " has something that is no text"};
        manifest.defines.push_back(define->get<std::string>());
    }
    VKFORMER_TRY(manifest.constants, read_constants(root));
    VKFORMER_TRY(manifest.buffers, read_buffers(root, root.has("reference")));
    VKFORMER_TRY(manifest.push, read_push(root));
    VKFORMER_TRY(manifest.groups, read_groups(root));
    if (root.has("reference")) {
        VKFORMER_TRY(manifest.reference, read_reference(root));
    }
    if (root.has("work")) {
        VKFORMER_TRY(manifest.work, read_work(root));
    }
    return manifest;
}

}  // namespace vkformer::bench
