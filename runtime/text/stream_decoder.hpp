// SPDX-License-Identifier: MIT
/// Text while it is generated: what can be printed now, and where to stop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vkformer::text {

/// The text of tokens that come one by one (Tokenizer::stream makes it). What it gives out is whole characters that no
/// later token changes; all of it together is what Tokenizer::decode says of all the tokens. A token costs time in
/// proportion to its own text, however long the text before it is. Borrows the tokenizer.
class StreamDecoder {
public:
    StreamDecoder() = default;
    StreamDecoder(const StreamDecoder&) = delete;
    StreamDecoder& operator=(const StreamDecoder&) = delete;
    virtual ~StreamDecoder() = default;

    /// What can be printed after this token; may be empty.
    virtual std::string push(std::int32_t id) = 0;
    /// What was held back until now. Nothing may be pushed after it.
    virtual std::string finish() = 0;
};

/// Looks for stop strings in a text that comes in parts, over their borders.
class StopStrings {
public:
    /// Empty ones are ignored.
    explicit StopStrings(std::vector<std::string> stops);

    struct Output {
        std::string text;  ///< can be printed: no stop string begins in it
        std::optional<std::size_t>
            stop;  ///< the stop string (its index in `stops`) that ends the text here, itself left out
    };
    /// The stop string that ends first counts, of those that end at the same place the longest: how the text is cut into
    /// parts makes no difference. After a stop all output is empty.
    Output push(std::string_view part);
    /// What was held back, since it could have been the beginning of a stop string. Nothing after a stop.
    std::string finish();

private:
    std::size_t open_end() const;

    std::vector<std::string> stops_;
    std::string held_;
    std::optional<std::size_t> stopped_by_;
};

}  // namespace vkformer::text
