// SPDX-License-Identifier: MIT
/// pack_shaders LIST OUTPUT [names]: prepares the SPIR-V modules of a table, whose files LIST names one a line, for the
/// compressor. The build runs it.
///   OUTPUT.bin  all modules, one behind the other, with their ids as runtime/vulkan/packed_ids.hpp has them
///   OUTPUT.inc  where each lies, as C++; a module is called as its file
///   FILE.numbered, for each FILE of LIST: the module as restore_ids() gives it back
/// Without "names", which serve those who debug shaders, modules lose them: a seventh of their size. Strings stay where an
/// instruction that stays refers to them, as those of debugPrintfEXT and of glslang's -gVS do.
///
/// Ids are numbered anew. What lies outside of functions (types, constants, variables) has the same number in all modules
/// that have it; what lies within is counted upwards from kFirstLocal. The code that modules share thereby has the same
/// words in each: compressed together they take a sixth of what they take with glslang's ids.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vulkan/packed_ids.hpp"

namespace {

namespace fs = std::filesystem;
using vkformer::vulkan::kPackedReference;
using vkformer::vulkan::kPackedResult;
using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kMagic = 0x07230203;
constexpr std::size_t kHeader = 5;  // words; the bound of ids is the fourth
constexpr std::size_t kBound = 3;
constexpr std::uint32_t kOpString = 7;
constexpr std::uint32_t kOpFunction = 54;
constexpr std::uint32_t kOpLabel = 248;
constexpr std::uint32_t kOpSwitch = 251;

/// The first id within functions. It is fixed, rather than the one after all globals: a global that one new shader brings
/// would otherwise change the words of every module, and drivers would compile all of them anew instead of finding them in
/// their caches. What changes now are modules with globals that come after it; hashes for numbers would spare those, too,
/// but take a twentieth more where they are compressed.
constexpr std::uint32_t kFirstLocal = 8192;

/// What the operands of an instruction are, a letter per word; the last one stands for all that follow.
///   r  the id that the instruction defines
///   i  another id
///   l  a literal
///   s  the words of a string
///   m  a mask of memory operands, and what it says that follows: an alignment, scopes
///   p  pairs of a literal and an id
///   o  the opcode whose operands, but for the first two, follow
struct Operands {
    std::uint32_t first, last;  ///< opcodes
    std::string_view letters;
};

/// Chapter 3.49 of the SPIR-V specification, and the extensions that our shaders use; ascending.
constexpr Operands kOperands[] = {
    {1, 1, "ir"},            // OpUndef
    {2, 2, "s"},             // OpSourceContinued
    {3, 3, "llil"},          // OpSource
    {4, 4, "s"},             // OpSourceExtension
    {5, 5, "is"},            // OpName
    {6, 6, "il"},            // OpMemberName
    {7, 7, "rs"},            // OpString
    {8, 8, "il"},            // OpLine
    {10, 10, "s"},           // OpExtension
    {11, 11, "rs"},          // OpExtInstImport
    {12, 12, "irili"},       // OpExtInst
    {14, 14, "l"},           // OpMemoryModel
    {15, 15, "lisi"},        // OpEntryPoint
    {16, 16, "il"},          // OpExecutionMode
    {17, 17, "l"},           // OpCapability
    {19, 20, "r"},           // OpTypeVoid, OpTypeBool
    {21, 22, "rl"},          // OpTypeInt, OpTypeFloat
    {23, 25, "ril"},         // OpTypeVector, OpTypeMatrix, OpTypeImage
    {26, 30, "ri"},          // OpTypeSampler, OpTypeSampledImage, OpTypeArray, OpTypeRuntimeArray, OpTypeStruct
    {32, 32, "rli"},         // OpTypePointer
    {33, 33, "ri"},          // OpTypeFunction
    {39, 39, "il"},          // OpTypeForwardPointer
    {41, 42, "ir"},          // OpConstantTrue, OpConstantFalse
    {43, 43, "irl"},         // OpConstant
    {44, 44, "iri"},         // OpConstantComposite
    {46, 46, "ir"},          // OpConstantNull
    {48, 49, "ir"},          // OpSpecConstantTrue, OpSpecConstantFalse
    {50, 50, "irl"},         // OpSpecConstant
    {51, 51, "iri"},         // OpSpecConstantComposite
    {52, 52, "iro"},         // OpSpecConstantOp
    {54, 54, "irli"},        // OpFunction
    {55, 55, "ir"},          // OpFunctionParameter
    {56, 56, "l"},           // OpFunctionEnd
    {57, 57, "iri"},         // OpFunctionCall
    {59, 59, "irli"},        // OpVariable
    {60, 60, "iri"},         // OpImageTexelPointer
    {61, 61, "irim"},        // OpLoad
    {62, 63, "iim"},         // OpStore, OpCopyMemory
    {65, 67, "iri"},         // OpAccessChain, OpInBoundsAccessChain, OpPtrAccessChain
    {68, 68, "iril"},        // OpArrayLength
    {70, 70, "iri"},         // OpInBoundsPtrAccessChain
    {71, 71, "il"},          // OpDecorate
    {72, 72, "il"},          // OpMemberDecorate
    {77, 78, "iri"},         // OpVectorExtractDynamic, OpVectorInsertDynamic
    {79, 79, "iriil"},       // OpVectorShuffle
    {80, 80, "iri"},         // OpCompositeConstruct
    {81, 81, "iril"},        // OpCompositeExtract
    {82, 82, "iriil"},       // OpCompositeInsert
    {83, 84, "iri"},         // OpCopyObject, OpTranspose
    {86, 86, "iri"},         // OpSampledImage
    {87, 88, "iriili"},      // OpImageSampleImplicitLod, OpImageSampleExplicitLod
    {95, 95, "iriili"},      // OpImageFetch
    {98, 98, "iriili"},      // OpImageRead
    {99, 99, "iiili"},       // OpImageWrite
    {100, 100, "iri"},       // OpImage
    {103, 104, "iri"},       // OpImageQuerySizeLod, OpImageQuerySize
    {109, 122, "iri"},       // conversions, but for OpGenericCastToPtrExplicit, which ends in a literal
    {124, 124, "iri"},       // OpBitcast
    {126, 152, "iri"},       // arithmetic
    {154, 191, "iri"},       // comparisons
    {194, 205, "iri"},       // of bits
    {207, 215, "iri"},       // derivatives
    {224, 225, "i"},         // OpControlBarrier, OpMemoryBarrier
    {227, 227, "iri"},       // OpAtomicLoad
    {228, 228, "i"},         // OpAtomicStore
    {229, 242, "iri"},       // other atomics
    {245, 245, "iri"},       // OpPhi
    {246, 246, "iil"},       // OpLoopMerge
    {247, 247, "il"},        // OpSelectionMerge
    {248, 248, "r"},         // OpLabel
    {249, 249, "i"},         // OpBranch
    {250, 250, "iiil"},      // OpBranchConditional
    {251, 251, "iip"},       // OpSwitch; has_narrow_switches() tells whether its literals are of one word
    {252, 253, "l"},         // OpKill, OpReturn
    {254, 254, "i"},         // OpReturnValue
    {255, 255, "l"},         // OpUnreachable
    {317, 317, "l"},         // OpNoLine
    {330, 330, "s"},         // OpModuleProcessed
    {331, 331, "ili"},       // OpExecutionModeId
    {333, 341, "iri"},       // OpGroupNonUniformElect to …BallotBitExtract
    {342, 342, "irili"},     // OpGroupNonUniformBallotBitCount
    {343, 348, "iri"},       // OpGroupNonUniformBallotFindLSB to …ShuffleDown
    {349, 364, "irili"},     // OpGroupNonUniformIAdd to …LogicalXor
    {365, 366, "iri"},       // OpGroupNonUniformQuadBroadcast, …QuadSwap
    {400, 402, "iri"},       // OpCopyLogical, OpPtrEqual, OpPtrNotEqual
    {4450, 4452, "iriil"},   // OpSDot, OpUDot, OpSUDot
    {4453, 4455, "iriiil"},  // OpSDotAccSat, OpUDotAccSat, OpSUDotAccSat
    {4456, 4456, "ri"},      // OpTypeCooperativeMatrixKHR
    {4457, 4457, "iriiim"},  // OpCooperativeMatrixLoadKHR
    {4458, 4458, "iiiim"},   // OpCooperativeMatrixStoreKHR
    {4459, 4459, "iriiil"},  // OpCooperativeMatrixMulAddKHR
    {4460, 4460, "iri"},     // OpCooperativeMatrixLengthKHR
    {5366, 5366, "irili"},   // OpCooperativeMatrixReduceNV
    {5369, 5369, "iri"},     // OpCooperativeMatrixPerElementOpNV
};

std::string_view letters_of(std::uint32_t opcode) {
    const auto found = std::ranges::lower_bound(kOperands, opcode, {}, &Operands::last);
    return found != std::end(kOperands) && found->first <= opcode ? found->letters : std::string_view{};
}

/// OpSource…, OpName, OpMemberName, OpString, OpLine, OpNoLine, OpModuleProcessed.
bool is_debug(std::uint32_t opcode) { return (opcode >= 2 && opcode <= 8) || opcode == 317 || opcode == 330; }

enum class Role : std::uint8_t { Literal, Reference, Result };

struct Module {
    fs::path file;
    Words words;
    std::vector<Role> roles;              ///< of each word
    std::vector<std::size_t> beginnings;  ///< of the instructions, and the end
    std::size_t functions = 0;            ///< where the first one begins
    bool is_known = true;                 ///< or its ids stay as they are

