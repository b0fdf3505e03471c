// SPDX-License-Identifier: MIT
#include "vulkan/pieces.hpp"

#include <algorithm>
#include <bit>
#include <concepts>
#include <numeric>
#include <set>

#include "core/ceil_div.hpp"
#include "core/try.hpp"
#include "graph/placement.hpp"
#include "vulkan/memory.hpp"

namespace vkformer::vulkan {
namespace {

using graph::Access;
using graph::Graph;
using graph::Tensor;
using graph::TensorKind;
using graph::Value;

constexpr std::uint64_t kAlignment =
    256;  // of slices, in bytes: no device asks for more (minStorageBufferOffsetAlignment)
/// What an allocation may need beside one tensor: guard bands, and the driver's own rounding.
constexpr std::uint64_t kAllocationSlack = 4096;

std::uint64_t round_down(std::uint64_t value, std::uint64_t multiple) { return value / multiple * multiple; }

std::uint64_t most_allocated(const Capabilities& device) {
    return round_down(device.max_allocation_bytes - std::min(device.max_allocation_bytes, kAllocationSlack),
                      kAlignment);
}

Block all_of(const Sizes& sizes) { return {{{0, sizes[0]}, {0, sizes[1]}, {0, sizes[2]}, {0, sizes[3]}}}; }
Sizes counts_of(const Block& block) { return {block[0].count, block[1].count, block[2].count, block[3].count}; }

bool contains(const Block& outer, const Block& inner) {
    for (std::size_t i = 0; i < 4; ++i)
        if (inner[i].first < outer[i].first || inner[i].first + inner[i].count > outer[i].first + outer[i].count)
            return false;
    return true;
}

Sizes counts_of(const Shape& shape) {
    Sizes sizes{1, 1, 1, 1};
    for (std::size_t i = 0; i < shape.rank(); ++i) sizes[4 - shape.rank() + i] = shape[i];
    return sizes;
}

/// Rows of the last dimension.
Sizes rows_of(const Shape& shape) { return {1, 1, shape.row_count(), shape.back()}; }

/// Ranges of at most `most` (a multiple of `unit`) that cover `count`, as equal as whole units allow. Their number is a power of two, so
/// that each range of one tensor's rows lies in one of another's.
std::vector<Range> ranges_of(std::uint64_t count, std::uint64_t most, std::uint64_t unit) {
    const std::uint64_t units = ceil_div(count, unit);
    const std::uint64_t pieces = std::min(units, std::bit_ceil(ceil_div(units, most / unit)));
    std::vector<Range> ranges;
    for (std::uint64_t i = 0; i < pieces; ++i) {
        const std::uint64_t first = units * i / pieces * unit, end = std::min(count, units * (i + 1) / pieces * unit);
        ranges.push_back({first, end - first});
    }
    return ranges;
}

std::string to_string(const Range& range) {
    return std::to_string(range.first) + ":" + std::to_string(range.first + range.count);
}

/// What a tensor is cut along.
enum class Style : std::uint8_t {
    rows,
    gate_rows,  ///< rows of a gate, with as many of its other half
    experts,    ///< the rows of some experts
    heads,      ///< a cache [batch, capacity, heads, dim]: heads and then sequences
};

/// Whether what a node makes of a row depends on that row alone.
template <class Op>
constexpr bool is_row_wise = requires {
    requires Op::kIsRowWise;
};

class Cutter {
public:
    Cutter(const graph::Plan& plan, const Capabilities& device) : device_(device), result_{.plan = plan} {}

    Result<PiecedPlan> run() {
        graph().set_scope({});  // names of pieces are whole
        for (std::uint32_t id = 0; id < whole().tensors().size(); ++id)
            if (!whole().tensors()[id].alias_of && is_too_large(id)) VKFORMER_CHECK(cut(id));
        for (const graph::Node& node : result_.plan.graph.nodes()) {
            result_.nodes.emplace_back();
            copied_ = 0;
            VKFORMER_CHECK(lower(node));
        }
        VKFORMER_CHECK(place());
        return std::move(result_);
    }

private:
    const Graph& whole() const { return result_.plan.graph; }
    Graph& graph() { return result_.plan.graph; }

