// SPDX-License-Identifier: MIT
/// A matrix of small integers with scales, as files of other programs pack it, and the same in a format of ours.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/tensor_data.hpp"

namespace vkformer::models::packed {

inline constexpr std::uint64_t kBlock = 32;  // elements of a block of the formats that are made

/// A matrix [out, in] of small integers with a scale, and a zero, for each group of inputs of an output.
class PackedMatrix {
public:
    std::uint64_t out = 0, in = 0;
    std::uint32_t bits = 4;
    /// The group of an input; empty: those of `group_size` neighbours each.
    std::vector<std::uint32_t> group_of;
    std::uint64_t group_size = 0, groups = 0;
    std::vector<float> scales;        ///< [groups, out]
    std::vector<std::uint8_t> zeros;  ///< [groups, out]
    bool is_half = false;             ///< the file's scales are float16

    std::uint32_t levels() const { return 1u << bits; }
    std::uint64_t group(std::uint64_t i) const { return group_of.empty() ? i / group_size : group_of[i]; }
    /// Whether no block of neighbours is of two groups.
    bool has_whole_blocks() const {
        return in % kBlock == 0 && group_of.empty() && (groups == 1 || group_size % kBlock == 0);
    }
};

/// The place in a word of the first of its eight integers, the second, …
using WordOrder = std::array<std::uint8_t, 8>;

/// How words of several integers each lie in a tensor of two dimensions.
struct WordLayout {
    bool of_outputs = false;  ///< a word has integers of neighbouring outputs, not of neighbouring inputs (or groups)
    bool goes_down = false;   ///< those of the next word are below it, not behind it
    std::uint32_t bytes = 4;  ///< of a word: 4 or 1
    WordOrder order = {0, 1, 2, 3, 4, 5, 6, 7};  ///< of eight outputs
    std::uint32_t added = 0, flipped = 0;        ///< to each word, and then its bits, before it is taken apart
};

/// A tensor of small integers. Its words may be misaligned.
class Words {
public:
    Words(const TensorData& data, std::uint32_t bits, const WordLayout& layout)
        : bytes_(data.bytes),
          columns_(data.shape[1]),
          bits_(bits),
          in_word_(8 * layout.bytes / bits),
          layout_(layout) {}

    /// Of output `o` and input, or group, `i`.
    int at(std::uint64_t o, std::uint64_t i) const {
        const std::uint64_t along = layout_.of_outputs ? o : i, across = layout_.of_outputs ? i : o;
        const std::uint64_t place = along % in_word_;
        return part(word(along / in_word_, across), layout_.of_outputs && in_word_ == 8 ? layout_.order[place] : place);
    }
    /// Of output `o` and a block's inputs, from number `first` on: a multiple of kBlock.
    std::array<int, kBlock> block(std::uint64_t o, std::uint64_t first) const {
        std::array<int, kBlock> values;
        if (layout_.of_outputs) {
            for (std::uint64_t i = 0; i < kBlock; ++i) values[i] = at(o, first + i);
            return values;
        }
        std::uint64_t i = 0;
        for (std::uint64_t w = first / in_word_; i < kBlock; ++w) {
            const std::uint32_t whole = word(w, o);
            for (std::uint32_t place = 0; place < in_word_; ++place) values[i++] = part(whole, place);
        }
        return values;
    }

private:
    std::uint32_t word(std::uint64_t along, std::uint64_t across) const {
        const std::uint64_t index = layout_.goes_down ? along * columns_ + across : across * columns_ + along;
        std::uint32_t value = 0;
        if (layout_.bytes == 4)
            std::memcpy(&value, bytes_.data() + index * 4, 4);
        else
            value = std::to_integer<std::uint32_t>(bytes_[index]);
        return (value + layout_.added) ^ layout_.flipped;
    }
    int part(std::uint32_t whole, std::uint64_t place) const {
        return static_cast<int>((whole >> (place * bits_)) & ((1u << bits_) - 1));
    }

    std::span<const std::byte> bytes_;
    std::uint64_t columns_;
    std::uint32_t bits_, in_word_;
    WordLayout layout_;
};

/// The matrix of these integers, in the format that has its numbers.
TensorData repacked(const PackedMatrix& matrix, const Words& integers);

void store_half(std::byte* at, float value);

}  // namespace vkformer::models::packed
