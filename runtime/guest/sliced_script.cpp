// SPDX-License-Identifier: MIT
#include "guest/sliced_script.hpp"

#include <algorithm>
#include <string>

#include "core/try.hpp"
#include "decoding/decoder_steps.hpp"
#include "decoding/steps.hpp"
#include "guest/sliced_beams.hpp"

namespace vkformer::guest {
namespace {

using graph::Plan;
using graph::Value;
using vulkan::VulkanProgram;
using vulkan::VulkanStore;
using Job = SlicedSession::Job;
using Update = Job::Update;

constexpr std::uint32_t kSmallestChunk = 16;
constexpr std::uint32_t kLargestChunk = 4096;  // what vkCmdUpdateBuffer takes, 64 KiB, is four times that

Error invalid(std::string message) { return {ErrorCode::InvalidArgument, std::move(message)}; }

Result<void> check_tokens(std::span<const std::int32_t> tokens, std::uint64_t vocab) {
    if (tokens.empty()) return invalid("a sequence needs at least one token");
    for (const std::int32_t token : tokens)
        if (token < 0 || static_cast<std::uint64_t>(token) >= vocab)
            return invalid("token " + std::to_string(token) + " is unknown, the model has 0 to " +
                           std::to_string(vocab - 1) + "; is the tokenizer the model's?");
    return {};
}

/// What both kinds of model have: parts that are compiled in order.
class PartsScript : public SlicedSession::Script {
public:
    std::vector<const Plan*> plans() const override {
        std::vector<const Plan*> plans;
        for (const Part* part : parts()) plans.push_back(&part->plan);
        return plans;
    }
    Result<void> compile(vulkan::VulkanBackend& backend, std::shared_ptr<VulkanStore> weights,
                         std::shared_ptr<VulkanStore> states, const NodesDone& nodes_done) override {
        std::uint32_t nodes = 0;
        for (Part* part : parts()) {
            nodes += static_cast<std::uint32_t>(part->plan.graph.nodes().size());
            VKFORMER_TRY(part->program, backend.compile_program(std::move(part->plan), weights, states));
            nodes_done(nodes);
        }
        return {};
    }
    std::vector<const VulkanProgram*> programs() const override {
        std::vector<const VulkanProgram*> programs;
        for (const Part* part : parts()) programs.push_back(part->program.get());
        return programs;
    }

private:
    virtual std::vector<Part*> parts() const = 0;
};

/// Of a step without beams: where its token lies.
std::vector<vulkan::Slice> chosen_token(const Part& step, Value history, std::uint32_t index) {
    vulkan::Slice slice = step.slice(history);
    slice.offset += index * sizeof(std::int32_t);
    slice.bytes = sizeof(std::int32_t);
    return {slice};
}

/// Chunks of the prompt, then steps; of a search, between them the copying of the prompt's keys and values to all beams.
class DecoderScript final : public PartsScript {
public:
    static Result<std::unique_ptr<SlicedSession::Script>> create(const models::Decoder& model,
                                                                 std::span<const std::int32_t> ends,
                                                                 const SlicedOptions& options) {
        const std::uint32_t most = model.config().max_positions;
        decoding::DecoderSessionOptions layout = {.context = options.context,
                                                  .dtype = options.dtype,
                                                  .weights = options.weights,
                                                  .cache = options.cache,
                                                  .sample = options.sample};
        if (layout.context == 0) layout.context = std::min(most, decoding::DecoderSessionOptions::kDefaultContext);
        if (layout.context > most)
            return invalid("a context of " + std::to_string(layout.context) +
                           " tokens was asked for, the model takes at most " + std::to_string(most));
        if (options.chunk == 0 || options.chunk > kLargestChunk)
            return invalid("a chunk has 1 to " + std::to_string(kLargestChunk) + " tokens, not " +
                           std::to_string(options.chunk));
        const bool has_beams = options.beams.beams != 1;
        if (has_beams) {
            VKFORMER_CHECK(decoding::check_beams(options.beams, layout));
            VKFORMER_CHECK(decoding::check_ends(options.beams, ends.size()));
        }
        auto script = std::unique_ptr<DecoderScript>(new DecoderScript(model, layout.context));
        std::vector<std::uint32_t> lengths{std::min(options.chunk, kSmallestChunk)};
        if (options.chunk > kSmallestChunk) lengths.push_back(options.chunk);
        for (const std::uint32_t len : lengths) {
            Chunk& chunk = *script->chunks_.emplace_back(std::make_unique<Chunk>());
            chunk.len = len;
            VKFORMER_TRY(chunk.graph,
                         decoding::chunk_graph(model, layout, len, false, has_beams ? options.beams.beams : 0));
            chunk.plan = graph::make_plan(std::move(chunk.graph.graph));
        }
        Step& step = *script->step_;
        if (has_beams) {
            const std::size_t further_ends = ends.empty() ? 0 : ends.size() - 1;
            VKFORMER_TRY(step.search,
                         decoding::beam_step_graph(model, layout, options.beams, ends.empty() ? -1 : ends.front(),
                                                   static_cast<std::uint32_t>(further_ends)));
            step.plan = graph::make_plan(std::move(step.search.graph));
            script->beams_.emplace(options.beams.beams, layout.context, ends);
            script->spread_ = std::make_unique<Spread>();
            VKFORMER_TRY(script->spread_->graph, decoding::spread_graph(model, layout, options.beams));
            script->spread_->plan = graph::make_plan(std::move(script->spread_->graph.graph));
        } else {
            VKFORMER_TRY(step.graph, decoding::step_graph(model, layout));
            step.plan = graph::make_plan(std::move(step.graph.graph));
        }
        return std::unique_ptr<SlicedSession::Script>(std::move(script));
    }