    bool is_too_large(std::uint32_t id) const {
        return graph::storage_bytes(whole().tensors()[id]) > most_piece_bytes(device_);
    }

    Error too_large(std::uint32_t id, const std::string& why) const {
        const Tensor& tensor = whole().tensors()[id];
        return {ErrorCode::MissingFeature,
                tensor.name + " has " + std::to_string(graph::storage_bytes(tensor)) + " bytes; device \"" +
                    device_.name + "\" binds at most " + std::to_string(device_.max_storage_buffer_range) +
                    " (maxStorageBufferRange) and allocates at most " + std::to_string(device_.max_allocation_bytes) +
                    " (maxMemoryAllocationSize), and " + why};
    }

    // ---- the cuts -------------------------------------------------------------------------------------------------------

    struct Cut {
        Style style;
        Sizes sizes;
        friend bool operator==(const Cut&, const Cut&) = default;
    };

    Cut cut_for(const graph::Op& op, std::string_view operand, const Shape& shape) const {
        const auto* const linear = std::get_if<graph::Linear>(&op);
        if (linear && linear->is_gated() && operand == "weight")
            return {Style::gate_rows, {1, 2, shape.row_count() / 2, shape.back()}};
        const auto* const experts = std::get_if<graph::ExpertLinear>(&op);
        if (experts && operand == "weight") {
            const std::uint64_t out = whole().shape(experts->y).back();
            return {Style::experts, {1, out, shape.row_count() / out, shape.back()}};
        }
        const bool is_cache = operand == "key" || operand == "value" || operand == "cache" || operand == "key_cache" ||
                              operand == "value_cache";
        if (is_cache && shape.rank() == 4) return {Style::heads, counts_of(shape)};
        return {Style::rows, rows_of(shape)};
    }

    Result<void> cut(std::uint32_t id) {
        std::optional<Cut> found;
        std::string others;
        for (const graph::Node& node : whole().nodes())
            graph::for_each_operand(node.op, [&](std::string_view name, Value value, Access) {
                if (whole().storage(value).id != id) return;
                const Cut wanted = cut_for(node.op, name, whole().shape(value));
                if (found && *found != wanted) others = node.name;
                found = wanted;
            });
        if (!found) {  // nobody touches it: no piece of it is needed
            result_.cut.emplace(id, CutTensor{});
            return {};
        }
        if (!others.empty()) return too_large(id, others + " would need other pieces of it than its other users");
        VKFORMER_TRY(const auto blocks, blocks_of(id, *found));
        CutTensor made{.sizes = found->sizes};
        for (const Block& block : blocks) {
            VKFORMER_TRY(const Value value, make_piece(id, *found, block));
            made.pieces.push_back({block, value});
        }
        result_.cut.emplace(id, std::move(made));
        return {};
    }

    /// The rows of a piece are a multiple of so many: whole words and, of a weight that may be read where the host has it, as many as a
    /// slice's alignment asks for.
    static std::uint64_t row_unit(const Tensor& tensor, const Cut& cut, std::uint64_t row_bytes) {
        if (tensor.kind != TensorKind::weight) return graph::fills_words(tensor.dtype, cut.sizes[3]) ? 1 : 2;
        const bool is_even = cut.style == Style::experts && cut.sizes[1] % 2 == 0;
        const std::uint64_t even = is_even ? 1 : 2;  // the columns of a result in float16
        // A gate and its other half are parts by themselves.
        const std::uint64_t part_rows = cut.style == Style::experts ? cut.sizes[1] : 1;
        if (!is_quantized(tensor.dtype)) return std::max(even, kAlignment / std::gcd(kAlignment, row_bytes));
        std::uint64_t rows = even;
        while (!graph::fills_words(tensor.dtype, rows * part_rows * cut.sizes[3])) rows *= 2;  // four blocks fill words
        return rows;
    }