    std::uint32_t opcode(std::size_t at) const { return words[at] & 0xFFFF; }
    void keep_ids(const std::string& why) {
        if (is_known) std::cout << file.filename().string() << " keeps its ids: " << why << '\n';
        is_known = false;
    }
};

/// Sets the roles of the operands of the instruction that lies in [at, end).
void read_operands(Module& m, std::size_t at, std::size_t end) {
    std::string_view letters = letters_of(m.opcode(at));
    if (letters.empty()) return m.keep_ids("opcode " + std::to_string(m.opcode(at)) + " is unknown");
    std::size_t i = at + 1;
    const auto take = [&](Role role) {
        if (i < end) m.roles[i++] = role;
    };
    while (i < end) {
        const char letter = letters.front();
        if (letters.size() > 1) letters.remove_prefix(1);
        switch (letter) {
        case 'r': take(Role::Result); break;
        case 'i': take(Role::Reference); break;
        case 's':
            while (i < end && m.words[i] >> 24 != 0) take(Role::Literal);
            take(Role::Literal);
            break;
        case 'm': {
            const std::uint32_t mask = m.words[i];
            take(Role::Literal);
            if (mask & 2) take(Role::Literal);       // Aligned
            if (mask & 8) take(Role::Reference);     // MakePointerAvailable
            if (mask & 0x10) take(Role::Reference);  // MakePointerVisible
            if (mask & ~0x3Fu) m.keep_ids("it has memory operands that are unknown");
            break;
        }
        case 'p':
            take(Role::Literal);
            take(Role::Reference);
            break;
        case 'o':
            letters = letters_of(m.words[i]);
            if (!letters.starts_with("iri")) return m.keep_ids("a specialization constant's operation is unknown");
            letters.remove_prefix(2);
            take(Role::Literal);
            break;
        default: take(Role::Literal);
        }
    }
}

/// Whether the literals of each OpSwitch are of one word, as the table has them: only then are their number and that of
/// their labels the same, and the labels are such.
bool has_narrow_switches(const Module& m) {
    std::set<std::uint32_t> labels;
    for (std::size_t n = 0; n + 1 < m.beginnings.size(); ++n)
        if (m.opcode(m.beginnings[n]) == kOpLabel && m.beginnings[n + 1] > m.beginnings[n] + 1)
            labels.insert(m.words[m.beginnings[n] + 1]);
    for (std::size_t n = 0; n + 1 < m.beginnings.size(); ++n) {
        const std::size_t at = m.beginnings[n], end = m.beginnings[n + 1];
        if (m.opcode(at) != kOpSwitch) continue;
        if (end < at + 3 || (end - at) % 2 == 0) return false;
        for (std::size_t i = at + 2; i < end; i += 2)
            if (!labels.contains(m.words[i])) return false;
    }
    return true;
}

/// The module without what only debuggers read; strings stay where an instruction that stays refers to them. Where an
/// instruction is unknown, so is what it refers to, and all strings stay.
Module without_names(const Module& m) {
    std::set<std::uint32_t> used;
    for (std::size_t n = 0; n + 1 < m.beginnings.size(); ++n)
        for (std::size_t i = m.beginnings[n]; i < m.beginnings[n + 1] && !is_debug(m.opcode(m.beginnings[n])); ++i)
            if (m.roles[i] == Role::Reference) used.insert(m.words[i]);
    Module kept;
    kept.file = m.file;
    kept.is_known = m.is_known;
    kept.words.assign(m.words.begin(), m.words.begin() + kHeader);
    kept.roles.resize(kHeader);
    for (std::size_t n = 0; n + 1 < m.beginnings.size(); ++n) {
        const std::size_t at = m.beginnings[n], end = m.beginnings[n + 1];
        const bool is_used =
            m.opcode(at) == kOpString && (!m.is_known || (end > at + 1 && used.contains(m.words[at + 1])));
        if (is_debug(m.opcode(at)) && !is_used) continue;
        if (at == m.functions) kept.functions = kept.words.size();
        kept.beginnings.push_back(kept.words.size());
        std::copy(m.words.data() + at, m.words.data() + end, std::back_inserter(kept.words));
        std::copy(m.roles.data() + at, m.roles.data() + end, std::back_inserter(kept.roles));
    }
    kept.beginnings.push_back(kept.words.size());
    return kept;
}

std::string read(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    std::string bytes;
    for (char block[1 << 14]; stream.read(block, sizeof block) || stream.gcount() > 0;)
        bytes.append(block, static_cast<std::size_t>(stream.gcount()));
    if (!stream.eof()) throw std::runtime_error("cannot read " + file.string());
    return bytes;
}

Module read_module(const fs::path& file, bool with_names) {
    const std::string bytes = read(file);
    Words words(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), words.size() * 4);
    const std::runtime_error broken(file.string() + " is no SPIR-V module");
    if (bytes.size() % 4 != 0 || words.size() < kHeader || words[0] != kMagic) throw broken;
    Module m;
    m.file = file;
    m.words = std::move(words);
    m.roles.resize(m.words.size());
    for (std::size_t at = kHeader, length = 0; at < m.words.size(); at += length) {
        length = m.words[at] >> 16;
        if (length == 0 || length > m.words.size() - at) throw broken;
        if (m.opcode(at) == kOpFunction && m.functions == 0) m.functions = at;
        m.beginnings.push_back(at);
        read_operands(m, at, at + length);
    }
    m.beginnings.push_back(m.words.size());
    if (!has_narrow_switches(m)) m.keep_ids("an OpSwitch has literals of more than one word");
    if (!with_names) m = without_names(m);
    if (!m.is_known) return m;  // and may define ids where nobody sees it
    std::set<std::uint32_t> defined;
    for (std::size_t i = 0; i < m.words.size(); ++i)
        if (m.roles[i] == Role::Result && !defined.insert(m.words[i]).second)
            throw std::runtime_error(file.string() + ": an id is defined twice: " + std::to_string(m.words[i]));
    for (std::size_t i = 0; i < m.words.size(); ++i)
        if (m.roles[i] == Role::Reference && !defined.contains(m.words[i]))
            throw std::runtime_error(file.string() + ": an id is not defined: " + std::to_string(m.words[i]));
    return m;
}

