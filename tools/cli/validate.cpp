// SPDX-License-Identifier: MIT
/// vkformer validate: every node of a model on a device against the CPU in double precision.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/try.hpp"
#include "cpu/backend.hpp"
#include "decoding/beam_session.hpp"
#include "decoding/decoder_steps.hpp"
#include "decoding/speech_steps.hpp"
#include "decoding/steps.hpp"
#include "device.hpp"
#include "line.hpp"
#include "models/generation_config.hpp"
#include "models/open_model.hpp"
#include "models/speech_config.hpp"
#include "passes.hpp"
#include "validation/validate.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;
using validation::NodeCheck;
using validation::Report;

struct ValidateCommand {
    DeviceOptions device;
    ModelOption model;
    CacheOption cache;
    std::uint32_t length = 19;  // odd, and no multiple of any tile
    std::uint32_t seed = 1;
    std::size_t worst = 12;
    bool json = false;
};

/// A graph with something to put in.
struct Case {
    std::string name;
    graph::Graph graph;
    validation::Feeds feeds;
};

class Random {
public:
    explicit Random(std::uint32_t seed) : generator_(seed) {}

    std::vector<std::int32_t> integers(std::size_t count, std::uint64_t below) {
        std::uniform_int_distribution<std::int32_t> distribution(0, static_cast<std::int32_t>(below) - 1);
        return filled<std::int32_t>(count, distribution);
    }
    std::vector<float> normal(std::size_t count) {
        std::normal_distribution<float> distribution;
        return filled<float>(count, distribution);
    }
    /// 0 or, one time in five, −∞; the first of each row always 0.
    std::vector<float> mask(std::size_t rows, std::size_t columns) {
        std::bernoulli_distribution masked(0.2);
        std::vector<float> values(rows * columns);
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = i % columns != 0 && masked(generator_) ? -std::numeric_limits<float>::infinity() : 0;
        return values;
    }

private:
    template <class T>
    std::vector<T> filled(std::size_t count, auto& distribution) {
        std::vector<T> values(count);
        for (T& value : values) value = distribution(generator_);
        return values;
    }

    std::mt19937 generator_;
};

constexpr std::uint32_t kCheckedBatch = 2;

/// The second sequence is shorter by a third.
std::vector<std::int32_t> source_lengths(std::uint32_t len) {
    return {static_cast<std::int32_t>(len), static_cast<std::int32_t>(std::max(1u, len - len / 3))};
}

/// Tokens, or what a model hears.
void feed_source(Case& c, const models::EncoderDecoder::Limits& limits, std::uint32_t batch, std::uint32_t len,
                 Random& random) {
    const std::size_t positions = std::size_t{batch} * len;
    if (limits.source_features > 0) {
        c.feeds["input_features"] = random.normal(positions * limits.source_features);
    } else {
        c.feeds["input_ids"] = random.integers(positions, limits.source_vocab);
    }
}

Result<Case> forward_case(const models::EncoderDecoder& model, std::uint32_t len, DType dtype, bool keeps_weights,
                          Random& random) {
    const auto limits = model.limits();
    const bool masked = keeps_weights && limits.takes_any_mask && limits.source_features == 0;
    VKFORMER_TRY(auto f,
                 model.forward({.batch = kCheckedBatch,
                                .source_len = len,
                                .target_len = len,
                                .dtype = dtype,
                                .source_mask = masked ? models::SourceMask::additive : models::SourceMask::lengths,
                                .layers = {.attention = keeps_weights}}));
    Case c = {.name = keeps_weights ? "forward, attention weights kept" : "forward", .graph = std::move(f.graph)};
    feed_source(c, limits, kCheckedBatch, len, random);
    c.feeds["decoder_input_ids"] = random.integers(std::size_t{kCheckedBatch} * len, limits.target_vocab);
    if (masked) {
        c.feeds["source_mask"] = random.mask(kCheckedBatch, len);
    } else {
        c.feeds["source_lengths"] = source_lengths(len);
    }
    return c;
}

Result<Case> encoder_case(const models::EncoderDecoder& model, const models::DecodeLayout& layout, Random& random) {
    VKFORMER_TRY(auto encoder, decoding::encoder_graph(model, layout));
    Case c = {.name = "encoder of a generation", .graph = std::move(encoder.graph)};
    feed_source(c, model.limits(), layout.batch, layout.source_len, random);
    c.feeds["source_lengths"] = source_lengths(layout.source_len);
    return c;
}

