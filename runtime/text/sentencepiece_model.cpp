// SPDX-License-Identifier: MIT
#include "text/sentencepiece_model.hpp"

#include <sentencepiece_processor.h>

#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/mapped_file.hpp"
#include "core/try.hpp"
#include "text/charsmap.hpp"

namespace vkformer::text {
namespace {

/// Reads one level of a protocol buffer: https://protobuf.dev/programming-guides/encoding/
class ProtoReader {
public:
    explicit ProtoReader(std::string_view bytes) : rest_(bytes) {}

    struct Entry {
        std::uint64_t field;
        std::string_view bytes;  ///< of a length-delimited field, else empty
        std::string_view whole;  ///< with the field's number
    };
    /// Nothing at the end; `broken()` tells a clean end from a broken message.
    std::optional<Entry> next() {
        if (rest_.empty()) return std::nullopt;
        const std::string_view from = rest_;
        const auto whole = [&] { return from.substr(0, from.size() - rest_.size()); };
        const auto key = varint();
        if (!key) return fail();
        std::uint64_t length = 0;
        switch (*key & 7) {
        case 0: return varint() ? std::optional(Entry{*key >> 3, {}, whole()}) : fail();
        case 1: length = 8; break;
        case 5: length = 4; break;
        case 2: {
            const auto size = varint();
            if (!size) return fail();
            length = *size;
            break;
        }
        default: return fail();
        }
        if (length > rest_.size()) return fail();
        const std::string_view bytes = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return Entry{*key >> 3, (*key & 7) == 2 ? bytes : std::string_view(), whole()};
    }
    bool broken() const noexcept { return broken_; }

private:
    std::optional<std::uint64_t> varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
            const auto byte = static_cast<unsigned char>(rest_.front());
            rest_.remove_prefix(1);
            value |= std::uint64_t{byte & 0x7Fu} << shift;
            if (byte < 0x80) return value;
        }
        return std::nullopt;
    }
    std::nullopt_t fail() {
        broken_ = true;
        return std::nullopt;
    }

    std::string_view rest_;
    bool broken_ = false;
};

/// Field numbers of sentencepiece_model.proto.
constexpr std::uint64_t kPieces = 1, kNormalizerSpec = 3, kSelfTestData = 4, kDenormalizerSpec = 5, kPieceText = 1,
                        kPrecompiledCharsmap = 2;
/// libsentencepiece calls itself for each byte of a piece; trainers make none above 16 characters unless they are told to.
constexpr std::size_t kLongestPiece = 1024;

/// libsentencepiece follows the normalisation map without looking at bounds, and its parser prints; so look first. What it checks
/// itself by, and prints about, is left out of what is returned: nothing, where the model has none.
Result<std::string> checked_model(std::string_view model, const std::string& file_name) {
    const Error broken{ErrorCode::CorruptFile, file_name + ": is no SentencePiece model, or is truncated"};
    ProtoReader reader(model);
    bool has_pieces = false, has_normalizer = false, has_self_test = false;
    while (const auto entry = reader.next()) {
        if (entry->field == 0) return broken;
        has_pieces |= entry->field == kPieces;
        has_normalizer |= entry->field == kNormalizerSpec;
        has_self_test |= entry->field == kSelfTestData;
        if (entry->field == kPieces) {
            ProtoReader piece(entry->bytes);
            while (const auto item = piece.next())
                if (item->field == kPieceText && item->bytes.size() > kLongestPiece)
                    return Error{ErrorCode::CorruptFile, file_name + ": a piece has " +
                                                             std::to_string(item->bytes.size()) + " bytes; at most " +
                                                             std::to_string(kLongestPiece) + " are possible"};
            if (piece.broken()) return broken;
        }
        if (entry->field != kNormalizerSpec && entry->field != kDenormalizerSpec) continue;
        ProtoReader spec(entry->bytes);
        while (const auto item = spec.next())
            if (item->field == kPrecompiledCharsmap && !item->bytes.empty())
                VKFORMER_CHECK(Charsmap::parse(item->bytes, file_name));
        if (spec.broken()) return broken;
    }
    if (reader.broken() || !has_pieces || !has_normalizer) return broken;
    std::string rest;
    if (has_self_test)
        for (ProtoReader again(model); const auto entry = again.next();)
            if (entry->field != kSelfTestData) rest += entry->whole;
    return rest;
}

}  // namespace

Result<std::shared_ptr<const sentencepiece::SentencePieceProcessor>> load_sentencepiece(
    const std::filesystem::path& path) {
    const std::string file_name = path.filename().string();
    VKFORMER_TRY(const auto file, MappedFile::open(path));
    const std::string_view model(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
    VKFORMER_TRY(const std::string without_test, checked_model(model, file_name));
    try {
        auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
        const auto status =
            processor->LoadFromSerializedProto(without_test.empty() ? model : std::string_view(without_test));
        if (!status.ok())
            return Error{ErrorCode::CorruptFile,
                         file_name + ": libsentencepiece refuses it: " + status.error_message()};
        return std::shared_ptr<const sentencepiece::SentencePieceProcessor>(std::move(processor));
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfHostMemory, file_name + ": out of memory while loading"};
    } catch (const std::exception& error) {
        return Error{ErrorCode::CorruptFile, file_name + ": libsentencepiece refuses it: " + error.what()};
    }
}

}  // namespace vkformer::text
