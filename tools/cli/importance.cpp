// SPDX-License-Identifier: MIT
#include "importance.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "api/decoder_text.hpp"
#include "core/try.hpp"
#include "device.hpp"
#include "formats/gguf_writer.hpp"
#include "formats/json.hpp"
#include "models/gguf_export.hpp"

namespace vkformer::cli {
namespace {

using graph::Value;

constexpr std::string_view kHead = "output.weight";

Error invalid(std::string message) { return {ErrorCode::InvalidArgument, std::move(message)}; }

/// The weights of a layer that may be rows of a file's tensor that were copied, with where they are from.
std::vector<const models::Projection*> projections_of(const models::DecoderWeights::Layer& layer) {
    const models::LatentWeights& latent = layer.latent;
    return {&layer.query,      &layer.key,         &layer.value,        &layer.state.input,   &layer.state.beta,
            &layer.state.step, &layer.mixed_gate,  &layer.output,       &layer.gate,          &layer.up,
            &layer.down,       &latent.query_down, &latent.plain_query, &latent.rotary_query, &latent.latent,
            &latent.rotary_key};
}

}  // namespace

Result<MatrixNames> MatrixNames::of(const models::Opened<models::Decoder>& opened, const models::Decoder& decoder) {
    MatrixNames names;
    const auto add = [&](Matrix matrix) {
        if (!matrix.bytes.empty()) names.by_begin_.emplace(matrix.bytes.data(), std::move(matrix));
    };
    const auto count_of = [](const Shape& shape) { return shape.rank() == 3 ? shape[0] : std::uint64_t{1}; };
    if (const formats::Gguf* const file = opened.gguf()) {
        for (const formats::GgufTensor& tensor : file->tensors()) {
            const TensorData* const read = file->weights().find(tensor.name);  // what is repacked lies elsewhere
            add({.name = std::string(tensor.name),
                 .matrices = count_of(tensor.shape),
                 .bytes = read ? read->bytes : tensor.bytes});
        }
        for (const auto& layer : decoder.weights().layers)
            for (const models::Projection* const projection : projections_of(layer))
                if (*projection && names.find(projection->weight.bytes).empty())
                    add({.name = projection->origin.tensor, .bytes = projection->weight.bytes});
        return names;
    }
    VKFORMER_TRY(auto tensors, models::tensors_as_exported(opened.files, decoder));
    for (formats::OutputTensor& tensor : tensors) {
        if (tensor.parts.empty()) tensor.parts.push_back(tensor.source);
        for (const TensorData& part : tensor.parts)
            add({.name = tensor.name,
                 .matrices = count_of(tensor.source.shape),
                 .bytes = part.bytes,
                 .column_order = tensor.column_order});
    }
    return names;
}

std::vector<const MatrixNames::Matrix*> MatrixNames::find(std::span<const std::byte> bytes) const {
    std::vector<const Matrix*> found;
    const std::byte* const end = bytes.data() + bytes.size();
    auto next = by_begin_.upper_bound(bytes.data());
    if (next != by_begin_.begin()) --next;  // it may reach into them
    for (; next != by_begin_.end() && next->first < end; ++next) {
        const auto& own = next->second.bytes;
        if (own.data() + own.size() > bytes.data()) found.push_back(&next->second);
    }
    return found;
}

namespace {

/// A matrix of a file, or a stack of them, that is multiplied with an input.
struct Product {
    const MatrixNames::Matrix* matrix;
    std::optional<std::uint64_t> expert;  ///< whose alone it is
};

/// What products have in common: their input in a graph and, where they are of experts, which of these a token goes to.
struct Tap {
    Value x, experts;
    std::uint64_t in = 0;
    std::uint64_t rows_per_token = 1;
    std::vector<Product> products;
};

/// The matrices that a weight is made of, of `experts` experts or, 0, of none.
std::vector<Product> products_of(const MatrixNames& names, const graph::Tensor& weight, std::uint64_t experts,
                                 bool has_head) {
    std::vector<Product> products;
    const std::uint64_t expert_rows = experts > 0 ? weight.shape[0] / experts : 0;
    std::uint64_t rows = 0;  // of the parts before
    for (const TensorData& part : weight.data) {
        for (const MatrixNames::Matrix* const matrix : names.find(part.bytes)) {
            if (!matrix->name.starts_with("blk.") && !(has_head && matrix->name == kHead)) continue;
            const bool is_known = std::ranges::any_of(
                products, [&](const Product& product) { return product.matrix->name == matrix->name; });
            if (is_known) continue;
            std::optional<std::uint64_t> expert;
            if (experts > 0 && matrix->matrices == 1) {
                const std::ptrdiff_t behind = std::max<std::ptrdiff_t>(matrix->bytes.data() - part.bytes.data(), 0);
                const std::uint64_t row = rows + static_cast<std::uint64_t>(behind) * part.shape[0] / part.bytes.size();
                expert = row / expert_rows;
            }
            products.push_back({matrix, expert});
        }
        rows += part.shape[0];
    }
    return products;
}

class TapFinder {
public:
    TapFinder(const graph::Graph& graph, const MatrixNames& names, std::uint64_t tokens, std::uint64_t experts,
              bool has_head)
        : graph_(graph), names_(names), tokens_(tokens), experts_(experts), has_head_(has_head) {}