/// The states of a beam search in the middle: all slots taken, running hypotheses in falling order.
void feed_beams(Case& c, const models::DecodeLayout& layout, std::int32_t step, Random& random) {
    const std::size_t rows = layout.rows();
    std::vector<std::int32_t> parents(rows), state(layout.batch + 3, 0);
    std::vector<float> running(rows), finished(rows);
    for (std::size_t row = 0; row < rows; ++row) {
        parents[row] = static_cast<std::int32_t>(row);
        const auto rank = static_cast<float>(row % layout.beams);
        running[row] = -1.0f - 0.3f * rank;
        finished[row] = -1.1f - 0.4f * rank;
    }
    std::fill_n(state.begin(), layout.batch, 1);
    state[layout.batch + 1] = step;
    state.back() = static_cast<std::int32_t>(layout.max_steps);
    c.feeds["parents"] = parents;
    c.feeds["running_scores"] = running;
    c.feeds["final_scores"] = finished;
    c.feeds["final_steps"] = std::vector<std::int32_t>(rows, std::max(step, 1));
    c.feeds["final_rows"] = parents;
    c.feeds["final_tokens"] = random.integers(rows, 2);
    c.feeds["state"] = state;
}

/// Keys and values that are in the caches already.
void feed_caches(Case& c, Random& random) {
    for (const graph::Tensor& tensor : c.graph.tensors())
        if (!tensor.alias_of && tensor.kind == graph::TensorKind::state && is_real(tensor.dtype))
            c.feeds[tensor.name] = random.normal(tensor.shape.element_count());
}

Result<Case> step_case(const models::EncoderDecoder& model, const models::DecodeLayout& layout,
                       models::GenerationConfig generation, Random& random) {
    generation.beams = layout.beams;
    generation.max_steps = layout.max_steps;
    generation.early_stopping = graph::EarlyStopping::heuristic;
    VKFORMER_TRY(auto step, decoding::step_graph(model, layout, generation));
    Case c = {.name = layout.beams == 1 ? "greedy step" : "beam step", .graph = std::move(step.graph)};
    const auto position = static_cast<std::int32_t>(layout.max_steps / 2);
    feed_caches(c, random);
    c.feeds["tokens"] = random.integers(layout.rows(), model.limits().target_vocab);
    c.feeds["starts"] = std::vector<std::int32_t>(layout.rows(), position);
    c.feeds["source_lengths"] = source_lengths(layout.source_len);
    if (layout.beams > 1) feed_beams(c, layout, position, random);
    return c;
}

/// The forward pass, with and without the weights of its attention, and the encoder.
Result<std::vector<Case>> forward_and_encoder_cases(const models::EncoderDecoder& model,
                                                    const models::DecodeLayout& layout, Random& random) {
    std::vector<Case> cases;
    for (const bool keeps_weights : {false, true}) {
        VKFORMER_TRY(Case c, forward_case(model, layout.source_len, layout.dtype, keeps_weights, random));
        cases.push_back(std::move(c));
    }
    VKFORMER_TRY(Case encoder, encoder_case(model, layout, random));
    cases.push_back(std::move(encoder));
    return cases;
}

/// What is checked of a model that has as many positions as `length`, or fewer.
models::DecodeLayout checked_layout(const models::EncoderDecoder& model, std::uint32_t length, DType dtype) {
    const auto limits = model.limits();
    const auto len =
        static_cast<std::uint32_t>(std::min<std::uint64_t>({length, limits.source_len, limits.target_len}));
    return {.batch = kCheckedBatch, .source_len = len, .max_steps = len, .dtype = dtype};
}

Result<std::vector<Case>> cases_of(const models::EncoderDecoder& model, const models::GenerationConfig& generation,
                                   std::uint32_t length, DType dtype, std::uint32_t seed) {
    Random random(seed);
    models::DecodeLayout layout = checked_layout(model, length, dtype);
    VKFORMER_TRY(std::vector<Case> cases, forward_and_encoder_cases(model, layout, random));
    for (const std::uint32_t beams : {1u, std::max(3u, generation.beams)}) {
        layout.beams = beams;
        VKFORMER_TRY(Case c, step_case(model, layout, generation, random));
        cases.push_back(std::move(c));
    }
    return cases;
}