    Result<std::vector<Block>> blocks_of(std::uint32_t id, const Cut& cut) const {
        const Tensor& tensor = whole().tensors()[id];
        const std::uint64_t most = most_piece_bytes(device_);
        const auto& [batch, middle, rows, width] = cut.sizes;
        std::vector<Block> blocks;
        if (cut.style == Style::heads) {
            const std::uint64_t positions = middle, heads = rows, dim = width;
            const std::uint64_t unit = graph::fills_words(tensor.dtype, dim) ? 1 : 2;         // heads
            const std::uint64_t unit_bytes = bytes_of(tensor.dtype, positions * unit * dim);  // of a sequence
            const std::uint64_t most_heads = most / (batch * unit_bytes) * unit;
            const std::uint64_t most_batch = most_heads > 0 ? batch : most / unit_bytes;
            if (most_batch == 0) return too_large(id, "so does a head of one sequence");
            for (const Range& b : ranges_of(batch, most_batch, 1))
                for (const Range& h : ranges_of(heads, std::max(most_heads, unit), unit))
                    blocks.push_back({b, {0, positions}, h, {0, dim}});
            return blocks;
        }
        const std::uint64_t row_bytes = middle * bytes_of(tensor.dtype, width);
        const std::uint64_t unit = row_unit(tensor, cut, row_bytes);
        const std::uint64_t most_rows = round_down(most / row_bytes, unit);
        const std::string what = cut.style == Style::experts ? " of its experts" : " of its rows";
        if (most_rows == 0) return too_large(id, "so have " + std::to_string(unit) + what);
        for (const Range& range : ranges_of(rows, most_rows, unit))
            blocks.push_back({Range{0, 1}, {0, middle}, range, {0, width}});
        return blocks;
    }

    Result<Value> make_piece(std::uint32_t id, const Cut& cut, const Block& block) {
        const Tensor& of = whole().tensors()[id];
        const bool is_cache = cut.style == Style::heads;
        const DType dtype = of.dtype;
        const TensorKind kind = of.kind;
        const bool is_output = of.is_output;
        const std::string name =
            of.name + (is_cache ? "[" + to_string(block[0]) + ", heads " : "[") + to_string(block[2]) + "]";
        const Shape shape = is_cache ? Shape(counts_of(block)) : Shape{block[1].count * block[2].count, block[3].count};
        if (kind == TensorKind::input) return graph().input(name, dtype, shape);
        if (kind == TensorKind::state) return graph().state(name, dtype, shape);
        if (kind == TensorKind::weight) {
            std::vector<TensorData> parts;
            const auto& [first, count] = block[2];
            if (cut.style == Style::experts) {
                const std::uint64_t out = block[1].count;
                VKFORMER_CHECK(add_rows(parts, of, first * out, count * out, block[3].count));
            } else {
                for (std::uint64_t i = 0; i < block[1].count; ++i)
                    VKFORMER_CHECK(add_rows(parts, of, i * cut.sizes[2] + first, count, block[3].count));
            }
            return graph().weight(name, std::move(parts), dtype);
        }
        VKFORMER_TRY(const Value piece, graph().activation(name, dtype, shape));
        if (is_output) graph().mark_output(piece);
        return piece;
    }

    /// Rows of a weight, which may lie in several of its parts.
    Result<void> add_rows(std::vector<TensorData>& data, const Tensor& of, std::uint64_t first, std::uint64_t count,
                          std::uint64_t width) const {
        std::uint64_t before = 0;  // rows of the parts so far
        for (const TensorData& part : of.data) {
            const std::uint64_t rows = part.shape.element_count() / width;
            if (rows * width != part.shape.element_count())
                return Error{ErrorCode::ShapeMismatch, of.name + ": a part of shape " +
                                                           vkformer::to_string(part.shape) + " has no whole rows of " +
                                                           std::to_string(width)};
            const std::uint64_t begin = std::max(first, before), end = std::min(first + count, before + rows);
            if (begin < end)
                data.push_back({.dtype = part.dtype,
                                .shape = {end - begin, width},
                                .bytes = part.bytes.subspan(bytes_of(part.dtype, (begin - before) * width),
                                                            bytes_of(part.dtype, (end - begin) * width)),
                                .owner = part.owner});
            before += rows;
        }
        return {};
    }