    std::vector<vulkan::Slice> results(std::uint32_t index) const override {
        return beams_ ? beams_->results(*step_, step_->search.states, index)
                      : chosen_token(*step_, step_->graph.states.history, index);
    }
    std::uint32_t result_words() const noexcept override { return beams_ ? beams_->result_words() : 1; }
    Result<SlicedSession::Outcome> outcome(std::uint32_t index, std::span<const std::int32_t> records) const override {
        if (beams_) return beams_->outcome(index, records);
        return SlicedSession::Outcome{.tokens = {records[index]}};
    }
    bool caches_answer() const noexcept override { return !beams_; }
    std::uint32_t capacity() const noexcept override { return context_; }
    std::uint32_t longest_warm_up() const noexcept override {
        std::uint32_t tokens = 1;
        for (const auto& chunk : chunks_) tokens += chunk->len;
        return std::min(tokens, context_);
    }

    Result<std::uint32_t> room_for(std::span<const std::int32_t> tokens) const override {
        VKFORMER_CHECK(check_tokens(tokens, model_->config().vocab_size));
        if (tokens.size() > context_)
            return invalid("the prompt has " + std::to_string(tokens.size()) + " tokens, the context holds " +
                           std::to_string(context_));
        return context_ - static_cast<std::uint32_t>(tokens.size()) + 1;
    }

    std::uint32_t begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> known,
                        std::uint32_t max_tokens, std::uint64_t seed, std::uint32_t draws) override {
        max_tokens_ = max_tokens;
        is_spread_ = tokens.size() == 1;
        prompt_.assign(tokens.begin(), tokens.end());
        const auto read = std::span(prompt_).first(prompt_.size() - 1);  // the last one is the first step's
        position_ = static_cast<std::uint32_t>(std::ranges::mismatch(read, known).in1 - read.begin());
        steps_ = 0;
        random_ = {static_cast<std::int32_t>(seed & 0xFFFFFFFFu), static_cast<std::int32_t>(seed >> 32),
                   static_cast<std::int32_t>(draws)};
        return position_;
    }

    Job next() override {
        if (position_ + 1 < prompt_.size()) return next_chunk();
        return beams_ && !is_spread_ ? spread() : next_step();
    }

private:
    struct Chunk : Part {
        decoding::ChunkGraph graph;
        std::uint32_t len = 0;
    };
    struct Spread : Part {
        decoding::SpreadGraph graph;
    };
    struct Step : Part {
        decoding::DecoderStepGraph graph;  // one of the two
        decoding::BeamStepGraph search;
    };

    DecoderScript(const models::Decoder& model, std::uint32_t context) : model_(&model), context_(context) {}

    std::vector<Part*> parts() const override {
        std::vector<Part*> parts;
        for (const auto& chunk : chunks_) parts.push_back(chunk.get());
        if (spread_) parts.push_back(spread_.get());
        parts.push_back(step_.get());
        return parts;
    }

    /// Tokens behind the prompt's end fill the chunk up: their keys lie where nothing looks before a step writes them anew.
    Job next_chunk() {
        const auto rest = std::span(prompt_).first(prompt_.size() - 1).subspan(position_);
        const Chunk& chunk = rest.size() <= chunks_.front()->len ? *chunks_.front() : *chunks_.back();
        const auto part = rest.first(std::min<std::size_t>(rest.size(), chunk.len));
        std::vector<std::int32_t> tokens(chunk.len, 0);
        std::ranges::copy(part, tokens.begin());
        Job job{.program = chunk.program.get()};
        job.updates.push_back({chunk.slice(chunk.graph.tokens), std::move(tokens)});
        job.updates.push_back({chunk.slice(chunk.graph.starts), {static_cast<std::int32_t>(position_)}});
        position_ += static_cast<std::uint32_t>(part.size());
        job.computed_prompt = position_;
        return job;
    }

