// SPDX-License-Identifier: MIT
#include "bench/spirv.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>

#include "core/try.hpp"

namespace vkformer::bench {
namespace {

// SPIR-V specification 1.6: 2.3 (physical layout), 3.3 (execution models), 3.20 (decorations), 3.49 (instructions).
constexpr std::uint32_t kMagic = 0x07230203;
constexpr std::uint32_t kNewestVersion = 0x00010600;
constexpr std::size_t kHeaderWords = 5;
constexpr std::uint32_t kMaxBound = 0x3FFFFF;  // 2.17: universal limits
enum Opcode : std::uint32_t {
    kOpName = 5,
    kOpMemberName = 6,
    kOpEntryPoint = 15,
    kOpCapability = 17,
    kOpTypeStruct = 30,
    kOpTypePointer = 32,
    kOpFunction = 54,
    kOpVariable = 59,
    kOpDecorate = 71,
    kOpMemberDecorate = 72
};
enum Decoration : std::uint32_t { kSpecId = 1, kBufferBlock = 3, kBinding = 33, kDescriptorSet = 34, kOffset = 35 };
constexpr std::uint32_t kGlCompute = 5;
constexpr std::uint32_t kUniform = 2, kPushConstant = 9, kStorageBuffer = 12;  // 3.7: storage classes

using Words = std::span<const std::uint32_t>;

/// The string that begins in a word: four characters each, ended by a zero. Cut where the words end.
std::string string_at(Words words) {
    std::string text(reinterpret_cast<const char*>(words.data()), words.size_bytes());
    return text.substr(0, text.find('\0'));
}

class Walker {
public:
    Walker(std::string entry_point, std::string name) : entry_point_(std::move(entry_point)), name_(std::move(name)) {}