    std::vector<Tap> find() {
        for (const graph::Node& node : graph_.nodes()) {
            if (const auto* const linear = std::get_if<graph::Linear>(&node.op))
                add(linear->x, {}, linear->weight);
            else if (const auto* const of_experts = std::get_if<graph::ExpertLinear>(&node.op))
                add_experts(*of_experts);
        }
        return std::move(taps_);
    }

private:
    /// Not the heads' matrices of latent attention, of which each is multiplied: folded, they are not the file's products.
    void add_experts(const graph::ExpertLinear& op) {
        const Value experts = graph_.storage(op.experts);
        if (graph_.tensor(experts).kind != graph::TensorKind::weight) add(op.x, experts, op.weight);
    }

    void add(Value x, Value experts, Value weight) {
        const graph::Tensor& matrices = graph_.tensor(graph_.storage(weight));
        if (matrices.kind != graph::TensorKind::weight) return;
        const std::vector<Product> products = products_of(names_, matrices, experts ? experts_ : 0, has_head_);
        if (products.empty()) return;
        Tap& tap = tap_of(x, experts);
        for (const Product& product : products) {
            // Rows of one matrix may be multiplied apart from each other.
            const bool is_known = std::ranges::any_of(
                tap.products, [&](const Product& known) { return known.matrix->name == product.matrix->name; });
            if (!is_known) tap.products.push_back(product);
        }
    }

    Tap& tap_of(Value x, Value experts) {
        const Value stored = graph_.storage(x);
        for (Tap& tap : taps_)
            if (tap.x == stored && tap.experts == experts) return tap;
        const std::uint64_t in = graph_.shape(x).back();
        return taps_.emplace_back(Tap{.x = stored,
                                      .experts = experts,
                                      .in = in,
                                      .rows_per_token = graph_.shape(x).element_count() / in / tokens_});
    }

    const graph::Graph& graph_;
    const MatrixNames& names_;
    std::uint64_t tokens_, experts_;
    bool has_head_;
    std::vector<Tap> taps_;
};

/// The model over some tokens of a chunk, its products' inputs read afterwards.
struct Run {
    graph::Graph graph;
    Value tokens, starts;
    std::vector<Tap> taps;
    std::unique_ptr<graph::Program> program;
};

Result<Run> run_of(const models::Decoder& decoder, const MatrixNames& names, const ImportanceOptions& options,
                   std::uint32_t len) {
    Run run;
    VKFORMER_TRY(run.tokens, run.graph.input("tokens", DType::i32, {1, len}));
    VKFORMER_TRY(run.starts, run.graph.input("starts", DType::i32, {1}));
    const models::DecoderConfig& config = decoder.config();
    VKFORMER_CHECK(decoder.add_pass(run.graph,
                                    {.rows = 1,
                                     .len = len,
                                     .capacity = options.chunk,
                                     .dtype = options.dtype,
                                     .weights = models::WeightFormat::as_filed,
                                     .extended = options.chunk > config.max_positions},
                                    run.tokens, run.starts,
                                    options.has_head ? models::Logits::all : models::Logits::none));
    run.taps = TapFinder(run.graph, names, len, config.experts.count, options.has_head).find();
    for (const Tap& tap : run.taps) {
        run.graph.mark_output(tap.x);
        if (tap.experts) run.graph.mark_output(tap.experts);
    }
    return run;
}

/// The sums of all taps of a model, in their order, over as many runs as there are.
class Accumulator {
public:
    Accumulator(const std::vector<Tap>& taps, std::uint64_t experts) {
        for (const Tap& tap : taps) {
            const std::uint64_t matrices = tap.experts ? experts : 1;
            sums_.push_back({std::vector<double>(matrices * tap.in), std::vector<double>(matrices)});
        }
    }

