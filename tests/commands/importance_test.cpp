// SPDX-License-Identifier: MIT
/// Sums of importance matrices, against a forward pass in plain loops, and under the names of files.
#include "cli/importance.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/decoder_text.hpp"
#include "cli/device.hpp"
#include "core/tensor_data.hpp"
#include "formats/gguf.hpp"
#include "formats/gguf_writer.hpp"
#include "models/gguf_export.hpp"
#include "models/open_model.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using namespace cli;
using Catch::Matchers::ContainsSubstring;
using Row = std::vector<double>;
using Rows = std::vector<Row>;
namespace fs = std::filesystem;

const fs::path kGoldens = fs::path(VKFORMER_SOURCE_DIR) / "tests/goldens";

fs::path gguf_path(const std::string& name) { return kGoldens / "gguf_decoders" / (name + ".gguf"); }

std::vector<std::int32_t> tokens_of(std::size_t count, std::int32_t vocab) {
    std::vector<std::int32_t> tokens(count);
    for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::int32_t>((i * i + 7 * i) % 1009) % vocab;
    return tokens;
}

/// A Llama or a Mixtral of llama.cpp's architecture "llama": every formula as its paper has it, one token after the other.
class PlainLlama {
public:
    explicit PlainLlama(const fs::path& path) : file_(must(formats::Gguf::open(path))) {
        const auto number = [&](const std::string& key, std::uint32_t fallback) {
            return must(file_.unsigned_integer("llama." + key, {.fallback = fallback}));
        };
        layers_ = number("block_count", 0);
        heads_ = number("attention.head_count", 0);
        kv_heads_ = number("attention.head_count_kv", heads_);
        head_dim_ = number("attention.key_length", 0);
        chosen_ = number("expert_used_count", 0);
        theta_ = must(file_.real("llama.rope.freq_base", {}));
        eps_ = must(file_.real("llama.attention.layer_norm_rms_epsilon", {}));
    }

    /// Adds the inputs of all products for the tokens of one chunk.
    void read(std::span<const std::int32_t> tokens, ImportanceSums& sums) {
        const Matrix& table = matrix("token_embd.weight");
        Rows x;
        for (const std::int32_t token : tokens) x.push_back(row(table, static_cast<std::size_t>(token)));
        for (std::uint32_t layer = 0; layer < layers_; ++layer) {
            const std::string name = "blk." + std::to_string(layer) + ".";
            const Rows seen = attention(name, normed(x, matrix(name + "attn_norm.weight")), sums);
            for (std::size_t t = 0; t < x.size(); ++t) add_to(x[t], seen[t], 1);
            const Rows inner = normed(x, matrix(name + "ffn_norm.weight"));
            for (std::size_t t = 0; t < x.size(); ++t) feed_forward(name, inner[t], x[t], sums);
        }
        for (const Row& last : normed(x, matrix("output_norm.weight"))) product("output.weight", last, sums);
    }

private:
    struct Matrix {
        std::size_t matrices = 1, out = 1, in = 1;
        std::vector<double> values;
    };

    const Matrix& matrix(const std::string& name) {
        const auto [known, is_new] = matrices_.try_emplace(name);
        if (!is_new) return known->second;
        const TensorData data = must(file_.weights().get(name));
        std::vector<float> values(data.shape.element_count());
        must(convert(data.dtype, data.bytes, 0, std::span(values)));
        const std::size_t in = data.shape.back(), rows = values.size() / in;
        const std::size_t matrices = data.shape.rank() == 3 ? data.shape[0] : 1;
        return known->second = {matrices, rows / matrices, in, {values.begin(), values.end()}};
    }

    static Row row(const Matrix& m, std::size_t index) {
        const auto begin = m.values.begin() + static_cast<std::ptrdiff_t>(index * m.in);
        return {begin, begin + static_cast<std::ptrdiff_t>(m.in)};
    }

    static void add_to(Row& sum, const Row& y, double factor) {
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factor * y[i];
    }