/// The step of a model that hears, in the middle of what it writes down, under all rules of its folder.
Result<Case> speech_step_case(const models::EncoderDecoder& model, const models::DecodeLayout& layout,
                              const models::SpeechConfig& speech, Random& random) {
    decoding::SpeechRules rules = {.generation = speech.generation, .timestamps = {}};
    rules.generation.max_steps = layout.max_steps;
    if (speech.first_timestamp >= 0)
        rules.timestamps = {
            .first = speech.first_timestamp, .eos = speech.generation.eos, .latest_initial = speech.latest_initial};
    Case c = {.name = layout.beams == 1 ? "greedy step" : "beam step"};
    if (layout.beams == 1) {
        VKFORMER_TRY(auto step, decoding::speech_step_graph(model, layout, rules, 0));
        c.graph = std::move(step.graph);
    } else {
        VKFORMER_TRY(auto step, decoding::speech_beam_graph(model, layout, rules));
        c.graph = std::move(step.graph);
    }
    const auto position = static_cast<std::int32_t>(layout.max_steps / 2);
    const std::size_t rows = layout.rows(), tokens = rows * layout.max_steps;
    const std::uint64_t vocab = model.limits().target_vocab;
    feed_caches(c, random);
    c.feeds["tokens"] = random.integers(rows, vocab);
    c.feeds["starts"] = std::vector<std::int32_t>(rows, position);
    c.feeds["sequences"] = random.integers(tokens, vocab);
    if (layout.beams == 1) c.feeds["given"] = std::vector<std::int32_t>(tokens, -1);
    c.feeds["begins"] = std::vector<std::int32_t>(rows, position / 2);
    c.feeds["source_lengths"] = source_lengths(layout.source_len);
    if (layout.beams > 1) feed_beams(c, layout, position, random);
    return c;
}

/// A model that hears has windows of random features, in place of the spectrogram's.
Result<std::vector<Case>> cases_of(const models::EncoderDecoder& model, const models::SpeechConfig& speech,
                                   std::uint32_t length, DType dtype, std::uint32_t seed) {
    Random random(seed);
    models::DecodeLayout layout = checked_layout(model, length, dtype);
    VKFORMER_TRY(std::vector<Case> cases, forward_and_encoder_cases(model, layout, random));
    for (const std::uint32_t beams : {1u, std::max(3u, speech.generation.beams)}) {
        layout.beams = beams;
        VKFORMER_TRY(Case step, speech_step_case(model, layout, speech, random));
        cases.push_back(std::move(step));
    }
    return cases;
}

/// A beam search of one prompt, some steps behind its end.
Result<Case> beam_case(const models::Decoder& model, decoding::DecoderSessionOptions options, Random& random) {
    constexpr std::uint32_t kBeams = 3;
    options.rows = 1;
    VKFORMER_TRY(auto search, decoding::beam_step_graph(model, options, {.beams = kBeams}, 0, 0));
    Case c = {.name = "beam step", .graph = std::move(search.graph)};
    const auto position = static_cast<std::int32_t>(options.context / 2), step = (position + 1) / 2;
    feed_caches(c, random);
    c.feeds["step_tokens"] = random.integers(kBeams, model.config().vocab_size);
    c.feeds["starts"] = std::vector<std::int32_t>(kBeams, position);
    c.feeds["shared"] = std::vector<std::int32_t>(kBeams, position - step);
    feed_beams(c, {.beams = kBeams, .max_steps = options.context}, step, random);
    return c;
}

/// Tokens in the middle of a context and at its beginning.
Result<Case> forward_case(const models::Decoder& model, const decoding::DecoderSessionOptions& options,
                          bool keeps_weights, Random& random) {
    const std::uint32_t context = options.context, len = (context + 1) / 2;
    Case forward = {.name = keeps_weights ? "forward, attention weights kept" : "forward"};
    graph::Graph& g = forward.graph;
    VKFORMER_TRY(const auto tokens, g.input("tokens", DType::i32, {kCheckedBatch, len}));
    VKFORMER_TRY(const auto starts, g.input("starts", DType::i32, {kCheckedBatch}));
    VKFORMER_TRY(const auto pass, model.add_pass(g,
                                                 {.rows = kCheckedBatch,
                                                  .len = len,
                                                  .capacity = context,
                                                  .dtype = options.dtype,
                                                  .weights = options.weights,
                                                  .cache = options.cache,
                                                  .layers = {.attention = keeps_weights}},
                                                 tokens, starts, models::Logits::all));
    g.mark_output(pass.logits);
    forward.feeds["tokens"] = random.integers(std::size_t{kCheckedBatch} * len, model.config().vocab_size);
    forward.feeds["starts"] = std::vector<std::int32_t>{static_cast<std::int32_t>(context - len), 0};
    feed_caches(forward, random);
    return forward;
}