    Result<SpirvModule> walk(std::vector<std::uint32_t> words) {
        for (std::size_t at = kHeaderWords; at < words.size();) {
            const std::uint32_t count = words[at] >> 16, opcode = words[at] & 0xFFFF;
            if (count == 0 || count > words.size() - at)
                return corrupt("the instruction at word " + std::to_string(at) + " is cut off");
            visit(opcode, Words(words).subspan(at + 1, count - 1));
            at += count;
        }
        if (!has_function_) return corrupt("it has no function");
        if (!has_entry_point_)
            return corrupt("it has no compute shader called \"" + entry_point_ + "\"" +
                           (others_.empty() ? "" : "; it has: " + others_));
        for (const auto& [id, binding] : bindings_)
            module_.resources.push_back({.set = value_of(sets_, id),
                                         .binding = binding,
                                         .is_storage_buffer = is_storage_buffer(id),
                                         .block = names_[type_behind(id)]});
        for (const auto& [id, constant] : constants_) module_.constants[constant] = names_[id];
        for (const auto& [id, storage_class] : classes_)
            if (storage_class == kPushConstant) add_members(type_behind(id), 0, 0);
        module_.words = std::move(words);
        return std::move(module_);
    }
    Error corrupt(const std::string& what) const { return {ErrorCode::CorruptFile, name_ + ": " + what}; }

private:
    /// Up to SPIR-V 1.2 a uniform whose block says so; that decoration is no more in newer ones.
    bool is_storage_buffer(std::uint32_t id) const {
        const std::uint32_t storage_class = value_of(classes_, id);
        return storage_class == kStorageBuffer ||
               (storage_class == kUniform && buffer_blocks_.contains(type_behind(id)));
    }
    static std::uint32_t value_of(const std::map<std::uint32_t, std::uint32_t>& values, std::uint32_t id) {
        const auto found = values.find(id);
        return found == values.end() ? 0 : found->second;
    }
    /// What a variable's pointer points to.
    std::uint32_t type_behind(std::uint32_t variable) const { return value_of(pointees_, value_of(types_, variable)); }
    /// The members of a struct, and of the structs in it; a module may nest them in circles, which no compiler makes.
    void add_members(std::uint32_t type, std::uint32_t offset, int depth) {
        constexpr int kDeepest = 8;
        const auto members = structs_.find(type);
        if (members == structs_.end() || depth > kDeepest) return;
        for (std::uint32_t i = 0; i < members->second.size(); ++i) {
            const auto& [name, at] = members_[{type, i}];
            const std::uint32_t inner = members->second[i];
            if (structs_.contains(inner))
                add_members(inner, offset + at, depth + 1);
            else
                module_.push.push_back({name, offset + at});
        }
    }
    void visit_names(std::uint32_t opcode, Words operands) {
        if (opcode == kOpName && operands.size() >= 2) names_[operands[0]] = string_at(operands.subspan(1));
        if (opcode == kOpMemberName && operands.size() >= 3)
            members_[{operands[0], operands[1]}].name = string_at(operands.subspan(2));
        if (opcode == kOpMemberDecorate && operands.size() >= 4 && operands[2] == kOffset)
            members_[{operands[0], operands[1]}].offset = operands[3];
        if (opcode == kOpTypeStruct && !operands.empty())
            structs_[operands[0]] = {operands.begin() + 1, operands.end()};
        if (opcode == kOpTypePointer && operands.size() >= 3) pointees_[operands[0]] = operands[2];
    }
    void visit(std::uint32_t opcode, Words operands) {
        visit_names(opcode, operands);
        if (opcode == kOpFunction) has_function_ = true;
        if (opcode == kOpCapability && !operands.empty()) module_.capabilities.insert(operands[0]);
        if (opcode == kOpEntryPoint && operands.size() > 2) {
            const std::string called = string_at(operands.subspan(2));
            const bool is_compute = operands[0] == kGlCompute;
            if (is_compute && called == entry_point_) has_entry_point_ = true;
            others_ += (others_.empty() ? "" : ", ") + called + (is_compute ? "" : " (no compute shader)");
        }
        if (opcode == kOpVariable && operands.size() >= 3) {
            types_[operands[1]] = operands[0];
            classes_[operands[1]] = operands[2];
        }
        if (opcode == kOpDecorate && operands.size() == 2 && operands[1] == kBufferBlock)
            buffer_blocks_.insert(operands[0]);
        if (opcode != kOpDecorate || operands.size() < 3) return;
        if (operands[1] == kBinding) bindings_[operands[0]] = operands[2];
        if (operands[1] == kDescriptorSet) sets_[operands[0]] = operands[2];
        if (operands[1] == kSpecId) constants_[operands[0]] = operands[2];
    }

    std::string entry_point_, name_, others_;
    SpirvModule module_;
    std::map<std::uint32_t, std::uint32_t> bindings_, sets_, classes_, constants_, types_, pointees_;  // by id
    std::set<std::uint32_t> buffer_blocks_;                                                            // types
    std::map<std::uint32_t, std::string> names_;                                                       // by id
    std::map<std::uint32_t, std::vector<std::uint32_t>> structs_;                     // types of the members, by id
    std::map<std::pair<std::uint32_t, std::uint32_t>, SpirvModule::Member> members_;  // by struct and index
    bool has_function_ = false, has_entry_point_ = false;
};

}  // namespace

Result<SpirvModule> read_spirv(std::span<const std::byte> bytes, const std::string& entry_point,
                               const std::string& name) {
    Walker walker(entry_point, name);
    if (bytes.size() % 4 != 0 || bytes.size() < 4 * kHeaderWords)
        return walker.corrupt("no SPIR-V: " + std::to_string(bytes.size()) + " bytes");
    std::vector<std::uint32_t> words(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    if (words[0] == __builtin_bswap32(kMagic))
        for (std::uint32_t& word : words) word = __builtin_bswap32(word);
    if (words[0] != kMagic) return walker.corrupt("no SPIR-V: it does not begin with the magic number");
    if (words[1] > kNewestVersion)
        return Error{ErrorCode::MissingFeature, name + ": SPIR-V newer than 1.6, which no driver is asked to take"};
    if (words[3] == 0 || words[3] > kMaxBound) return walker.corrupt("its ids go up to " + std::to_string(words[3]));
    return walker.walk(std::move(words));
}

}  // namespace vkformer::bench