    // ---- the nodes ------------------------------------------------------------------------------------------------------

    const CutTensor* cut_of(Value value) const {
        if (!value) return nullptr;
        const auto found = result_.cut.find(whole().storage(value).id);
        return found == result_.cut.end() ? nullptr : &found->second;
    }

    std::vector<PiecedPlan::Work>& work() { return result_.nodes.back(); }

    Result<void> lower(const graph::Node& node) {
        std::optional<std::uint32_t> cut;
        graph::for_each_operand(node.op, [&](std::string_view, Value value, Access) {
            if (!cut && cut_of(value)) cut = whole().storage(value).id;
        });
        if (!cut) {
            work().push_back({node.op});
            return {};
        }
        node_ = node.name;
        first_cut_ = *cut;
        const graph::Op op = node.op;  // graph() may move its nodes
        return graph::visit_op([&](const auto& o) { return lower_op(o); }, op);
    }

    Error cannot(const std::string& what) const { return too_large(first_cut_, node_ + " cannot " + what); }

    template <class Op>
    Result<void> lower_op(const Op& op) {
        if constexpr (is_row_wise<Op>)
            return lower_rows(op);
        else
            return cannot("work on pieces of it");
    }

    Result<void> lower_op(const graph::RmsNorm& op) {
        if (op.gain && whole().shape(op.gain).rank() != 1) return cannot("take gains by turns in pieces of it");
        return lower_rows(op);
    }

    /// The ranges along `axis` that lie in one piece of each of the values that are cut as `sizes` say (0: any size).
    std::vector<Range> common_ranges(std::size_t axis, std::uint64_t size, std::initializer_list<Value> values) const {
        std::set<std::uint64_t> ends{size};
        for (const Value value : values)
            if (const CutTensor* const cut = cut_of(value); cut && cut->sizes[axis] == size)
                for (const TensorPiece& piece : cut->pieces)
                    ends.insert(piece.block[axis].first + piece.block[axis].count);
        std::vector<Range> ranges;
        std::uint64_t first = 0;
        for (const std::uint64_t end : ends) {
            ranges.push_back({first, end - first});
            first = end;
        }
        return ranges;
    }

    /// A tensor for a copy.
    Result<Value> add_copied(DType dtype, const Shape& shape) {
        VKFORMER_TRY(const Value value, graph().activation(node_ + ".piece", dtype, shape));
        const std::uint64_t bytes = graph::storage_bytes(whole().tensor(value));
        if (bytes > most_piece_bytes(device_))
            return cannot("copy " + std::to_string(bytes) + " bytes for a piece of it");
        result_.copied_at[value.id] = copied_;
        copied_ += round_up(bytes, kAlignment);
        result_.copied_bytes = std::max(result_.copied_bytes, copied_);
        return value;
    }

    /// Where the words of a block lie in a tensor of these sizes.
    Result<WordPlaces> places_of(const Sizes& sizes, const Block& block, DType dtype) const {
        const std::uint64_t in_word = is_quantized(dtype) ? 0 : 4 / element_bytes(dtype);
        const Sizes strides = dense_places(sizes).strides;
        WordPlaces places;
        bool fits = in_word > 0 && block[3].count % in_word == 0;
        for (std::size_t i = 0; i < 4 && fits; ++i) {
            places.first += block[i].first * strides[i];
            fits = i == 3 || block[i].count == 1 || strides[i] % in_word == 0;
            places.strides[i] = i == 3 ? 1 : strides[i] / in_word;
        }
        if (!fits || places.first % in_word != 0) return cannot("copy parts of words or blocks for a piece of it");
        places.first /= in_word;
        return places;
    }