using Numbers = std::map<std::uint32_t, std::uint32_t>;  // by the ids of glslang

/// Numbers for what a module defines outside of functions: `shared` has those of all modules, by the instruction with its
/// ids numbered, and by how many alike the module has before it.
Numbers number_globals(const Module& m, std::map<Words, std::uint32_t>& shared) {
    Numbers numbers;
    std::set<Words> before;
    for (std::size_t n = 0; n + 1 < m.beginnings.size() && m.beginnings[n] < m.functions; ++n) {
        Words key;
        std::uint32_t result = 0;
        for (std::size_t i = m.beginnings[n]; i < m.beginnings[n + 1]; ++i) {
            const auto number = numbers.find(m.words[i]);
            if (m.roles[i] == Role::Result) result = m.words[i];
            if (m.roles[i] == Role::Literal) key.push_back(m.words[i]);
            if (m.roles[i] == Role::Reference) key.push_back(number == numbers.end() ? 0 : number->second);
        }
        if (result == 0) continue;
        for (key.push_back(0); !before.insert(key).second;) ++key.back();
        numbers[result] = shared.try_emplace(key, static_cast<std::uint32_t>(shared.size() + 1)).first->second;
    }
    return numbers;
}

/// Numbers the ids within functions, and writes all numbers into the module.
void number(Module& m, Numbers numbers) {
    std::uint32_t last = kFirstLocal - 1;
    for (std::size_t i = m.functions; i < m.words.size(); ++i)
        if (m.roles[i] == Role::Result) numbers[m.words[i]] = ++last;
    if (last >= 0xFFFF) return m.keep_ids("it has too many");
    for (std::size_t i = 0; i < m.words.size(); ++i)
        if (m.roles[i] != Role::Literal) m.words[i] = numbers.at(m.words[i]);
    m.words[kBound] = last + 1;
}