    Result<void> take(const Run& run) {
        assert(run.taps.size() == sums_.size());
        for (std::size_t i = 0; i < run.taps.size(); ++i) VKFORMER_CHECK(take(*run.program, run.taps[i], sums_[i]));
        return {};
    }

    /// `logit_scale`: of what the head multiplies; `is_half`: where inputs are float16.
    Result<ImportanceSums> named(const std::vector<Tap>& taps, double logit_scale, bool is_half) const {
        ImportanceSums all;
        for (std::size_t i = 0; i < taps.size(); ++i)
            for (const Product& product : taps[i].products) {
                InputSums own = of_product(product, taps[i], sums_[i]);
                if (product.matrix->name == kHead)
                    for (double& square : own.squares) square /= logit_scale * logit_scale;
                if (!std::ranges::all_of(own.squares, [](double square) { return std::isfinite(square); }))
                    return Error{.code = ErrorCode::NotANumber,
                                 .message = "an input of " + product.matrix->name + " is infinite or no number",
                                 .hint = is_half ? Hint::float32 : Hint::none};
                add(all[product.matrix->name], own);
            }
        return all;
    }

private:
    Result<void> take(graph::Program& program, const Tap& tap, InputSums& sums) {
        values_.resize(program.plan().graph.shape(tap.x).element_count());
        VKFORMER_CHECK(program.read(tap.x, std::span<float>(values_)));
        const std::size_t rows = values_.size() / tap.in;
        if (!tap.experts) {
            for (std::size_t row = 0; row < rows; ++row) add_row(row, 0, tap.in, sums);
            return {};
        }
        experts_.resize(program.plan().graph.shape(tap.experts).element_count());
        VKFORMER_CHECK(program.read(tap.experts, std::span<std::int32_t>(experts_)));
        const std::size_t per_token = experts_.size() * tap.rows_per_token / rows;
        for (std::size_t i = 0; i < experts_.size(); ++i)
            add_row(tap.rows_per_token == 1 ? i / per_token : i, static_cast<std::size_t>(experts_[i]), tap.in, sums);
        return {};
    }

    void add_row(std::size_t row, std::size_t matrix, std::size_t in, InputSums& sums) const {
        const float* const x = values_.data() + row * in;
        double* const squares = sums.squares.data() + matrix * in;
        for (std::size_t i = 0; i < in; ++i) squares[i] += static_cast<double>(x[i]) * x[i];
        sums.counts[matrix] += 1;
    }

    static InputSums of_product(const Product& product, const Tap& tap, const InputSums& sums) {
        InputSums own = sums;
        if (product.expert) {
            const auto begin = sums.squares.begin() + static_cast<std::ptrdiff_t>(*product.expert * tap.in);
            own = {{begin, begin + static_cast<std::ptrdiff_t>(tap.in)}, {sums.counts[*product.expert]}};
        }
        const auto& order = product.matrix->column_order;
        const std::vector<double> before = order.empty() ? std::vector<double>() : own.squares;
        for (std::size_t i = 0; i < before.size(); ++i)
            own.squares[i] = before[i / tap.in * tap.in + order[i % tap.in]];
        return own;
    }

    /// Of a matrix that is multiplied in several places.
    static void add(InputSums& all, const InputSums& more) {
        if (all.counts.empty()) {
            all = more;
            return;
        }
        for (std::size_t i = 0; i < more.squares.size(); ++i) all.squares[i] += more.squares[i];
        for (std::size_t i = 0; i < more.counts.size(); ++i) all.counts[i] += more.counts[i];
    }

    std::vector<InputSums> sums_;
    std::vector<float> values_;          // of one tap in one run
    std::vector<std::int32_t> experts_;  // likewise
};

/// The tokens of a run: a chunk is read in runs of the same length, but for the last.
std::uint32_t run_length(const Run& any, const ImportanceOptions& options) {
    std::uint64_t of_token = 1;  // bytes
    for (const Tap& tap : any.taps) of_token += tap.in * tap.rows_per_token * bytes_of(options.dtype, 1);
    constexpr std::uint64_t kMostTokens = 512;
    const auto most = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
        options.most_bytes / of_token, 1, std::min<std::uint64_t>(options.chunk, kMostTokens)));
    const std::uint32_t runs = (options.chunk + most - 1) / most;
    return (options.chunk + runs - 1) / runs;
}