    struct Place {
        Value value;
        Sizes sizes;
        Block block;
    };
    Result<WordCopy> copy_of(const Place& x, const Place& y) const {
        const DType dtype = whole().dtype(x.value);
        WordCopy copy{.x = x.value, .y = y.value, .sizes = counts_of(x.block)};
        copy.sizes[3] = copy.sizes[3] * element_bytes(dtype) / 4;
        VKFORMER_TRY(copy.in_x, places_of(x.sizes, x.block, dtype));
        VKFORMER_TRY(copy.in_y, places_of(y.sizes, y.block, dtype));
        return copy;
    }

    /// Where a block of `value`, seen with these sizes, lies: in the tensor, or in one of its pieces.
    Result<Place> place_of(Value value, const Sizes& sizes, const Block& block) const {
        const CutTensor* const cut = cut_of(value);
        if (!cut) return Place{value, sizes, block};
        if (cut->sizes != sizes) return cannot("work on pieces of it");
        for (const TensorPiece& piece : cut->pieces) {
            if (!contains(piece.block, block)) continue;
            Block inner = block;
            for (std::size_t i = 0; i < 4; ++i) inner[i].first -= piece.block[i].first;
            return Place{piece.value, counts_of(piece.block), inner};
        }
        return cannot("work on pieces of it, for one would lie in several");
    }

    /// What stands in a piece's op for a block of `value`: the tensor or piece itself where it is the block, else a copy of that shape.
    /// What is read is copied at once, what is written behind the op (finish).
    Result<Value> part(Value value, const Sizes& sizes, const Block& block, const Shape& shape, Access access) {
        if (!value) return value;
        VKFORMER_TRY(const Place place, place_of(value, sizes, block));
        if (counts_of(place.block) == place.sizes) return place.value;
        VKFORMER_TRY(const Value copied, add_copied(whole().dtype(value), shape));
        const Place dense{copied, counts_of(block), all_of(counts_of(block))};
        if (access == Access::read) {
            VKFORMER_TRY(const WordCopy copy, copy_of(place, dense));
            work().push_back({copy});
        } else {
            VKFORMER_TRY(const WordCopy copy, copy_of(dense, place));
            behind_.push_back(copy);
        }
        return copied;
    }

    /// Rows of a tensor whose rows are those of the last dimension.
    Result<Value> rows_part(Value value, const Range& rows, Access access) {
        if (!value) return value;
        const Sizes sizes = rows_of(whole().shape(value));
        return part(value, sizes, {Range{0, 1}, {0, 1}, rows, {0, sizes[3]}}, {rows.count, sizes[3]}, access);
    }

    /// Elements of a tensor of one dimension, one for each sequence.
    Result<Value> batch_part(Value value, const Range& batch) {
        if (!value) return value;
        const std::uint64_t count = whole().shape(value).element_count();
        return part(value, {1, 1, 1, count}, {Range{0, 1}, {0, 1}, {0, 1}, batch}, {batch.count}, Access::read);
    }

    void finish(graph::Op op, Piece piece = {}) {
        work().push_back({std::move(op), piece});
        for (const WordCopy& copy : behind_) work().push_back({copy});
        behind_.clear();
        copied_ = 0;
    }

    template <class Op>
    Result<void> lower_rows(const Op& whole_op) {
        const std::uint64_t rows = whole().shape(whole_op.y).row_count();
        std::vector<Value> values;
        whole_op.operands(whole_op, [&](std::string_view, Value value, Access) { values.push_back(value); });
        std::set<std::uint64_t> ends;
        for (const Value value : values)
            for (const Range& range : common_ranges(2, rows, {value})) ends.insert(range.first + range.count);
        std::uint64_t first = 0;
        for (const std::uint64_t end : ends) {
            Op op = whole_op;
            Result<void> status;
            op.operands(op, [&](std::string_view name, Value& value, Access access) {
                if (!value || !status || name == "gain" || name == "bias") return;
                auto found = rows_part(value, {first, end - first}, access);
                if (found)
                    value = *found;
                else
                    status = std::move(found).error();
            });
            VKFORMER_CHECK(status);
            finish(op);
            first = end;
        }
        return {};
    }