    /// All of the prompt, for a chunk may have filled up the next row's beginning.
    Job spread() {
        is_spread_ = true;
        const auto read = static_cast<std::int32_t>(prompt_.size() - 1);
        Job job{.program = spread_->program.get(), .computed_prompt = position_};
        job.updates.push_back({spread_->slice(spread_->graph.parents), beams_->rows(0)});
        job.updates.push_back({spread_->slice(spread_->graph.lengths), beams_->rows(read)});
        return job;
    }

    Job next_step() {
        const auto last = static_cast<std::uint32_t>(prompt_.size() - 1);
        if (beams_) {
            Job job{.program = step_->program.get(), .result = steps_, .computed_prompt = last + 1};
            if (steps_ == 0) begin_search(job);
            ++steps_;
            return job;
        }
        Job job{.program = step_->program.get(), .result = last + steps_, .tokens = 1, .computed_prompt = last + 1};
        if (steps_ == 0) {
            const graph::GreedyStates& states = step_->graph.states;
            job.updates.push_back({step_->slice(states.tokens), {prompt_.back()}});
            job.updates.push_back({step_->slice(states.starts), {static_cast<std::int32_t>(last)}});
            job.updates.push_back({step_->slice(states.finished), {0}});
            if (step_->graph.random) job.updates.push_back({step_->slice(step_->graph.random), random_});
        }
        ++steps_;
        return job;
    }

    void begin_search(Job& job) const {
        const auto last = static_cast<std::int32_t>(prompt_.size() - 1);
        beams_->begin(*step_, step_->search.states, prompt_.back(), last, max_tokens_, job.updates);
        job.updates.push_back({step_->slice(step_->search.shared), beams_->rows(last)});
    }

    const models::Decoder* model_;
    std::uint32_t context_;
    std::optional<SlicedBeams> beams_;
    std::vector<std::unique_ptr<Chunk>> chunks_;  // the smaller first
    std::unique_ptr<Spread> spread_;              // null without beams
    std::unique_ptr<Step> step_ = std::make_unique<Step>();
    std::vector<std::int32_t> prompt_, random_;
    std::uint32_t position_ = 0, steps_ = 0, max_tokens_ = 0;  // tokens read, steps handed out
    bool is_spread_ = false;
};

/// The encoder, then steps of the decoder.
class EncoderDecoderScript final : public PartsScript {
public:
    static Result<std::unique_ptr<SlicedSession::Script>> create(const models::EncoderDecoder& model,
                                                                 const models::GenerationConfig& generation,
                                                                 const SlicedOptions& options) {
        const auto limits = model.limits();
        auto script = std::unique_ptr<EncoderDecoderScript>(new EncoderDecoderScript(model, generation));
        models::GenerationConfig& g = script->generation_;
        g.beams = options.beams.beams;
        g.length_penalty = static_cast<double>(options.beams.length_penalty);
        g.early_stopping = options.beams.early_stopping;
        if (options.context > 0) g.max_steps = options.context;
        if (g.max_steps == 0 || g.max_steps > limits.target_len)
            return invalid("an answer of " + std::to_string(g.max_steps) +
                           " tokens was asked for (context), the model has positions for 1 to " +
                           std::to_string(limits.target_len));
        if (g.decoder_start < 0) return invalid("decoder_start_token_id is missing");
        if (options.source_capacity == 0 || options.source_capacity > std::min<std::uint64_t>(limits.source_len, 16384))
            return invalid("a source of " + std::to_string(options.source_capacity) +
                           " tokens was asked for (source_capacity), the model takes 1 to " +
                           std::to_string(limits.source_len));
        if (options.sample.temperature != 0)
            return invalid("an encoder–decoder does not sample: temperature must be 0");
        if (g.beams < 1 || g.beams > graph::kMaxBeams)
            return invalid("a beam search with " + std::to_string(g.beams) + " beams was asked for, it takes 2 to " +
                           std::to_string(graph::kMaxBeams) + "; 1: none");
        if (g.beams > 1) script->beams_.emplace(g.beams, g.max_steps, std::span<const std::int32_t>());
        const models::DecodeLayout layout = {
            .beams = g.beams, .source_len = options.source_capacity, .max_steps = g.max_steps, .dtype = options.dtype};
        VKFORMER_TRY(script->encoder_->graph, decoding::encoder_graph(model, layout));
        VKFORMER_TRY(script->step_->graph, decoding::step_graph(model, layout, g));
        script->encoder_->plan = graph::make_plan(std::move(script->encoder_->graph.graph));
        script->step_->plan = graph::make_plan(std::move(script->step_->graph.graph));
        script->source_.assign(options.source_capacity, 0);
        return std::unique_ptr<SlicedSession::Script>(std::move(script));
    }

