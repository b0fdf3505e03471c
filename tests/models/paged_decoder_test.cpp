// SPDX-License-Identifier: MIT
// Decoders whose caches are in pages.
#include <array>
#include <map>

#include "cpu/backend.hpp"
#include "models/decoder_case.hpp"
#include "models/tiny_llama.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/builder_case.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using graph::kPageLen;
using graph::Value;

/// Runs pieces of sequences through a model; what is cached stays from one to the next.
class Runner {
public:
    Runner(const models::Decoder& model, graph::Backend& backend, models::DecoderLayout layout)
        : model_(model),
          backend_(backend),
          layout_(layout),
          weights_(backend.make_store()),
          states_(backend.make_store()) {}

    /// Logits [rows, len, vocab] of tokens [rows, len], all of them from `start` on. `table`: [rows, …], with pages.
    std::vector<double> run(std::uint32_t rows, const std::vector<std::int32_t>& ids, std::int32_t start,
                            const std::vector<std::int32_t>& table = {}) {
        const Pass& pass = pass_of(rows, ids.size() / rows, table.size() / rows);
        must(pass.program->write(pass.tokens, std::span<const std::int32_t>(ids)));
        const std::vector<std::int32_t> starts(rows, start);
        must(pass.program->write(pass.starts, std::span<const std::int32_t>(starts)));
        if (pass.table) must(pass.program->write(pass.table, std::span<const std::int32_t>(table)));
        if (pass.window_table) {
            std::vector<std::int32_t> others = table;
            for (std::int32_t& page : others) page += 2;
            must(pass.program->write(pass.window_table, std::span<const std::int32_t>(others)));
        }
        must(pass.program->submit());
        must(pass.program->wait());
        std::vector<double> logits(ids.size() * model_.config().vocab_size);
        must(pass.program->read(pass.logits, std::span<double>(logits)));
        return logits;
    }

private:
    struct Pass {
        std::unique_ptr<graph::Program> program;
        Value tokens, starts, table, window_table, logits;
    };

    const Pass& pass_of(std::uint32_t rows, std::uint64_t len, std::uint64_t table_len) {
        Pass& pass = passes_[{rows, len, table_len}];
        if (pass.program) return pass;
        graph::Graph g;
        pass.tokens = must(g.input("tokens", DType::i32, {rows, len}));
        pass.starts = must(g.input("starts", DType::i32, {rows}));
        models::DecoderLayout layout = layout_;
        layout.rows = rows;
        layout.len = static_cast<std::uint32_t>(len);
        if (layout.pages > 0) layout.page_table = pass.table = must(g.input("pages", DType::i32, {rows, table_len}));
        if (layout.window_pages > 0)
            layout.window_table = pass.window_table = must(g.input("window_pages", DType::i32, {rows, table_len}));
        pass.logits = must(model_.add_pass(g, layout, pass.tokens, pass.starts, models::Logits::all)).logits;
        g.mark_output(pass.logits);
        pass.program = must(backend_.compile(graph::make_plan_for(backend_, std::move(g)), weights_, states_));
        return pass;
    }

    const models::Decoder& model_;
    graph::Backend& backend_;
    models::DecoderLayout layout_;
    std::shared_ptr<graph::TensorStore> weights_, states_;
    std::map<std::array<std::uint64_t, 3>, Pass> passes_;
};

double difference_of(const std::vector<double>& found, const std::vector<double>& expected) {
    return relative_error(std::span<const double>(found), std::span<const double>(expected));
}

/// The same products and sums, in another order.
double paged_bound(const graph::Backend& backend, DType dtype) {
    if (is_double(backend)) return kRoundedAttributeBound;
    return dtype == DType::f16 ? 1e-2 : kModelBound;
}

constexpr std::uint32_t kCapacity = 80;  // no multiple of a page; the least that the goldens' models take
constexpr std::uint32_t kPages = 7;

/// Two sequences of 70 tokens each in pieces that end before, at and behind the border of two pages, and then in one go.
void check_pages(graph::Backend& backend, const models::Decoder& model, DType dtype, models::CacheFormat cache) {
    const double bound = cache == models::CacheFormat::q8_0 && !is_double(backend) ? 2e-3 : paged_bound(backend, dtype);
    std::vector<std::int32_t> a = prompt_of(70, 7), b = prompt_of(70, 11);
    for (auto* const sequence : {&a, &b})
        for (std::int32_t& token : *sequence) token %= static_cast<std::int32_t>(model.config().vocab_size);
    models::DecoderLayout layout{.capacity = kCapacity, .dtype = dtype, .cache = cache};
    Runner rows(model, backend, layout);
    layout.pages = kPages;
    if (model.config().largest_window() > 0) layout.window_pages = kPages + 2;  // which others name
    Runner pages(model, backend, layout);
    const std::vector<std::int32_t> table = {5, 2, 0, 6};
    std::size_t done = 0;
    for (const std::size_t piece : {61, 1, 1, 1, 1, 5}) {
        std::vector<std::int32_t> ids(a.begin() + static_cast<std::ptrdiff_t>(done),
                                      a.begin() + static_cast<std::ptrdiff_t>(done + piece));
        ids.insert(ids.end(), b.begin() + static_cast<std::ptrdiff_t>(done),
                   b.begin() + static_cast<std::ptrdiff_t>(done + piece));
        CAPTURE(done, piece);
        const auto start = static_cast<std::int32_t>(done);
        CHECK(difference_of(pages.run(2, ids, start, table), rows.run(2, ids, start)) < bound);
        done += piece;
    }
}