    Result<void> lower_op(const graph::Linear& whole_op) {
        const Shape weight = whole().shape(whole_op.weight);
        if (weight.rank() != 2) return cannot("work on pieces of it, for it is a batch of products");
        const std::uint64_t rows = whole().shape(whole_op.y).row_count(), width = whole().shape(whole_op.y).back();
        const std::uint64_t sums = whole_op.is_gated() ? 2 : 1;  // of an element of y
        std::vector<TensorPiece> weights = {{{Range{0, 1}, {0, sums}, {0, width}, {0, weight[1]}}, whole_op.weight}};
        if (const CutTensor* const cut = cut_of(whole_op.weight)) weights = cut->pieces;
        for (const Range& row : common_ranges(2, rows, {whole_op.x, whole_op.epilogue.residual, whole_op.y})) {
            if (rows > graph::kFewRows && row.count <= graph::kFewRows)
                return cannot("work on pieces of so few rows");  // they would be products of another kind
            for (const TensorPiece& columns : weights) {
                const Range& column = columns.block[2];
                const auto of_row = [&](Value value, Access access) {
                    return part(value, {1, 1, rows, width}, {Range{0, 1}, {0, 1}, row, column},
                                {row.count, column.count}, access);
                };
                graph::Linear op = whole_op;
                VKFORMER_TRY(op.x, rows_part(whole_op.x, row, Access::read));
                op.weight = columns.value;
                VKFORMER_TRY(op.epilogue.bias,
                             part(whole_op.epilogue.bias, {1, 1, sums, width}, {Range{0, 1}, {0, 1}, {0, sums}, column},
                                  {sums * column.count}, Access::read));
                VKFORMER_TRY(op.epilogue.residual, of_row(whole_op.epilogue.residual, Access::read));
                VKFORMER_TRY(op.y, of_row(whole_op.y, Access::write));
                finish(op, {.first_row = column.first, .whole_rows = weight[0]});
            }
        }
        return {};
    }

    /// Each piece of the weight writes the rows of its own experts, into one and the same y.
    Result<void> lower_op(const graph::ExpertLinear& whole_op) {
        const CutTensor* const cut = cut_of(whole_op.weight);
        if (!cut || cut_of(whole_op.x) || cut_of(whole_op.experts) || cut_of(whole_op.y))
            return cannot("work on pieces of it");
        const std::uint64_t rows = whole().shape(whole_op.weight)[0], out = whole().shape(whole_op.y).back();
        for (const TensorPiece& piece : cut->pieces) {
            graph::ExpertLinear op = whole_op;
            op.weight = piece.value;
            work().push_back({op, {.first_row = piece.block[2].first * out, .whole_rows = rows}});
        }
        return {};
    }

    /// Each piece of the table writes the rows of its own tokens, into one and the same y.
    Result<void> lower_op(const graph::Embedding& whole_op) {
        const Shape table = whole().shape(whole_op.table);
        const std::uint64_t rows = whole().shape(whole_op.y).row_count();
        std::vector<TensorPiece> tables = {{all_of(rows_of(table)), whole_op.table}};
        if (const CutTensor* const cut = cut_of(whole_op.table)) tables = cut->pieces;
        for (const Range& row : common_ranges(2, rows, {whole_op.y})) {
            graph::Embedding op = whole_op;
            VKFORMER_TRY(op.tokens, batch_part(whole_op.tokens, row));
            VKFORMER_TRY(op.y, rows_part(whole_op.y, row, Access::write));
            for (const TensorPiece& piece : tables) {
                op.table = piece.value;
                work().push_back({op, {.first_row = piece.block[2].first, .whole_rows = table[0]}});
            }
            copied_ = 0;
        }
        return {};
    }

    /// What lies in one piece of each of the caches: heads, and sequences or pages.
    struct Heads {
        Range batch;  ///< of the caches
        Range heads;
        Range sequences;  ///< of the other operands: those of the caches, or all where the caches are in pages
    };
    Result<std::vector<Heads>> common_heads(const Shape& cache, std::initializer_list<Value> caches,
                                            Value pages = {}) const {
        const std::vector<Range> batches = common_ranges(0, cache[0], caches);
        if (pages && batches.size() > 1) return cannot("look for pages in pieces of it");
        std::vector<Heads> result;
        for (const Range& batch : batches)
            for (const Range& heads : common_ranges(2, cache[2], caches))
                result.push_back({batch, heads, pages ? Range{0, whole().shape(pages)[0]} : batch});
        return result;
    }

