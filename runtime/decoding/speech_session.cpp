// SPDX-License-Identifier: MIT
#include "decoding/speech_session.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "core/lack_of_memory.hpp"
#include "core/try.hpp"
#include "decoding/invalid.hpp"
#include "decoding/run_script.hpp"
#include "decoding/steps.hpp"
#include "decoding/tensor_io.hpp"
#include "decoding/token_rules.hpp"
#include "decoding/token_times.hpp"

namespace vkformer::decoding {
namespace {

using graph::Program;

}  // namespace

struct SpeechSession::Encoder {
    EncoderGraph graph;  // the program owns the plan; the names of the tensors are kept here
    std::unique_ptr<Program> program;
};

struct SpeechSession::Step {
    SpeechStepGraph graph;
    std::unique_ptr<Program> program;
};

struct SpeechSession::Search {
    SpeechBeamGraph graph;
    std::unique_ptr<Program> program;
};

/// A forward pass of the decoder that keeps what some of its layers look at.
struct SpeechSession::Aligner {
    graph::Graph graph;
    graph::Value tokens;  // i32 [batch, len]
    models::EncoderDecoder::KnownTarget target;
    std::unique_ptr<Program> program;
};

SpeechSession::SpeechSession(graph::Backend& backend, const models::EncoderDecoder& model,
                             const SpeechSessionOptions& options, std::shared_ptr<graph::TensorStore> weights)
    : backend_(&backend), model_(&model), options_(options), weights_(std::move(weights)) {}

Result<SpeechSession> SpeechSession::create(graph::Backend& backend, const models::EncoderDecoder& model,
                                            const SpeechSessionOptions& options,
                                            std::shared_ptr<graph::TensorStore> weights) {
    const auto limits = model.limits();
    const models::GenerationConfig& g = options.rules.generation;
    if (limits.source_features == 0) return invalid("the model does not hear");
    if (options.batch == 0) return invalid("the batch must hold at least one window");
    if (options.beams == 0 || options.beams > graph::kMaxBeams)
        return invalid(std::to_string(options.beams) + " beams were asked for, there are 1 to " +
                       std::to_string(graph::kMaxBeams));
    if (g.max_steps == 0 || g.max_steps > limits.target_len)
        return invalid("the generation may take " + std::to_string(g.max_steps) +
                       " steps, the model has positions for 1 to " + std::to_string(limits.target_len));
    VKFORMER_CHECK(check_token("decoder_start_token_id", g.decoder_start, limits.target_vocab));
    VKFORMER_CHECK(check_token("eos_token_id", g.eos, limits.target_vocab));
    VKFORMER_CHECK(check_token("pad_token_id", g.pad, limits.target_vocab));
    VKFORMER_CHECK(check_rules(g.rules, limits.target_vocab));
    if (!weights) weights = backend.make_store();
    return SpeechSession(backend, model, options, std::move(weights));
}

void SpeechSession::grow(std::uint32_t batch) noexcept {
    if (batch <= options_.batch) return;
    if (!std::has_single_bit(options_.batch)) batches_.erase(options_.batch);  // which none takes any more
    options_.batch = std::bit_ceil(batch);
    heard_ = 0;
}

/// Encoder and step of so many windows, which hear from now on. Of what fails nothing stays.
Result<void> SpeechSession::make_batch(std::uint32_t windows) {
    std::unique_ptr<Batch>& known = batches_[windows];
    if (!known) {
        known = std::make_unique<Batch>();
        known->windows = windows;
        known->states = backend_->make_store();
    }
    batch_ = known.get();
    auto made = [&]() -> Result<void> {
        if (batch_->encoder) return {};
        auto encoder = std::make_shared<Encoder>();
        VKFORMER_TRY(encoder->graph, encoder_graph(*model_, layout()));
        VKFORMER_TRY(encoder->program, compile(std::move(encoder->graph.graph)));
        VKFORMER_CHECK(step(0));
        if (options_.beams > 1) VKFORMER_CHECK(search());
        batch_->encoder = std::move(encoder);
        return {};
    }();
    if (made) return {};
    batches_.erase(windows);
    batch_ = nullptr;
    return made;
}

/// Of as many as there are; the whole batch is made before others, and hears where there is no room for them.
Result<void> SpeechSession::choose_batch(std::size_t windows) {
    const auto fewer = static_cast<std::uint32_t>(std::min<std::size_t>(std::bit_ceil(windows), options_.batch));
    VKFORMER_CHECK(make_batch(options_.batch));
    if (fewer == options_.batch || !has_room_for_others_) return {};
    auto made = make_batch(fewer);
    if (made || !is_lack_of_memory(made.error().code)) return made;
    has_room_for_others_ = false;
    return make_batch(options_.batch);
}

models::DecodeLayout SpeechSession::layout() const {
    return {.batch = batch_->windows,
            .beams = options_.beams,
            .source_len = static_cast<std::uint32_t>(model_->limits().source_len),
            .max_steps = options_.rules.generation.max_steps,
            .dtype = options_.dtype,
            .weights = options_.weights};
}

Result<std::unique_ptr<Program>> SpeechSession::compile(graph::Graph graph) const {
    return backend_->compile(graph::make_plan_for(*backend_, std::move(graph)), weights_, batch_->states);
}

Result<void> SpeechSession::hear(std::span<const std::vector<float>> windows) {
    const auto limits = model_->limits();
    const std::size_t size = limits.source_len * limits.source_features;
    if (windows.empty() || windows.size() > options_.batch)
        return invalid(std::to_string(windows.size()) + " windows, expected 1 to " + std::to_string(options_.batch));
    for (const auto& window : windows)
        if (window.size() != size)
            return invalid("a window has " + std::to_string(window.size()) + " features, the model hears " +
                           std::to_string(size));
    heard_ = 0;
    VKFORMER_CHECK(choose_batch(windows.size()));
    std::vector<float> features;  // rows that no window needs repeat the last one, so that they finish when it does
    features.reserve(batch_->windows * size);
    for (std::size_t b = 0; b < batch_->windows; ++b) {
        const auto& window = windows[std::min(b, windows.size() - 1)];
        features.insert(features.end(), window.begin(), window.end());
    }
    VKFORMER_CHECK(backend_->check_wanted());
    Program& encoder = *batch_->encoder->program;
    const models::SourceTensors& source = batch_->encoder->graph.source;
    VKFORMER_CHECK(write_floats(encoder, source.features, features));
    VKFORMER_CHECK(fill_ints(encoder, source.lengths, static_cast<std::int32_t>(limits.source_len)));
    VKFORMER_CHECK(encoder.submit());
    VKFORMER_CHECK(encoder.wait());
    heard_ = windows.size();
    return {};
}

Result<SpeechSession::Step*> SpeechSession::step(float temperature) {
    std::shared_ptr<Step>& known = batch_->steps[temperature];
    if (known) return known.get();
    auto made = std::make_shared<Step>();
    VKFORMER_TRY(made->graph, speech_step_graph(*model_, layout(), options_.rules, temperature));
    VKFORMER_TRY(made->program, compile(std::move(made->graph.graph)));
    known = std::move(made);
    return known.get();
}

Result<SpeechSession::Search*> SpeechSession::search() {
    if (batch_->search) return batch_->search.get();
    auto made = std::make_shared<Search>();
    VKFORMER_TRY(made->graph, speech_beam_graph(*model_, layout(), options_.rules));
    VKFORMER_TRY(made->program, compile(std::move(made->graph.graph)));
    batch_->search = std::move(made);
    return batch_->search.get();
}

/// What the first step of every row reads.
Result<void> SpeechSession::start(Step& step, std::span<const std::int32_t> given, std::uint64_t seed) {
    const std::size_t positions = options_.rules.generation.max_steps;
    std::vector<std::int32_t> all(rows() * positions, -1);
    for (std::size_t row = 0; row < rows(); ++row)
        std::ranges::copy(given, all.begin() + static_cast<std::ptrdiff_t>(row * positions));
    Program& program = *step.program;
    VKFORMER_CHECK(write_ints(program, step.graph.given, all));
    VKFORMER_CHECK(fill_ints(program, step.graph.begins, static_cast<std::int32_t>(given.size())));
    VKFORMER_CHECK(fill_ints(program, step.graph.states.tokens, given[0]));
    VKFORMER_CHECK(fill_ints(program, step.graph.states.starts, 0));
    VKFORMER_CHECK(fill_ints(program, step.graph.states.finished, 0));
    if (!step.graph.random) return {};
    std::vector<std::int32_t> random;
    for (std::size_t row = 0; row < rows(); ++row) {
        const std::uint64_t own = seed + row;
        random.insert(random.end(),
                      {static_cast<std::int32_t>(own & 0xFFFFFFFFu), static_cast<std::int32_t>(own >> 32), 0});
    }
    return write_ints(program, step.graph.random, random);
}

Result<std::int32_t> SpeechSession::likeliest(std::span<const std::int32_t> choices) {
    if (heard_ == 0) return invalid("nothing was heard yet");
    if (choices.empty()) return invalid("there are no choices");
    for (const std::int32_t token : choices)
        VKFORMER_CHECK(check_token("a choice", token, model_->limits().target_vocab));
    VKFORMER_TRY(Step* const made, step(0));
    const std::int32_t given[] = {options_.rules.generation.decoder_start};
    VKFORMER_CHECK(start(*made, given, 0));
    VKFORMER_CHECK(made->program->submit());
    VKFORMER_TRY(const auto logits, read_tensor<float>(*made->program, made->graph.logits));
    if (std::ranges::any_of(choices, [&](auto token) { return std::isnan(logits[static_cast<std::size_t>(token)]); }))
        return no_choice();
    return *std::ranges::max_element(choices, {},
                                     [&](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; });
}

/// The token's probability in each window, among all tokens, after the step that has run.
Result<std::vector<double>> SpeechSession::probability_of(Step& step, std::int32_t token) const {
    VKFORMER_TRY(const auto logits, read_tensor<float>(*step.program, step.graph.logits));
    const std::size_t vocab = logits.size() / rows();
    std::vector<double> probabilities;
    for (std::size_t row = 0; row < rows(); row += options_.beams) {
        const auto own = std::span(logits).subspan(row * vocab, vocab);
        const double largest = *std::ranges::max_element(own);
        double total = 0;
        for (const float logit : own) total += std::exp(logit - largest);
        if (std::isnan(total)) return no_choice();
        probabilities.push_back(std::exp(own[static_cast<std::size_t>(token)] - largest) / total);
    }
    return probabilities;
}

Result<void> SpeechSession::check(const SpeechRequest& request) const {
    const std::uint64_t vocab = model_->limits().target_vocab;
    const std::uint32_t positions = options_.rules.generation.max_steps;
    if (heard_ == 0) return invalid("nothing was heard yet");
    if (std::ranges::find(request.given, options_.rules.generation.decoder_start) == request.given.end())
        return invalid("the decoder is not given its start token");
    if (request.given.size() >= request.max_length || request.max_length > positions + 1)
        return invalid("the decoder is given " + std::to_string(request.given.size()) + " tokens of " +
                       std::to_string(request.max_length) + " at most; the model has positions for " +
                       std::to_string(positions));
    for (const std::int32_t token : request.given) VKFORMER_CHECK(check_token("a given token", token, vocab));
    if (request.no_speech >= 0) VKFORMER_CHECK(check_token("the token of no speech", request.no_speech, vocab));
    return {};
}

/// What the rows wrote; of those of a window the likeliest.
Result<std::vector<Utterance>> SpeechSession::collect(Step& step, const SpeechRequest& request) const {
    VKFORMER_TRY(const auto history, read_ints(*step.program, step.graph.states.history));
    VKFORMER_TRY(const auto scores, read_tensor<float>(*step.program, step.graph.scores));
    std::vector<Utterance> utterances(heard_);
    for (std::size_t row = 0; row < heard_ * options_.beams; ++row) {
        Utterance utterance;
        // The step at position t chooses the token at t + 1.
        for (std::size_t t = request.given.size() - 1; t + 1 < request.max_length; ++t) {
            if (history[t * rows() + row] == kNoChoice) return no_choice();
            utterance.tokens.push_back(history[t * rows() + row]);
            utterance.log_probs.push_back(scores[t * rows() + row]);
            utterance.log_prob += utterance.log_probs.back();
            if (utterance.tokens.back() == options_.rules.generation.eos) break;
        }
        utterance.score = utterance.log_prob / static_cast<double>(utterance.tokens.size());
        Utterance& best = utterances[row / options_.beams];
        if (row % options_.beams == 0 || utterance.score > best.score) best = std::move(utterance);
    }
    return utterances;
}

/// Runs the steps that read what is given, all but the last one at least, and up to that which says what `no_speech` is worth: of each
/// window; 0 where it is not asked for. `done`: steps that have run.
Result<std::vector<double>> SpeechSession::read_given(Step& step, const SpeechRequest& request, std::uint32_t& done) {
    VKFORMER_CHECK(start(step, request.given, request.seed));
    Program& program = *step.program;
    done = 0;
    std::vector<double> no_speech(batch_->windows, 0);
    if (request.no_speech >= 0) {
        const auto at = std::ranges::find(request.given, options_.rules.generation.decoder_start);
        done = static_cast<std::uint32_t>(at - request.given.begin()) + 1;
        VKFORMER_CHECK(program.submit(done));
        VKFORMER_TRY(no_speech, probability_of(step, request.no_speech));
    }
    const auto all_but_last = static_cast<std::uint32_t>(request.given.size()) - 1;
    if (done < all_but_last) VKFORMER_CHECK(program.submit(all_but_last - done));
    done = std::max(done, all_but_last);
    return no_speech;
}

/// Runs a program until `is_over` or so many steps have been run.
template <class IsOver>
Result<void> SpeechSession::write_on(Program& program, std::uint32_t steps, IsOver is_over) {
    std::uint32_t done = 0;
    for (StepQueue queue(StepQueue::Growth::doubling, *backend_); done < steps;) {
        if (done > 0) {
            VKFORMER_TRY(const bool stops, is_over());
            if (stops) break;
        }
        VKFORMER_CHECK(backend_->check_wanted());
        const std::uint32_t count = std::min(queue.count(), steps - done);
        VKFORMER_CHECK(program.submit(count));
        queue.took(count, 0);
        done += count;
    }
    return program.wait();
}

Result<std::vector<Utterance>> SpeechSession::write_down(const SpeechRequest& request) {
    VKFORMER_CHECK(check(request));
    const bool searches = options_.beams > 1 && request.temperature == 0;
    VKFORMER_TRY(Step* const made, step(request.temperature));
    std::uint32_t done = 0;
    VKFORMER_TRY(const auto no_speech, read_given(*made, request, done));
    std::vector<Utterance> utterances;
    if (searches) {
        VKFORMER_CHECK(made->program->wait());  // whose states the search begins with
        VKFORMER_TRY(utterances, search_for(request));
    } else {
        const auto is_over = [&]() -> Result<bool> {
            VKFORMER_TRY(const auto finished, read_ints(*made->program, made->graph.states.finished));
            return std::ranges::all_of(finished, [](std::int32_t flag) { return flag != 0; });
        };
        VKFORMER_CHECK(write_on(*made->program, request.max_length - 1 - done, is_over));
        VKFORMER_TRY(utterances, collect(*made, request));
    }
    for (std::size_t i = 0; i < heard_; ++i) utterances[i].no_speech = no_speech[i];
    return utterances;
}

namespace {

/// What a search's best hypothesis of a window is, token by token: what each added to what its row was worth before.
/// worth: [rows, positions], of which the token that the search's step t chose is at first + t.
Utterance utterance_of(const BeamHypothesis& best, std::span<const float> worth, std::size_t positions,
                       std::size_t first, double length_penalty) {
    const auto tokens = static_cast<double>(best.tokens.size());
    Utterance utterance = {.tokens = best.tokens,
                           .log_probs = {},
                           .log_prob = best.score * std::pow(tokens, length_penalty),
                           .score = best.score};
    double before = 0;
    for (std::size_t t = 0; t < best.tokens.size(); ++t) {
        const double now = t < best.rows.size() ? worth[best.rows[t] * positions + first + t] : utterance.log_prob;
        utterance.log_probs.push_back(now - before);
        before = now;
    }
    return utterance;
}

}  // namespace

/// Behind what is given, of which the last token is read by the search's first step.
Result<std::vector<Utterance>> SpeechSession::search_for(const SpeechRequest& request) {
    VKFORMER_TRY(Search* const made, search());
    Program& program = *made->program;
    const graph::BeamStates& states = made->graph.states;
    const BeamLayout beams = beam_layout(layout());
    const auto position = static_cast<std::int32_t>(request.given.size()) - 1;
    const std::uint32_t steps = request.max_length - static_cast<std::uint32_t>(request.given.size());
    const BeamStart begin = beam_start(beams, 0, steps, {});
    VKFORMER_CHECK(fill_ints(program, states.tokens, request.given.back()));
    VKFORMER_CHECK(fill_ints(program, states.starts, position));
    VKFORMER_CHECK(fill_ints(program, made->graph.begins, position + 1));
    VKFORMER_CHECK(write_ints(program, states.parents, begin.parents));
    VKFORMER_CHECK(write_floats(program, states.running_scores, begin.running_scores));
    VKFORMER_CHECK(write_floats(program, states.final_scores, begin.final_scores));
    for (const graph::Value zero : {states.final_steps, states.final_rows, states.final_tokens})
        VKFORMER_CHECK(fill_ints(program, zero, 0));
    VKFORMER_CHECK(write_ints(program, states.state, begin.state));
    const auto is_over = [&]() -> Result<bool> {
        VKFORMER_TRY(const auto state, read_ints(program, states.state));
        return state[beams.batch] != 0;
    };
    VKFORMER_CHECK(write_on(program, steps, is_over));

    VKFORMER_TRY(const auto tokens, read_ints(program, states.token_history));
    VKFORMER_TRY(const auto parents, read_ints(program, states.parent_history));
    VKFORMER_TRY(const auto final_steps, read_ints(program, states.final_steps));
    VKFORMER_TRY(const auto final_rows, read_ints(program, states.final_rows));
    VKFORMER_TRY(const auto final_tokens, read_ints(program, states.final_tokens));
    VKFORMER_TRY(const auto final_scores, read_tensor<float>(program, states.final_scores));
    VKFORMER_TRY(const auto worth, read_tensor<float>(program, made->graph.worth));
    const BeamTables tables = {.token_history = tokens,
                               .parent_history = parents,
                               .final_steps = final_steps,
                               .final_rows = final_rows,
                               .final_tokens = final_tokens,
                               .final_scores = final_scores};
    std::vector<Utterance> utterances;
    for (std::size_t i = 0; i < heard_; ++i) {
        VKFORMER_TRY(const auto ranked, ranked_hypotheses(tables, beams, i));
        if (std::isnan(ranked[0].score)) return no_choice();
        utterances.push_back(utterance_of(ranked[0], worth, worth.size() / rows(), request.given.size(),
                                          options_.rules.generation.length_penalty));
    }
    return utterances;
}

/// For the least power of two that has room for as many tokens.
Result<SpeechSession::Aligner*> SpeechSession::aligner(std::size_t tokens) {
    constexpr std::size_t kLeast = 32;
    const std::vector<models::AlignmentHead>& heads = options_.alignment_heads;
    const auto len = static_cast<std::uint32_t>(
        std::min<std::size_t>(std::bit_ceil(std::max(tokens, kLeast)), options_.rules.generation.max_steps));
    std::shared_ptr<Aligner>& known = batch_->aligners[len];
    if (known) return known.get();
    std::vector<std::uint32_t> layers;
    for (const models::AlignmentHead& head : heads) layers.push_back(head.layer);
    std::ranges::sort(layers);
    layers.erase(std::ranges::unique(layers).begin(), layers.end());
    auto made = std::make_shared<Aligner>();
    VKFORMER_TRY(made->tokens, made->graph.input("decoder_input_ids", DType::i32, {batch_->windows, len}));
    models::DecodeLayout one_row = layout();
    one_row.beams = 1;
    VKFORMER_TRY(made->target, model_->add_known_target(made->graph, one_row, made->tokens, layers));
    const std::uint64_t has_heads = made->graph.shape(made->target.attention[0].weights)[1];
    for (const models::AlignmentHead& head : heads)
        if (head.head >= has_heads) return invalid("the decoder has no head " + std::to_string(head.head));
    VKFORMER_TRY(made->program, compile(std::move(made->graph)));
    known = std::move(made);
    return known.get();
}

namespace {

/// Rows [batch, len]: of each window what the decoder was given and wrote; `filler` behind.
std::vector<std::int32_t> target_rows(const AlignmentRequest& request, const Shape& shape, std::int32_t filler) {
    std::vector<std::int32_t> rows(shape.element_count(), filler);
    for (std::size_t i = 0; i < request.tokens.size(); ++i) {
        const auto row = std::span(rows).subspan(i * shape[1], shape[1]);
        const auto behind = std::ranges::copy(request.given, row.begin()).out;
        std::copy_n(request.tokens[i].begin(), std::min(request.tokens[i].size(), row.size() - request.given.size()),
                    behind);
    }
    return rows;
}

/// Cross-attention f32 [batch, heads, len, positions] of some layers.
struct LayerWeights {
    std::map<std::uint32_t, std::vector<float>> by_layer;
    Shape shape;
};

Result<LayerWeights> read_weights(Program& program, const models::EncoderDecoder::KnownTarget& target) {
    LayerWeights weights{.by_layer = {}, .shape = program.plan().graph.shape(target.attention[0].weights)};
    for (const auto& map : target.attention) {
        VKFORMER_TRY(weights.by_layer[map.layer], read_tensor<float>(program, map.weights));
    }
    return weights;
}

/// Where the tokens of a window begin. The query that writes a token is the one before it.
std::vector<std::uint32_t> begins_of_window(const LayerWeights& weights, const AlignmentRequest& request,
                                            std::size_t window, const SpeechSessionOptions& options) {
    const Shape& shape = weights.shape;
    const std::size_t tokens = request.tokens[window].size();
    const std::size_t positions = std::min<std::size_t>(request.positions[window], shape[3]);
    std::vector<float> own;  // [heads, tokens, positions]
    own.reserve(options.alignment_heads.size() * tokens * positions);
    for (const auto& [layer, head] : options.alignment_heads)
        for (std::size_t t = 0; t < tokens; ++t) {
            const std::size_t row = (window * shape[1] + head) * shape[2] + request.given.size() - 1 + t;
            const auto values = std::span(weights.by_layer.at(layer)).subspan(row * shape[3], positions);
            own.insert(own.end(), values.begin(), values.end());
        }
    return token_positions({own, options.alignment_heads.size(), tokens, positions}, options.median_width);
}

}  // namespace

Result<void> SpeechSession::check(const AlignmentRequest& request) const {
    if (heard_ == 0) return invalid("nothing was heard yet");
    if (request.given.empty() || options_.alignment_heads.empty())
        return invalid("the decoder is given nothing, or no heads are known");
    if (std::ranges::find(request.positions, 0u) != request.positions.end()) return invalid("a window without sound");
    if (request.tokens.size() != heard_ || request.positions.size() != heard_)
        return invalid("texts of " + std::to_string(request.tokens.size()) + " windows, " + std::to_string(heard_) +
                       " were heard");
    for (const auto& tokens : request.tokens)
        if (request.given.size() + tokens.size() > options_.rules.generation.max_steps + std::size_t{1})
            return invalid("what was written down is longer than the model's positions");
    return {};
}

Result<std::vector<std::vector<std::uint32_t>>> SpeechSession::align(const AlignmentRequest& request) {
    VKFORMER_CHECK(check(request));
    const std::size_t most = std::ranges::max(request.tokens, {}, &std::vector<std::int32_t>::size).size();
    if (most == 0) return std::vector<std::vector<std::uint32_t>>(heard_);
    VKFORMER_TRY(Aligner* const made, aligner(request.given.size() + most - 1));
    Program& program = *made->program;
    VKFORMER_CHECK(backend_->check_wanted());
    VKFORMER_CHECK(
        write_ints(program, made->tokens,
                   target_rows(request, program.plan().graph.shape(made->tokens), options_.rules.generation.eos)));
    VKFORMER_CHECK(program.submit());
    VKFORMER_TRY(const LayerWeights weights, read_weights(program, made->target));
    std::vector<std::vector<std::uint32_t>> all(heard_);
    for (std::size_t i = 0; i < heard_; ++i)
        if (!request.tokens[i].empty()) all[i] = begins_of_window(weights, request, i, options_);
    return all;
}

}  // namespace vkformer::decoding