    std::vector<vulkan::Slice> results(std::uint32_t index) const override {
        return beams_ ? beams_->results(*step_, step_->graph.beam, index)
                      : chosen_token(*step_, step_->graph.greedy.history, index);
    }
    std::uint32_t result_words() const noexcept override { return beams_ ? beams_->result_words() : 1; }
    Result<SlicedSession::Outcome> outcome(std::uint32_t index, std::span<const std::int32_t> records) const override {
        if (beams_) return beams_->outcome(index, records);
        return SlicedSession::Outcome{.tokens = {records[index]}};
    }
    bool caches_answer() const noexcept override { return !beams_; }
    std::uint32_t capacity() const noexcept override { return generation_.max_steps; }
    std::uint32_t longest_warm_up() const noexcept override { return 1; }

    Result<std::uint32_t> room_for(std::span<const std::int32_t> tokens) const override {
        VKFORMER_CHECK(check_tokens(tokens, model_->limits().source_vocab));
        if (tokens.size() > source_.size())
            return invalid("the source has " + std::to_string(tokens.size()) + " tokens, the session holds " +
                           std::to_string(source_.size()) + " (source_capacity)");
        return generation_.max_steps;
    }

    std::uint32_t begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t>, std::uint32_t max_tokens,
                        std::uint64_t, std::uint32_t) override {
        max_tokens_ = max_tokens;
        std::ranges::fill(source_, 0);
        std::ranges::copy(tokens, source_.begin());
        source_len_ = static_cast<std::uint32_t>(tokens.size());
        is_encoded_ = false;
        steps_ = 0;
        return 0;
    }

    Job next() override {
        if (!is_encoded_) {
            is_encoded_ = true;
            Job job{.program = encoder_->program.get(), .computed_prompt = source_len_};
            job.updates.push_back({encoder_->slice(encoder_->graph.source.tokens), source_});
            job.updates.push_back(
                {encoder_->slice(encoder_->graph.source.lengths), {static_cast<std::int32_t>(source_len_)}});
            return job;
        }
        Job job{.program = step_->program.get(),
                .result = steps_,
                .tokens = beams_ ? 0u : 1u,
                .computed_prompt = source_len_};
        if (steps_ == 0) begin_answer(job);
        ++steps_;
        return job;
    }

private:
    struct Encoder : Part {
        decoding::EncoderGraph graph;
    };
    struct Step : Part {
        decoding::StepGraph graph;
    };

    EncoderDecoderScript(const models::EncoderDecoder& model, const models::GenerationConfig& generation)
        : model_(&model), generation_(generation) {}

    std::vector<Part*> parts() const override { return {encoder_.get(), step_.get()}; }

    void begin_answer(Job& job) const {
        if (step_->graph.source_tokens) {
            std::vector<std::int32_t> source = source_;
            std::fill(source.begin() + source_len_, source.end(), -1);
            job.updates.push_back({step_->slice(step_->graph.source_tokens), std::move(source)});
        }
        if (beams_) {
            beams_->begin(*step_, step_->graph.beam, generation_.decoder_start, 0, max_tokens_, job.updates);
            return;
        }
        const graph::GreedyStates& states = step_->graph.greedy;
        job.updates.push_back({step_->slice(states.tokens), {generation_.decoder_start}});
        job.updates.push_back({step_->slice(states.starts), {0}});
        job.updates.push_back({step_->slice(states.finished), {0}});
    }

    const models::EncoderDecoder* model_;
    models::GenerationConfig generation_;
    std::unique_ptr<Encoder> encoder_ = std::make_unique<Encoder>();
    std::unique_ptr<Step> step_ = std::make_unique<Step>();
    std::vector<std::int32_t> source_;  // padded to the capacity
    std::optional<SlicedBeams> beams_;
    std::uint32_t source_len_ = 0, steps_ = 0, max_tokens_ = 0;
    bool is_encoded_ = false;
};

}  // namespace

Result<std::unique_ptr<SlicedSession::Script>> make_script(const SlicedModel& model, const SlicedOptions& options) {
    if (model.decoder) return DecoderScript::create(*model.decoder, model.end_tokens, options);
    return EncoderDecoderScript::create(*model.encoder_decoder, model.generation, options);
}

}  // namespace vkformer::guest