    /// Heads of a tensor [batch, len, heads, dim], of which each head of the cache has `group`.
    Result<Value> heads_part(Value value, const Heads& at, std::uint64_t group, Access access) {
        return heads_part(value, at.sequences, {at.heads.first * group, at.heads.count * group}, access);
    }
    Result<Value> cache_part(Value cache, const Heads& at, Access access) {
        return heads_part(cache, at.batch, at.heads, access);
    }
    Result<Value> heads_part(Value value, const Range& batch, const Range& heads, Access access) {
        const Shape shape = whole().shape(value);
        return part(value, counts_of(shape), {batch, {0, shape[1]}, heads, {0, shape[3]}},
                    {batch.count, shape[1], heads.count, shape[3]}, access);
    }

    Result<void> lower_op(const graph::CacheAppend& whole_op) {
        const Shape cache = whole().shape(whole_op.cache);
        if (cache.rank() != 4) return cannot("work on pieces of it");
        VKFORMER_TRY(const auto parts, common_heads(cache, {whole_op.cache}, whole_op.pages));
        for (const Heads& at : parts) {
            graph::CacheAppend op = whole_op;
            VKFORMER_TRY(op.x, heads_part(whole_op.x, at, 1, Access::read));
            VKFORMER_TRY(op.starts, batch_part(whole_op.starts, at.sequences));
            VKFORMER_TRY(op.cache, cache_part(whole_op.cache, at, Access::read_write));
            finish(op);
        }
        return {};
    }

    Result<void> lower_op(const graph::CacheReorder& whole_op) {
        const Shape cache = whole().shape(whole_op.cache);
        if (cache.rank() != 4) return cannot("work on pieces of it");
        VKFORMER_TRY(const auto parts, common_heads(cache, {whole_op.cache}));
        for (const Heads& at : parts) {
            if (at.batch.count != cache[0]) return cannot("move rows between pieces of it");
            graph::CacheReorder op = whole_op;
            VKFORMER_TRY(op.cache, cache_part(whole_op.cache, at, Access::read_write));
            finish(op);
        }
        return {};
    }

    Result<void> lower_op(const graph::SplitQkv& whole_op) {
        const Shape qkv = whole().shape(whole_op.qkv), cache = whole().shape(whole_op.key_cache);
        const std::uint64_t kv_heads = cache[2], heads = qkv[2] - 2 * kv_heads, group = heads / kv_heads;
        if (cut_of(whole_op.qkv)) return cannot("work on pieces of it");
        VKFORMER_TRY(const auto parts, common_heads(cache, {whole_op.key_cache, whole_op.value_cache}, whole_op.pages));
        for (const Heads& at : parts) {
            graph::SplitQkv op = whole_op;
            const std::uint64_t n = at.heads.count;
            const Sizes sizes{at.sequences.count, qkv[1], (group + 2) * n, qkv[3]};
            VKFORMER_TRY(op.qkv, add_copied(whole().dtype(whole_op.qkv), Shape(sizes)));
            const auto copy_heads = [&](const Range& from, std::uint64_t to) -> Result<void> {
                Block in_piece = all_of(sizes);
                in_piece[2] = {to, from.count};
                VKFORMER_TRY(const WordCopy copy,
                             copy_of({whole_op.qkv, counts_of(qkv), {at.sequences, {0, qkv[1]}, from, {0, qkv[3]}}},
                                     {op.qkv, sizes, in_piece}));
                work().push_back({copy});
                return {};
            };
            VKFORMER_CHECK(copy_heads({at.heads.first * group, n * group}, 0));
            VKFORMER_CHECK(copy_heads({heads + at.heads.first, n}, group * n));
            VKFORMER_CHECK(copy_heads({heads + kv_heads + at.heads.first, n}, (group + 1) * n));
            VKFORMER_TRY(op.starts, batch_part(whole_op.starts, at.sequences));
            VKFORMER_TRY(op.query, heads_part(whole_op.query, at, group, Access::write));
            VKFORMER_TRY(op.key_cache, cache_part(whole_op.key_cache, at, Access::read_write));
            VKFORMER_TRY(op.value_cache, cache_part(whole_op.value_cache, at, Access::read_write));
            finish(op);
        }
        return {};
    }