Result<void> check_tokens(const models::DecoderConfig& config, std::span<const std::int32_t> tokens,
                          const ImportanceOptions& options) {
    if (options.chunk == 0 || options.chunk > config.most_positions())
        return invalid("a chunk of " + std::to_string(options.chunk) + " tokens was asked for, the model takes 1 to " +
                       std::to_string(config.most_positions()));
    if (tokens.empty() || tokens.size() % options.chunk != 0)
        return invalid(std::to_string(tokens.size()) + " tokens are no whole chunks of " +
                       std::to_string(options.chunk));
    for (const std::int32_t token : tokens)
        if (token < 0 || static_cast<std::uint32_t>(token) >= config.vocab_size)
            return invalid("the model has no token " + std::to_string(token));
    return {};
}

}  // namespace

Result<ImportanceSums> measure_importance(graph::Backend& backend, const models::Decoder& decoder,
                                          const MatrixNames& names, std::span<const std::int32_t> tokens,
                                          const ImportanceOptions& options, const ImportanceProgress& progress) {
    const models::DecoderConfig& config = decoder.config();
    VKFORMER_CHECK(check_tokens(config, tokens, options));
    VKFORMER_TRY(const Run any, run_of(decoder, names, options, 1));
    const std::uint32_t run_len = run_length(any, options);
    const auto weights = backend.make_store(), states = backend.make_store();
    Accumulator sums(any.taps, config.experts.count);
    std::map<std::uint32_t, Run> runs;  // by length: that of all, and that of a chunk's last
    for (std::size_t begin = 0; begin < tokens.size(); begin += options.chunk) {
        if (progress) progress(begin / options.chunk, tokens.size() / options.chunk);
        for (std::uint32_t done = 0; done < options.chunk; done += run_len) {
            const std::uint32_t len = std::min(run_len, options.chunk - done);
            Run& run = runs[len];
            if (!run.program) {
                VKFORMER_TRY(run, run_of(decoder, names, options, len));
                VKFORMER_TRY(run.program,
                             backend.compile(graph::make_plan_for(backend, std::move(run.graph)), weights, states));
            }
            const std::int32_t start = static_cast<std::int32_t>(done);
            VKFORMER_CHECK(run.program->write(run.tokens, tokens.subspan(begin + done, len)));
            VKFORMER_CHECK(run.program->write(run.starts, std::span(&start, 1)));
            VKFORMER_CHECK(run.program->submit());
            VKFORMER_CHECK(run.program->wait());
            VKFORMER_CHECK(sums.take(run));
        }
    }
    return sums.named(any.taps, config.logit_scale, options.dtype == DType::f16);
}

namespace {

/// The text's tokens in whole chunks, and how many it has.
struct Chunks {
    std::vector<std::int32_t> tokens;
    std::size_t text_tokens = 0;
};

Result<Chunks> chunks_of(const text::Tokenizer& tokenizer, const ImportanceRequest& request, std::uint32_t chunk) {
    const text::EncodeOptions plain = {.parse_special = false};  // what the text spells out is text
    VKFORMER_TRY(std::vector<std::int32_t> tokens, tokenizer.encode(request.text, plain));
    // What there is before every text, without what there may be behind it.
    VKFORMER_TRY(const auto nothing, tokenizer.encode(""));
    VKFORMER_TRY(const auto something, tokenizer.encode("a"));
    const auto begins = std::ranges::mismatch(nothing, something).in1 - nothing.begin();
    const std::size_t text_tokens = tokens.size();
    if (text_tokens < chunk)
        return invalid(request.name + " has " + std::to_string(text_tokens) + " tokens of this model, fewer than the " +
                       std::to_string(chunk) + " of a chunk: take a longer text, or shorter chunks");
    std::size_t chunks = text_tokens / chunk;
    if (request.chunks > 0) chunks = std::min<std::size_t>(chunks, request.chunks);
    tokens.resize(chunks * chunk);
    for (std::size_t i = 0; i < chunks; ++i)
        std::copy_n(nothing.begin(), std::min<std::ptrdiff_t>(begins, chunk),
                    tokens.begin() + static_cast<std::ptrdiff_t>(i * chunk));
    return Chunks{std::move(tokens), text_tokens};
}

}  // namespace