/// A language model has forward passes and steps.
Result<std::vector<Case>> cases_of(const models::Decoder& model, std::uint32_t length, DType dtype,
                                   models::CacheFormat cache, std::uint32_t seed) {
    Random random(seed);
    const std::uint32_t context = std::min(2 * length, model.config().max_positions);
    const decoding::DecoderSessionOptions options = {.rows = kCheckedBatch,
                                                     .context = context,
                                                     .dtype = dtype,
                                                     .weights = models::WeightFormat::as_filed,
                                                     .cache = cache};
    std::vector<Case> cases;
    for (const bool keeps_weights : {false, true}) {
        if (keeps_weights && cache != models::CacheFormat::as_computed) continue;  // which keeps none
        VKFORMER_TRY(Case forward, forward_case(model, options, keeps_weights, random));
        cases.push_back(std::move(forward));
    }
    Case step;
    step.name = "greedy step";
    VKFORMER_TRY(auto step_graph, decoding::step_graph(model, options));
    step.graph = std::move(step_graph.graph);
    step.feeds["step_tokens"] = random.integers(kCheckedBatch, model.config().vocab_size);
    step.feeds["starts"] = std::vector<std::int32_t>{static_cast<std::int32_t>(context - 1), 1};
    feed_caches(step, random);
    cases.push_back(std::move(step));
    if (model.config().keeps_states()) return cases;  // which no beam search reorders
    VKFORMER_TRY(Case beams, beam_case(model, options, random));
    cases.push_back(std::move(beams));
    return cases;
}

template <OnePass Model>
Result<std::vector<Case>> cases_of(const models::Opened<Model>& model, const ValidateCommand& command) {
    VKFORMER_TRY(auto passes, passes_of(model, {.batch = kCheckedBatch,
                                                .length = command.length,
                                                .dtype = command.device.dtype_value(),
                                                .seed = command.seed,
                                                .full_texts = false,
                                                .with_attention_weights = true}));
    std::vector<Case> cases;
    for (Pass& pass : passes)
        cases.push_back({.name = pass.name, .graph = std::move(pass.graph), .feeds = std::move(pass.feeds)});
    return cases;
}

/// With the rules of times, where the folder has them.
Result<models::SpeechConfig> any_speech_config(const std::filesystem::path& folder,
                                               const models::EncoderDecoder& model) {
    const auto limits = model.limits();
    auto timed = models::load_speech_config(folder, limits.target_len, limits.target_vocab, {.timestamps = true});
    if (timed) return timed;
    return models::load_speech_config(folder, limits.target_len, limits.target_vocab, {.timestamps = false});
}

Result<std::vector<Case>> cases_of(const models::Opened<models::Decoder>& opened, const ValidateCommand& command) {
    VKFORMER_TRY(const auto model, opened.load());
    return cases_of(model, command.length, command.device.dtype_value(), command.cache.format(), command.seed);
}

Result<std::vector<Case>> cases_of(const models::Opened<models::SpeechModel>& opened, const ValidateCommand& command) {
    VKFORMER_TRY(const auto speech, opened.load());
    if (speech.ctc) return cases_of<models::SpeechModel>(opened, command);
    VKFORMER_TRY(const auto config, any_speech_config(opened.path, *speech.model));
    return cases_of(*speech.model, config, command.length, command.device.dtype_value(), command.seed);
}

Result<std::vector<Case>> cases_of(const models::Opened<std::unique_ptr<models::EncoderDecoder>>& opened,
                                   const ValidateCommand& command) {
    VKFORMER_TRY(const auto model, opened.load());
    const auto limits = model->limits();
    VKFORMER_TRY(const auto generation,
                 models::load_generation_config(opened.path, limits.target_len, limits.target_vocab));
    return cases_of(*model, generation, command.length, command.device.dtype_value(), command.seed);
}

/// JSON has no NaN and no infinity.
json number(double value) { return std::isfinite(value) ? json(value) : json(std::isnan(value) ? "nan" : "inf"); }

json as_json(const NodeCheck& check) {
    return {{"node", check.node},          {"op", check.op},
            {"tensor", check.tensor},      {"dtype", to_string(check.dtype)},
            {"elements", check.elements},  {"error", number(check.error)},
            {"bound", check.bound},        {"accumulated", number(check.accumulated)},
            {"diverges", check.diverges()}};
}