    Rows normed(const Rows& x, const Matrix& gain) const {
        Rows all = x;
        for (Row& y : all) {
            const double mean = std::inner_product(y.begin(), y.end(), y.begin(), 0.0) / static_cast<double>(y.size());
            for (std::size_t i = 0; i < y.size(); ++i) y[i] *= gain.values[i] / std::sqrt(mean + eps_);
        }
        return all;
    }

    /// W_expert · x, and x counted.
    Row product(const std::string& name, const Row& x, ImportanceSums& sums, std::size_t expert = 0) {
        const Matrix& w = matrix(name);
        InputSums& own = sums[name];
        own.squares.resize(w.matrices * w.in);
        own.counts.resize(w.matrices);
        for (std::size_t i = 0; i < w.in; ++i) own.squares[expert * w.in + i] += x[i] * x[i];
        own.counts[expert] += 1;
        Row y(w.out);
        for (std::size_t o = 0; o < w.out; ++o)
            y[o] = std::inner_product(x.begin(), x.end(),
                                      w.values.begin() + static_cast<std::ptrdiff_t>((expert * w.out + o) * w.in), 0.0);
        return y;
    }

    /// Neighbours are turned together: Su et al. 2021, eq. 15.
    void turn(Row& y, std::size_t position) const {
        for (std::size_t i = 0; i < y.size(); i += 2) {
            const double pair = static_cast<double>(i % head_dim_) / head_dim_;
            const double angle = static_cast<double>(position) * std::pow(theta_, -pair);
            const double a = y[i], b = y[i + 1];
            y[i] = a * std::cos(angle) - b * std::sin(angle);
            y[i + 1] = a * std::sin(angle) + b * std::cos(angle);
        }
    }

    Rows attention(const std::string& name, const Rows& x, ImportanceSums& sums) {
        Rows queries, keys, values, all;
        for (std::size_t t = 0; t < x.size(); ++t) {
            queries.push_back(product(name + "attn_q.weight", x[t], sums));
            keys.push_back(product(name + "attn_k.weight", x[t], sums));
            values.push_back(product(name + "attn_v.weight", x[t], sums));
            turn(queries[t], t);
            turn(keys[t], t);
            Row seen(std::size_t{heads_} * head_dim_);
            for (std::size_t head = 0; head < heads_; ++head) see(head, queries[t], keys, values, seen);
            all.push_back(product(name + "attn_output.weight", seen, sums));
        }
        return all;
    }

    void see(std::size_t head, const Row& query, const Rows& keys, const Rows& values, Row& seen) const {
        const std::size_t own = head * head_dim_, shared = head / (heads_ / kv_heads_) * head_dim_;
        Row weights;
        for (const Row& key : keys) {
            double score = 0;
            for (std::size_t i = 0; i < head_dim_; ++i) score += query[own + i] * key[shared + i];
            weights.push_back(std::exp(score / std::sqrt(static_cast<double>(head_dim_))));
        }
        const double total = std::reduce(weights.begin(), weights.end());
        for (std::size_t k = 0; k < keys.size(); ++k)
            for (std::size_t i = 0; i < head_dim_; ++i) seen[own + i] += weights[k] / total * values[k][shared + i];
    }

    Row gated(const std::string& name, const std::string& end, const Row& x, ImportanceSums& sums, std::size_t expert) {
        Row gate = product(name + "ffn_gate" + end, x, sums, expert);
        const Row up = product(name + "ffn_up" + end, x, sums, expert);
        for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
        return product(name + "ffn_down" + end, gate, sums, expert);
    }