Result<MeasuredImportance> importance_of_text(const DeviceOptions& device, const ImportanceRequest& request) {
    constexpr std::uint32_t kUsualChunk = 512, kMeasured = 16;
    VKFORMER_TRY(const auto opened, models::open_decoder(request.model));
    VKFORMER_TRY(const models::Decoder decoder, opened.load());
    VKFORMER_CHECK(device.heed(models::notes_of(decoder)));
    const std::uint32_t positions = decoder.config().most_positions();
    const ImportanceOptions options = {
        .chunk = request.context > 0 ? request.context : std::min(kUsualChunk, decoder.config().max_positions),
        .dtype = device.dtype_value(),
        .has_head = request.has_head};
    if (options.chunk > positions)
        return invalid("chunks of " + std::to_string(options.chunk) + " tokens were asked for, the model takes 1 to " +
                       std::to_string(positions));
    VKFORMER_TRY(const auto names, MatrixNames::of(opened, decoder));
    VKFORMER_TRY(const auto text, api::load_decoder_text(opened, decoder.config().vocab_size));
    if (!text.tokenizer) return text.tokenizer.error();
    VKFORMER_TRY(const Chunks chunks, chunks_of(**text.tokenizer, request, options.chunk));

    const auto backend_for = [&]() -> Result<std::vector<tuning::Workload>> {
        VKFORMER_TRY(Run few, run_of(decoder, names, options, std::min(options.chunk, kMeasured)));
        std::vector<tuning::Workload> workloads(1);
        workloads[0].graph = std::move(few.graph);
        return workloads;
    };
    VKFORMER_TRY(const auto backend, open_backend(device, backend_for));
    const auto progress = [&](std::size_t done, std::size_t total) {
        if (!device.quiet)
            show_progress("read " + std::to_string(done) + " of " + std::to_string(total) + " chunks of " +
                          request.name);
    };
    auto sums = measure_importance(*backend, decoder, names, chunks.tokens, options, progress);
    if (!device.quiet) show_progress("");
    if (!sums) return std::move(sums).error();
    if (sums->empty())
        return Error{ErrorCode::UnsupportedConfig, request.model.string() + " has no matrix with a name of a layer's"};
    return MeasuredImportance{.sums = *std::move(sums),
                              .device = backend->name(),
                              .text_tokens = chunks.text_tokens,
                              .chunk = options.chunk,
                              .chunks = static_cast<std::uint32_t>(chunks.tokens.size() / options.chunk)};
}

std::string unmet_experts(const ImportanceSums& sums) {
    std::size_t experts = 0, stacks = 0;
    for (const auto& [name, of_matrix] : sums) {
        const auto unmet = static_cast<std::size_t>(std::ranges::count(of_matrix.counts, 0.0));
        experts += unmet;
        stacks += unmet > 0 ? 1 : 0;
    }
    if (experts == 0) return "";
    return std::to_string(experts) + (experts == 1 ? " expert of " : " experts of ") + std::to_string(stacks) +
           (stacks == 1 ? " stack" : " stacks");
}

formats::Importance means_of(const ImportanceSums& sums) {
    formats::Importance means;
    for (const auto& [name, of_matrix] : sums) {
        const std::size_t in = of_matrix.squares.size() / of_matrix.counts.size();
        std::vector<float> values(of_matrix.squares.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto count = static_cast<float>(of_matrix.counts[i / in]);
            values[i] = count > 0 ? static_cast<float>(of_matrix.squares[i]) / count : 1.0f;
        }
        means.emplace(name, std::make_shared<const std::vector<float>>(std::move(values)));
    }
    return means;
}

Result<void> write_importance(const std::filesystem::path& path, const MeasuredImportance& measured,
                              const std::string& text) {
    formats::GgufMetadata metadata;
    metadata.set("general.type", "imatrix");
    metadata.set("imatrix.datasets", std::span(&text, 1));
    metadata.set("imatrix.chunk_count", measured.chunks);
    metadata.set("imatrix.chunk_size", measured.chunk);
    std::vector<formats::OutputTensor> tensors;
    const auto add = [&](const std::string& name, const std::vector<double>& values, std::uint64_t rows) {
        const auto floats = std::make_shared<std::vector<float>>(values.begin(), values.end());
        tensors.push_back({.name = name,
                           .dtype = DType::f32,
                           .source = {.dtype = DType::f32,
                                      .shape = rows == 1 ? Shape{values.size()} : Shape{rows, values.size() / rows},
                                      .bytes = std::as_bytes(std::span(*floats)),
                                      .owner = floats}});
    };
    for (const auto& [name, of_matrix] : measured.sums) {
        add(name + ".in_sum2", of_matrix.squares, of_matrix.counts.size());
        add(name + ".counts", of_matrix.counts, of_matrix.counts.size());
    }
    return formats::write_gguf(path, metadata, tensors);
}

}  // namespace vkformer::cli