json as_json(const Report& report) {
    json checks = json::array();
    for (const NodeCheck& check : report.checks) checks.push_back(as_json(check));
    const NodeCheck* first = report.first_divergence();
    return {{"graph", report.graph},
            {"device", report.device},
            {"checks", checks},
            {"first_divergence", first ? as_json(*first) : json()}};
}

/// How much of its bound a result uses; NaN above all.
double share_of_bound(const NodeCheck& check) {
    if (check.error == 0) return 0;
    const double share = check.error / check.bound;
    return std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
}

std::string as_text(const Report& report, std::size_t worst) {
    std::vector<const NodeCheck*> order;
    for (const NodeCheck& check : report.checks) order.push_back(&check);
    std::ranges::stable_sort(order, std::greater<>(), [](const NodeCheck* check) { return share_of_bound(*check); });
    const auto diverging = std::ranges::count_if(report.checks, &NodeCheck::diverges);
    std::string out = line("%s: %zu results, %zu outside their bounds\n", report.graph.c_str(), report.checks.size(),
                           static_cast<std::size_t>(diverging));
    out += line("  %-46s %-18s %-5s %10s %10s %12s\n", "worst", "op", "type", "error", "bound", "accumulated");
    for (std::size_t i = 0; i < std::min(worst, order.size()); ++i) {
        const NodeCheck& check = *order[i];
        out += line("  %-46s %-18s %-5s %10.2e %10.2e %12.2e%s\n", check.tensor.c_str(), check.op.c_str(),
                    std::string(to_string(check.dtype)).c_str(), check.error, check.bound, check.accumulated,
                    check.diverges() ? "  <-- diverges" : "");
    }
    if (const NodeCheck* first = report.first_divergence()) {
        out += line("  first divergence: node %s (%s), result %s: error %.3e, bound %.3e\n", first->node.c_str(),
                    first->op.c_str(), first->tensor.c_str(), first->error, first->bound);
        out += line("    worst element %llu: %.9g, expected %.9g\n",
                    static_cast<unsigned long long>(first->worst_element), first->worst_found, first->worst_expected);
    }
    return out + "\n";
}

Result<int> run(const ValidateCommand& command) {
    VKFORMER_TRY(const auto folder, command.model.find());
    VKFORMER_TRY(const auto model, open_model(command.device, folder));
    VKFORMER_TRY(const auto cases, std::visit([&](const auto& opened) { return cases_of(opened, command); }, model));
    VKFORMER_TRY(const auto device, open_backend(command.device));
    const auto oracle = cpu::make_cpu_backend<double>();

    bool diverges = false;
    json reports = json::array();
    for (const Case& c : cases) {
        VKFORMER_TRY(const Report report, validation::validate(c.graph, c.name, c.feeds, *device, *oracle));
        diverges = diverges || report.first_divergence();
        if (command.json) {
            reports.push_back(as_json(report));
        } else {
            VKFORMER_CHECK(print(as_text(report, command.worst)));
        }
    }
    if (command.json) {
        VKFORMER_CHECK(print_json({{"model", folder.string()}, {"seed", command.seed}, {"reports", reports}}));
    } else {
        VKFORMER_CHECK(print(diverges ? "diverges\n" : "every node agrees with double precision within its bound\n"));
    }
    return diverges ? kDivergence : kOk;
}

}  // namespace

void add_validate(CLI::App& app, Action& action) {
    auto options = std::make_shared<ValidateCommand>();
    CLI::App& command =
        *app.add_subcommand("validate", "Compare every node of a model on a device with double precision on the CPU");
    options->model.add(command);
    command.add_option("--length", options->length, "Length of the random sequences")
        ->check(CLI::Range(2u, 4096u))
        ->capture_default_str();
    command.add_option("--seed", options->seed, "Of the random sequences and caches")->capture_default_str();
    command.add_option("--worst", options->worst, "Results to list per graph")->capture_default_str();
    command.add_flag("--json", options->json, "Print every result as JSON");
    options->device.add_device(command);
    options->device.add_strict(command);
    options->device.add_dtype(command);
    options->cache.add(command);
    command.footer(
        "Each node is run in double precision on the operands that the device had, so its error is its own.\n"
        "Exit code 1 if any result is outside its bound.\n"
        "Examples:\n"
        "  vkformer validate\n"
        "  vkformer validate --model opus-mt-en-de --device 0 --dtype f16 --length 64");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
