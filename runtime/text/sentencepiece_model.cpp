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
    };
    /// Nothing at the end; `broken()` tells a clean end from a broken message.
    std::optional<Entry> next() {
        if (rest_.empty()) return std::nullopt;
        const auto key = varint();
        if (!key) return fail();
        std::uint64_t length = 0;
        switch (*key & 7) {
        case 0: return varint() ? std::optional(Entry{*key >> 3, {}}) : fail();
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
        return Entry{*key >> 3, (*key & 7) == 2 ? bytes : std::string_view()};
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
constexpr std::uint64_t kPieces = 1, kNormalizerSpec = 3, kDenormalizerSpec = 5, kPrecompiledCharsmap = 2;

/// libsentencepiece follows the normalisation map without looking at bounds, and its parser prints; so look first.
Result<void> check_model(std::string_view model, const std::string& file_name) {
    const Error broken{ErrorCode::CorruptFile, file_name + ": is no SentencePiece model, or is truncated"};
    ProtoReader reader(model);
    bool has_pieces = false, has_normalizer = false;
    while (const auto entry = reader.next()) {
        if (entry->field == 0) return broken;
        has_pieces |= entry->field == kPieces;
        has_normalizer |= entry->field == kNormalizerSpec;
        if (entry->field != kNormalizerSpec && entry->field != kDenormalizerSpec) continue;
        ProtoReader spec(entry->bytes);
        while (const auto item = spec.next())
            if (item->field == kPrecompiledCharsmap && !item->bytes.empty())
                VKFORMER_CHECK(Charsmap::parse(item->bytes, file_name));
        if (spec.broken()) return broken;
    }
    if (reader.broken() || !has_pieces || !has_normalizer) return broken;
    return {};
}

}  // namespace

Result<std::shared_ptr<const sentencepiece::SentencePieceProcessor>> load_sentencepiece(
    const std::filesystem::path& path) {
    const std::string file_name = path.filename().string();
    VKFORMER_TRY(const auto file, MappedFile::open(path));
    const std::string_view model(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
    VKFORMER_CHECK(check_model(model, file_name));
    try {
        auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
        const auto status = processor->LoadFromSerializedProto(model);
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