TEST_CASE("a decoder with caches in pages is the decoder with caches in rows", "[models][decoder][pages]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::vector<std::string> names = decoder_cases();
    for (std::size_t i = 0; i < names.size(); ++i) {
        const DType dtype = i / 2 % 2 == 0 ? DType::f32 : DType::f16;
        if (!takes_case(backend, 4)) continue;
        CAPTURE(backend.name(), names[i], to_string(dtype));
        check_pages(backend, load_decoder_case(names[i]), dtype, models::CacheFormat::as_computed);
    }
}

TEST_CASE("pages may be of q8_0", "[models][decoder][pages][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    const TemporaryFolder folder;
    write_tiny_llama(folder.path(), {});
    check_pages(backend, must(models::load_decoder(folder.path())), dtype, models::CacheFormat::q8_0);
    check_pages(backend, load_decoder_case("deepseek_v3_halves"), dtype, models::CacheFormat::q8_0);
}

TEST_CASE("sequences that begin alike compute and keep their common pages once", "[models][decoder][pages]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const TemporaryFolder folder;
    write_tiny_llama(folder.path(), {});
    const models::Decoder model = must(models::load_decoder(folder.path()));
    models::DecoderLayout layout{.capacity = 2 * kPageLen, .dtype = DType::f32};
    Runner rows(model, backend, layout);
    layout.pages = kPages;
    Runner pages(model, backend, layout);

    const std::vector<std::int32_t> common = prompt_of(kPageLen), ends = {3, 14, 15, 9, 26, 5};
    std::vector<std::int32_t> twice = common;
    twice.insert(twice.end(), common.begin(), common.end());
    rows.run(2, twice, 0);
    pages.run(1, common, 0, {4});  // one row with a table of its own length fills the page
    const auto start = static_cast<std::int32_t>(kPageLen);
    CHECK(difference_of(pages.run(2, ends, start, {4, 1, 4, 6}), rows.run(2, ends, start)) <
          paged_bound(backend, DType::f32));
    CHECK(difference_of(pages.run(2, {8, 9}, start + 3, {4, 1, 4, 6}), rows.run(2, {8, 9}, start + 3)) <
          paged_bound(backend, DType::f32));
}

TEST_CASE("a decoder refuses tables that are not its pages'", "[models][decoder][pages]") {
    const TemporaryFolder folder;
    write_tiny_llama(folder.path(), {.positions = 100});
    const models::Decoder model = must(models::load_decoder(folder.path()));
    const auto refused = [&](models::DecoderLayout layout, std::uint64_t table_len, const std::string& message) {
        graph::Graph g;
        const Value tokens = must(g.input("tokens", DType::i32, {1, 1})),
                    starts = must(g.input("starts", DType::i32, {1}));
        if (table_len > 0) layout.page_table = must(g.input("pages", DType::i32, {1, table_len}));
        const auto pass = model.add_pass(g, layout, tokens, starts, models::Logits::none);
        if (message.empty()) {
            if (!pass) FAIL(pass.error().message);
            return;
        }
        REQUIRE_FALSE(pass);
        CHECK(pass.error().code == ErrorCode::InvalidArgument);
        CHECK(pass.error().message == message);
    };
    refused({.pages = 4}, 1, "");
    refused({.pages = 4}, 2, "");  // 128 positions, of which the model has the first 100
    refused({.pages = 4}, 3, "a context of 192 tokens was asked for, the model takes 1 to 100");
    refused({.pages = 4}, 0, "caches in pages need a table of them, and a table caches in pages");
    refused({.pages = 0}, 1, "caches in pages need a table of them, and a table caches in pages");
    refused({.cache_rows = 2, .pages = 4}, 1, "caches in pages have no rows of their own");
    refused({.pages = 4, .window_pages = 4}, 1, "pages of windows have a table beside the others', of the same shape");
    refused({.pages = 4, .layers = {.attention = true}}, 1,
            "attention weights are kept with caches as they are computed, neither in pages nor in blocks");
}

}  // namespace
}  // namespace vkformer::tests