Words packed(const Module& m) {
    Words words = m.words;
    for (const std::uint32_t word : words)
        if (word >> 16 == kPackedResult || word >> 16 == kPackedReference)
            throw std::runtime_error(m.file.string() + " has the word " + std::to_string(word) +
                                     ", which is kept for ids; let packed_ids.hpp have others");
    if (!m.is_known) return words;
    std::uint32_t last = 0;
    for (std::size_t i = m.functions; i < words.size(); ++i) {
        const std::uint32_t id = words[i];
        if (m.roles[i] == Role::Result) {
            words[i] = kPackedResult << 16 | (id == last + 1 ? 0 : id);
            last = id;
        } else if (m.roles[i] == Role::Reference && id >= kFirstLocal) {
            words[i] = kPackedReference << 16 | ((id - last) & 0xFFFF);
        }
    }
    return words;
}

void write(const fs::path& file, std::string_view bytes) {
    std::ofstream stream(file, std::ios::binary);
    if (!stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush())
        throw std::runtime_error("cannot write " + file.string());
}

void write(const fs::path& file, const Words& words) {
    write(file, {reinterpret_cast<const char*>(words.data()), words.size() * 4});
}

void pack(const fs::path& list, const std::string& output, bool with_names) {
    std::vector<Module> modules;
    std::istringstream files(read(list));
    for (std::string file; std::getline(files, file);) modules.push_back(read_module(file, with_names));
    std::map<Words, std::uint32_t> shared;
    std::vector<Numbers> numbers;
    for (const Module& m : modules) numbers.push_back(m.is_known ? number_globals(m, shared) : Numbers{});
    if (shared.size() >= kFirstLocal)
        throw std::runtime_error("modules have " + std::to_string(shared.size()) +
                                 " types, constants and variables; let kFirstLocal be greater");

    Words contents, originals;
    std::string places;
    for (std::size_t i = 0; i < modules.size(); ++i) {
        Module& m = modules[i];
        if (m.is_known) number(m, std::move(numbers[i]));
        places += "constexpr EmbeddedModule " + m.file.stem().string() + " = {kPacked, kContents, " +
                  std::to_string(contents.size() * 4) + ", " + std::to_string(m.words.size() * 4) + "};\n";
        std::ranges::copy(packed(m), std::back_inserter(contents));
        std::ranges::copy(m.words, std::back_inserter(originals));
        write(m.file.string() + ".numbered", m.words);
    }
    write(output + ".bin", contents);
    write(output + ".inc", "// Generated from the shaders.\nconstexpr std::uint32_t kContents = " +
                               std::to_string(contents.size() * 4) + ";\n" + places);
    vkformer::vulkan::restore_ids(contents);
    if (contents != originals) throw std::runtime_error("ids are not restored as they were");
}

}  // namespace

int main(int count, char** arguments) try {
    if (count < 3 || count > 4 || (count == 4 && std::string_view(arguments[3]) != "names"))
        throw std::runtime_error("usage: pack_shaders LIST OUTPUT [names]");
    pack(arguments[1], arguments[2], count == 4);
} catch (const std::exception& error) {
    std::cerr << "pack_shaders: " << error.what() << '\n';
    return 1;
}