    void feed_forward(const std::string& name, const Row& x, Row& sum, ImportanceSums& sums) {
        if (chosen_ == 0) return add_to(sum, gated(name, ".weight", x, sums, 0), 1);
        Row scores = product(name + "ffn_gate_inp.weight", x, sums);
        for (double& score : scores) score = std::exp(score);
        std::vector<std::size_t> experts(scores.size());
        std::iota(experts.begin(), experts.end(), std::size_t{0});
        std::ranges::sort(experts, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
        experts.resize(chosen_);
        double total = 0;
        for (const std::size_t expert : experts) total += scores[expert];
        for (const std::size_t expert : experts)
            add_to(sum, gated(name, "_exps.weight", x, sums, expert), scores[expert] / total);
    }

    formats::Gguf file_;
    std::uint32_t layers_ = 0, heads_ = 0, kv_heads_ = 0, head_dim_ = 0, chosen_ = 0;
    double theta_ = 0, eps_ = 0;
    std::map<std::string, Matrix> matrices_;
};

/// ‖y − ŷ‖ / ‖ŷ‖
double relative_error(const std::vector<double>& y, const std::vector<double>& expected) {
    REQUIRE(y.size() == expected.size());
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
        error += (y[i] - expected[i]) * (y[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    return std::sqrt(error / norm);
}

struct Loaded {
    explicit Loaded(const fs::path& path)
        : opened(must(models::open_decoder(path))),
          decoder(must(opened.load())),
          names(must(MatrixNames::of(opened, decoder))) {}

    models::Opened<models::Decoder> opened;
    models::Decoder decoder;
    MatrixNames names;
};

/// The CPU, and the first Vulkan device that there is.
std::vector<std::unique_ptr<graph::Backend>> backends() {
    std::vector<std::unique_ptr<graph::Backend>> all;
    for (const char* const device : {"cpu", "0"})
        if (auto backend = open_backend({.device = device, .quiet = true, .plain = true}))
            all.push_back(*std::move(backend));
    REQUIRE_FALSE(all.empty());
    return all;
}

void check_same(const ImportanceSums& found, const ImportanceSums& expected, double bound) {
    for (const auto& [name, sums] : found) {
        CAPTURE(name);
        REQUIRE(expected.contains(name));
        CHECK(sums.counts == expected.at(name).counts);
        CHECK(relative_error(sums.squares, expected.at(name).squares) < bound);
    }
    CHECK(found.size() == expected.size());
}

}  // namespace

TEST_CASE("importances are the sums that a forward pass in plain loops has", "[importance]") {
    const std::string name = GENERATE("llama_gqa_odd", "mixtral");
    CAPTURE(name);
    constexpr std::uint32_t kChunk = 13;
    const std::vector<std::int32_t> tokens = tokens_of(3 * kChunk, 61);
    ImportanceSums expected;
    PlainLlama plain(gguf_path(name));
    for (std::size_t chunk = 0; chunk < 3; ++chunk)
        plain.read(std::span(tokens).subspan(chunk * kChunk, kChunk), expected);
    const Loaded model(gguf_path(name));
    for (const auto& backend : backends()) {
        CAPTURE(backend->name());
        // A chunk at once, in runs of 5, 5 and 3 tokens of 1288 or 1392 bytes each, and one by one.
        for (const std::uint64_t most_bytes : {std::uint64_t{1} << 28, std::uint64_t{7000}, std::uint64_t{1}}) {
            CAPTURE(most_bytes);
            std::vector<std::size_t> told;
            const auto sums = must(
                measure_importance(*backend, model.decoder, model.names, tokens,
                                   {.chunk = kChunk, .has_head = true, .most_bytes = most_bytes},
                                   [&](std::size_t done, std::size_t total) { told.push_back(done * 10 + total); }));
            // Relative errors of float32 sums over some dozens, through three layers, twice for a square.
            check_same(sums, expected, 2e-5);
            CHECK(told == std::vector<std::size_t>{3, 13, 23});
        }
        // Float16 keeps eleven bits.
        const auto half = must(measure_importance(*backend, model.decoder, model.names, tokens,
                                                  {.chunk = kChunk, .dtype = DType::f16, .has_head = true}));
        if (name == "llama_gqa_odd") check_same(half, expected, 1e-2);
        const auto without = must(
            measure_importance(*backend, model.decoder, model.names, tokens, {.chunk = kChunk, .has_head = false}));
        CHECK(without.size() + 1 == expected.size());
        CHECK_FALSE(without.contains("output.weight"));
    }
}

TEST_CASE("importances of a folder have the names and columns of its GGUF file", "[importance]") {
    constexpr std::uint32_t kChunk = 24;
    const auto backend = must(open_backend({.device = "cpu", .quiet = true, .plain = true}));
    std::size_t models = 0, unnamed = 0;
    for (const auto& entry : fs::directory_iterator(kGoldens / "gguf_decoders")) {
        const std::string name = entry.path().stem().string();
        CAPTURE(name);
        const Loaded file(entry.path());
        const auto tokens = tokens_of(kChunk, static_cast<std::int32_t>(file.decoder.config().vocab_size));
        const auto sums_of = [&](const Loaded& model) {
            return must(
                measure_importance(*backend, model.decoder, model.names, tokens, {.chunk = kChunk, .has_head = true}));
        };
        const ImportanceSums of_file = sums_of(file);
        const fs::path folder = kGoldens / "decoders" / name;
        const auto opened = must(models::open_decoder(folder));
        if (const auto names = MatrixNames::of(opened, must(opened.load()))) {
            check_same(sums_of(Loaded(folder)), of_file, 1e-4);
        } else {  // an architecture that is read from both, and not converted, or not with such biases
            CHECK_THAT(names.error().message, ContainsSubstring("for a conversion to GGUF") ||
                                                  ContainsSubstring("has no place in a GGUF file"));
            ++unnamed;
        }

        // Every matrix of a layer but those of convolutions, those of heads that latent attention absorbs, and those that others are made of.
        const auto is_absorbed = [](std::string_view tensor) {
            return tensor.find("altup_") != tensor.npos || tensor.find("attn_k_b") != tensor.npos ||
                   tensor.find("attn_v_b") != tensor.npos || tensor.find("attn_kv_b") != tensor.npos;
        };
        std::set<std::string> matrices;
        for (const formats::GgufTensor& tensor : file.opened.gguf()->tensors()) {
            const bool is_product =
                tensor.shape.rank() >= 2 && tensor.name.starts_with("blk.") && tensor.name.ends_with(".weight") &&
                tensor.name.find("conv1d") == tensor.name.npos && tensor.name.find(".conv.") == tensor.name.npos &&
                tensor.name.find("norm") == tensor.name.npos && !is_absorbed(tensor.name);
            if (is_product) matrices.emplace(tensor.name);
        }
        for (const std::string& matrix : matrices) {
            CAPTURE(matrix);
            REQUIRE(of_file.contains(matrix));
            const Shape shape = must(file.opened.gguf()->weights().get(matrix)).shape;
            const std::size_t stacked = shape.rank() == 3 ? shape[0] : 1;
            CHECK(of_file.at(matrix).counts.size() == stacked);
            CHECK(of_file.at(matrix).squares.size() == stacked * shape.back());
        }
        ++models;
    }
    CHECK(models == 59);
    CHECK(unnamed == 7);
}

TEST_CASE("importances of a text are those of its chunks, which begin as texts do", "[importance]") {
    constexpr std::uint32_t kChunk = 12;
    const bool begins = GENERATE(true, false);  // whether the model has a token that texts begin with
    const fs::path path = begins ? fs::path(VKFORMER_SOURCE_DIR) / "samples/models/verse-writer/verse-writer-q8_0.gguf"
                                 : kGoldens / "decoder_text";
    const std::string text =
        "Once upon a time <|endoftext|> the king went up to the city, and all the people of the land went up with him.";
    const Loaded model(path);
    const auto loaded = must(api::load_decoder_text(model.opened, model.decoder.config().vocab_size));
    REQUIRE(loaded.tokenizer);
    std::vector<std::int32_t> tokens = must((*loaded.tokenizer)->encode(text, {.parse_special = false}));
    const std::size_t text_tokens = tokens.size();
    REQUIRE(text_tokens >= 2 * kChunk);
    if (begins) CHECK(tokens[0] == 0);
    CHECK(std::ranges::count(tokens, 0) == (begins ? 1 : 0));  // what the text spells out is text
    tokens.resize(2 * kChunk);
    if (begins) tokens[kChunk] = 0;

    const DeviceOptions cpu = {.device = "cpu", .quiet = true, .plain = true};
    const auto backend = must(open_backend(cpu));
    const auto expected = must(measure_importance(*backend, model.decoder, model.names, tokens, {.chunk = kChunk}));
    const auto measured = must(importance_of_text(
        cpu, {.model = path, .text = text, .name = "a text", .context = kChunk, .chunks = 2, .has_head = false}));
    check_same(measured.sums, expected, 1e-12);
    CHECK(measured.text_tokens == text_tokens);
    CHECK(measured.chunk == kChunk);
    CHECK(measured.chunks == 2);

    // All chunks, and a chunk as long as the model's positions where these are few.
    const auto all =
        must(importance_of_text(cpu, {.model = path, .text = text, .name = "a text", .context = kChunk / 4}));
    CHECK(all.chunks == text_tokens / (kChunk / 4));
    const auto refused = importance_of_text(cpu, {.model = path, .text = text, .name = "a text"});
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message,
               ContainsSubstring("a text has " + std::to_string(text_tokens) +
                                 " tokens of this model, fewer than the " + (begins ? "512" : "160") + " of a chunk"));
}

TEST_CASE("importances of older files have a name for each expert's matrix", "[importance]") {
    const std::string name = GENERATE("mixtral", "qwen2_moe");  // with gaps between the matrices, and without
    CAPTURE(name);
    const TemporaryFolder folder;
    auto contents = must(models::requantized(must(formats::Gguf::open(gguf_path(name))), DType::f32));
    std::vector<formats::OutputTensor> tensors;
    for (const formats::OutputTensor& tensor : contents.tensors) {
        const std::size_t stack = tensor.name.find("_exps.weight");
        const std::size_t count = stack == tensor.name.npos ? 0 : tensor.source.shape[0];
        if (count == 0) tensors.push_back(tensor);
        for (std::size_t e = 0; e < count; ++e) {
            formats::OutputTensor& one = tensors.emplace_back(tensor);
            one.name = tensor.name.substr(0, stack) + "." + std::to_string(e) + ".weight";
            const std::size_t bytes = tensor.source.bytes.size() / count;
            one.source.shape = {tensor.source.shape[1], tensor.source.shape[2]};
            one.source.bytes = tensor.source.bytes.subspan(e * bytes, bytes);
        }
    }
    must(formats::write_gguf(folder / "older.gguf", contents.metadata, tensors));
    const auto backend = must(open_backend({.device = "cpu", .quiet = true, .plain = true}));
    const auto sums_of = [&](const fs::path& path) {
        const Loaded model(path);
        return must(measure_importance(*backend, model.decoder, model.names, tokens_of(32, 61), {.chunk = 32}));
    };
    const ImportanceSums newer = sums_of(gguf_path(name));
    ImportanceSums expected;
    for (const auto& [matrix, sums] : newer) {
        const std::size_t stack = matrix.find("_exps.weight"), count = sums.counts.size();
        if (stack == matrix.npos) expected[matrix] = sums;
        for (std::size_t e = 0; stack != matrix.npos && e < count; ++e) {
            const auto in = static_cast<std::ptrdiff_t>(sums.squares.size() / count);
            const auto begin = sums.squares.begin() + static_cast<std::ptrdiff_t>(e) * in;
            expected[matrix.substr(0, stack) + "." + std::to_string(e) + ".weight"] = {{begin, begin + in},
                                                                                       {sums.counts[e]}};
        }
    }
    check_same(sums_of(folder / "older.gguf"), expected, 1e-6);
}

TEST_CASE("importances refuse tokens that are no chunks", "[importance][errors]") {
    const Loaded model(gguf_path("llama_gqa_odd"));
    const auto backend = must(open_backend({.device = "cpu", .quiet = true, .plain = true}));
    const auto refused = [&](const std::vector<std::int32_t>& tokens, std::uint32_t chunk) {
        const auto sums = measure_importance(*backend, model.decoder, model.names, tokens, {.chunk = chunk});
        REQUIRE_FALSE(sums);
        CHECK(sums.error().code == ErrorCode::InvalidArgument);
        return sums.error().message;
    };
    CHECK_THAT(refused(tokens_of(9, 61), 4), ContainsSubstring("9 tokens are no whole chunks of 4"));
    CHECK_THAT(refused({}, 4), ContainsSubstring("0 tokens are no whole chunks"));
    CHECK_THAT(refused(tokens_of(129, 61), 129), ContainsSubstring("the model takes 1 to 128"));
    CHECK_THAT(refused(tokens_of(4, 61), 0), ContainsSubstring("the model takes 1 to 128"));
    CHECK_THAT(refused({1, 61}, 2), ContainsSubstring("no token 61"));
    CHECK_THAT(refused({-1, 1}, 2), ContainsSubstring("no token -1"));
}

TEST_CASE("importances that are no numbers are refused", "[importance][errors]") {
    const TemporaryFolder folder;
    auto contents = must(models::requantized(must(formats::Gguf::open(gguf_path("llama_gqa_odd"))), DType::f32));
    const auto gains = std::make_shared<std::vector<float>>(21, 3e38f);  // of what is mostly around 1
    for (formats::OutputTensor& tensor : contents.tensors)
        if (tensor.name == "blk.1.ffn_norm.weight")
            tensor.source = {
                .dtype = DType::f32, .shape = {21}, .bytes = std::as_bytes(std::span(*gains)), .owner = gains};
    must(formats::write_gguf(folder / "large.gguf", contents.metadata, contents.tensors));
    const Loaded model(folder / "large.gguf");
    const auto backend = must(open_backend({.device = "cpu", .quiet = true, .plain = true}));
    const auto sums = measure_importance(*backend, model.decoder, model.names, tokens_of(8, 61), {.chunk = 8});
    REQUIRE_FALSE(sums);
    CHECK(sums.error().code == ErrorCode::NotANumber);
    CHECK_THAT(sums.error().message, ContainsSubstring("an input of blk.1.ffn_"));
}

TEST_CASE("means and files of importances agree, experts that no token came to among them", "[importance]") {
    MeasuredImportance measured;
    measured.sums["blk.0.a.weight"] = {{8, 2, 6}, {4}};
    measured.sums["blk.0.b_exps.weight"] = {{9, 3, 0, 0, 5, 1}, {3, 0, 2}};
    measured.chunk = 8;
    measured.chunks = 3;
    CHECK(unmet_experts(measured.sums) == "1 expert of 1 stack");
    const TemporaryFolder folder;
    must(write_importance(folder / "m.gguf", measured, "some text.txt"));
    const auto file = must(formats::Gguf::open(folder / "m.gguf"));
    CHECK(must(file.string("general.type")) == "imatrix");
    CHECK(must(file.strings("imatrix.datasets")) == std::vector<std::string_view>{"some text.txt"});
    CHECK(must(file.unsigned_integer("imatrix.chunk_count")) == 3);
    CHECK(must(file.unsigned_integer("imatrix.chunk_size")) == 8);
    CHECK(must(file.weights().get("blk.0.b_exps.weight.in_sum2")).shape == Shape{3, 2});
    CHECK(must(file.weights().get("blk.0.b_exps.weight.counts")).shape == Shape{3, 1});
    CHECK(must(file.weights().get("blk.0.a.weight.in_sum2")).shape == Shape{3});
    const formats::Importance read = must(formats::read_importance(folder / "m.gguf")), means = means_of(measured.sums);
    REQUIRE(read.size() == 2);
    for (const auto& [name, values] : read) CHECK(*values == *means.at(name));
    CHECK(*means.at("blk.0.a.weight") == std::vector<float>{2, 0.5, 1.5});
    CHECK(*means.at("blk.0.b_exps.weight") == std::vector<float>{3, 1, 1, 1, 2.5, 0.5});
}

}  // namespace vkformer::tests