    template <class Op>
    Result<void> lower_attention(const Op& whole_op) {
        const Shape query = whole().shape(whole_op.query), key = whole().shape(whole_op.key);
        const std::uint64_t group = query[2] / key[2];
        VKFORMER_TRY(const auto parts, common_heads(key, {whole_op.key, whole_op.value}, whole_op.pages));
        for (const Heads& at : parts) {
            Op op = whole_op;
            VKFORMER_TRY(op.query, heads_part(whole_op.query, at, group, Access::read));
            VKFORMER_TRY(op.key, cache_part(whole_op.key, at, Access::read));
            VKFORMER_TRY(op.value, cache_part(whole_op.value, at, Access::read));
            VKFORMER_TRY(op.mask.key_lengths, batch_part(whole_op.mask.key_lengths, at.sequences));
            VKFORMER_TRY(op.mask.starts, batch_part(whole_op.mask.starts, at.sequences));
            if (const Value additive = whole_op.mask.additive) {
                const Shape mask = whole().shape(additive);  // [batch or 1, heads or 1, …]
                Block block = all_of(counts_of(mask));
                if (mask[0] > 1) block[0] = at.sequences;
                if (mask[1] > 1) block[1] = {at.heads.first * group, at.heads.count * group};
                VKFORMER_TRY(op.mask.additive,
                             part(additive, counts_of(mask), block, Shape(counts_of(block)), Access::read));
            }
            if (const Value sinks = whole_op.mask.sinks) {
                const Sizes sizes{1, 1, 1, query[2]};
                const Block block{Range{0, 1}, {0, 1}, {0, 1}, {at.heads.first * group, at.heads.count * group}};
                VKFORMER_TRY(op.mask.sinks, part(sinks, sizes, block, Shape{block[3].count}, Access::read));
            }
            VKFORMER_TRY(op.y, heads_part(whole_op.y, at, group, Access::write));
            finish(op);
        }
        return {};
    }
    Result<void> lower_op(const graph::Attention& op) { return lower_attention(op); }
    Result<void> lower_op(const graph::DecodeAttention& op) {
        return lower_attention(op);
    }  // `partial` has rows enough

    // ---- the arena ------------------------------------------------------------------------------------------------------

    Result<void> place() {
        graph::Plan& plan = result_.plan;
        plan.arena_offset.resize(plan.graph.tensors().size(), graph::Plan::kNotInArena);
        if (result_.cut.empty() && plan.arena_bytes <= most_allocated(device_)) return {};
        graph::Placement placement{.alignment = kAlignment,
                                   .block_bytes = most_allocated(device_),
                                   .elsewhere = std::vector<bool>(plan.graph.tensors().size(), false)};
        for (const auto& [id, cut] : result_.cut) placement.elsewhere[id] = true;
        graph::place_activations(plan, placement);
        if (plan.arena_bytes > placement.block_bytes) result_.arena_block_bytes = placement.block_bytes;
        return {};
    }

    const Capabilities& device_;
    PiecedPlan result_;
    std::string node_;              // that is being lowered
    std::uint32_t first_cut_ = 0;   // of its tensors
    std::vector<WordCopy> behind_;  // the op at hand
    std::uint64_t copied_ = 0;      // bytes of the tensors for copies, of the op at hand
};

}  // namespace

std::uint64_t most_piece_bytes(const Capabilities& device) noexcept {
    return std::min(device.max_storage_buffer_range, most_allocated(device));
}

Result<PiecedPlan> cut_into_pieces(const graph::Plan& plan, const Capabilities& device) {
    return Cutter(plan, device).run();
}

}  // namespace vkformer::vulkan
