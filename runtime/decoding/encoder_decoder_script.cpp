// SPDX-License-Identifier: MIT
#include "decoding/encoder_decoder_script.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "core/try.hpp"
#include "decoding/token_rules.hpp"

namespace vkformer::decoding {

Result<void> check_generation(const models::EncoderDecoder& model, const models::GenerationConfig& g) {
    const auto limits = model.limits();
    const auto invalid = [](std::string message) { return Error{ErrorCode::InvalidArgument, std::move(message)}; };
    if (limits.source_features > 0) return invalid("the model hears, it does not read");
    if (g.beams == 0 || g.beams > graph::kMaxBeams)
        return invalid("num_beams is " + std::to_string(g.beams) + ", must be 1 to " +
                       std::to_string(graph::kMaxBeams));
    if (g.decoder_start < 0) return invalid("decoder_start_token_id is missing");
    if (g.max_steps == 0 || g.max_steps > limits.target_len)
        return invalid("the generation may take " + std::to_string(g.max_steps) +
                       " steps, the model has positions for 1 to " + std::to_string(limits.target_len) +
                       "; set max_length accordingly");
    VKFORMER_CHECK(check_token("decoder_start_token_id", g.decoder_start, limits.target_vocab));
    if (g.eos >= 0) VKFORMER_CHECK(check_token("eos_token_id", g.eos, limits.target_vocab));
    if (g.pad >= 0) VKFORMER_CHECK(check_token("pad_token_id", g.pad, limits.target_vocab));
    return check_rules(g.rules, limits.target_vocab);
}

Result<void> check_prefix(std::span<const std::int32_t> prefix, const models::GenerationConfig& g,
                          std::uint64_t target_vocab) {
    if (prefix.empty()) return {};
    if (prefix.size() >= g.max_steps)
        return Error{ErrorCode::InvalidArgument, "its prefix has " + std::to_string(prefix.size()) +
                                                     " tokens, and the target has at most " +
                                                     std::to_string(g.max_steps)};
    for (const std::int32_t token : prefix) VKFORMER_CHECK(check_token("its prefix", token, target_vocab));
    if (g.rules.banned_first.empty()) return {};
    return Error{ErrorCode::UnsupportedConfig,
                 "generation_config.json has \"begin_suppress_tokens\", which are not done behind a prefix: take them "
                 "out of the file"};
}

Result<void> check_start(const Source& source, const models::GenerationConfig& g, std::uint64_t target_vocab) {
    const auto invalid = [](std::string message) { return Error{ErrorCode::InvalidArgument, std::move(message)}; };
    if (source.start != -1) VKFORMER_CHECK(check_token("its start", source.start, target_vocab));
    if (source.first == -1) return {};
    if (!source.prefix.empty()) return invalid("its first token and its prefix cannot both be given");
    if (g.rules.forced_first < 0)
        return invalid("its first token is given, and the model is not forced to begin with any");
    return check_token("its first token", source.first, target_vocab);
}

namespace {

/// The token that comes first, whatever the model thinks of it; −1: there is none.
std::int32_t forced_first(const Source& source, const models::GenerationConfig& generation) {
    if (!source.prefix.empty()) return -1;
    return source.first >= 0 ? source.first : generation.rules.forced_first;
}

}  // namespace

TargetStart target_start(const Source& source, const models::GenerationConfig& generation, std::uint32_t max_steps) {
    const std::int32_t first = forced_first(source, generation);
    if (first < 0) return {.given = source.prefix.size()};
    return {.given = 1, .forced = 1, .is_whole = first == generation.eos || max_steps == 1};
}

void EncoderDecoderScript::begin(std::span<const Source> sources, std::uint32_t max_steps) {
    const std::size_t len = layout_.source_len;
    tokens_.assign(layout_.batch * len, 0);
    lengths_.clear();
    mask_.clear();
    if (layout_.masked_source)
        mask_.assign(layout_.batch * len, std::bit_cast<std::int32_t>(-std::numeric_limits<float>::infinity()));
    for (std::size_t b = 0; b < layout_.batch; ++b) {
        const Source& source = sources[std::min(b, sources.size() - 1)];
        std::ranges::copy(source.tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(b * len));
        lengths_.push_back(static_cast<std::int32_t>(source.tokens.size()));
        for (std::size_t i = 0; layout_.masked_source && i < source.tokens.size(); ++i)
            if (source.visible.empty() || source.visible[i]) mask_[b * len + i] = std::bit_cast<std::int32_t>(0.0f);
    }
    source_len_ = static_cast<std::uint32_t>(sources[0].tokens.size());
    start_ = target_start(sources[0], generation_, max_steps);
    given_.assign((1 + start_.given) * layout_.batch, 0);
    max_steps_ = start_.is_whole ? 1 : max_steps - static_cast<std::uint32_t>(start_.given - start_.forced);
    handed_steps_ = 0;
    handed_given_ = 0;
    answers_.assign(sources.size(), {});
    for (std::size_t b = 0; b < layout_.batch; ++b) {
        const Source& source = sources[std::min(b, sources.size() - 1)];
        given_[b] = source.start >= 0 ? source.start : generation_.decoder_start;
        for (std::size_t i = 0; i < source.prefix.size(); ++i) given_[(1 + i) * layout_.batch + b] = source.prefix[i];
        if (start_.forced == 0) continue;
        std::int32_t& first = given_[layout_.batch + b];
        first = forced_first(source, generation_);
        // A last token that is forced comes before a first one.
        if (generation_.max_steps == 1 && generation_.rules.forced_last >= 0) first = generation_.rules.forced_last;
    }
    is_running_ = true;
    is_done_ = hands_out_steps_ = is_encoded_ = false;
}

void EncoderDecoderScript::begin(Sequence sequence) {
    const Source source = {.tokens = sequence.prompt};
    const std::uint32_t room = layout_.max_steps;
    begin({&source, 1}, sequence.max_tokens > 0 ? std::min(sequence.max_tokens, room) : room);
}

std::span<const std::int32_t> EncoderDecoderScript::tokens() const noexcept {
    if (answers_.empty()) return {};
    return answers_[0].tokens;
}

Result<std::uint32_t> EncoderDecoderScript::room_for(std::span<const std::int32_t> prompt) const {
    VKFORMER_CHECK(check_tokens(prompt, model_->limits().source_vocab));
    if (prompt.size() > layout_.source_len)
        return Error{ErrorCode::InvalidArgument, "the source has " + std::to_string(prompt.size()) +
                                                     " tokens, the session holds " +
                                                     std::to_string(layout_.source_len) + " (source_capacity)"};
    return layout_.max_steps;
}

Result<void> EncoderDecoderScript::make_parts() {
    if (step_) return {};
    auto encoder = std::make_unique<Encoder>();
    auto step = std::make_unique<Step>();
    VKFORMER_TRY(encoder->graph, encoder_graph(*model_, layout_));
    VKFORMER_TRY(step->graph, step_graph(*model_, layout_, generation_));
    encoder->plan = plan(std::move(encoder->graph.graph));
    step->plan = plan(std::move(step->graph.graph));
    if (layout_.beams > 1)
        choice_ = std::make_unique<BeamChoice>(step->graph.beam, beam_layout(layout_), std::span<const std::int32_t>());
    else
        choice_ = std::make_unique<GreedyChoice>(step->graph.greedy, layout_.batch, generation_.eos);
    encoder_ = std::move(encoder);
    step_ = std::move(step);
    return {};
}

Result<std::vector<Part*>> EncoderDecoderScript::parts() {
    VKFORMER_CHECK(make_parts());
    return std::vector<Part*>{encoder_.get(), step_.get()};
}

Result<std::optional<Job>> EncoderDecoderScript::next(std::uint32_t most) {
    if (!is_running_) return std::optional<Job>();
    VKFORMER_CHECK(make_parts());
    if (!hands_out_steps_) {
        hands_out_steps_ = true;
        return std::optional(encoder_job());
    }
    // What stands before a given token is read by a step whose choice nobody looks at: the next one begins anew. That of a forced token
    // is one of the sequence's all the same.
    if (handed_given_ < start_.given) {
        Job job = {.kind = start_.forced > 0 ? Job::Kind::step : Job::Kind::prompt, .part = step_.get(), .len = 1};
        if (handed_given_ == 0) write_source(job.writes);
        choice_->begin(given_at(handed_given_), job.writes);
        ++handed_given_;
        handed_steps_ = static_cast<std::uint32_t>(start_.forced);
        return std::optional(std::move(job));
    }
    if (handed_steps_ == max_steps_) return std::optional<Job>();
    Job job = {.part = step_.get(), .runs = std::min(most, max_steps_ - handed_steps_), .first_step = handed_steps_};
    if (handed_steps_ == start_.forced) {
        if (start_.given == 0) write_source(job.writes);
        choice_->begin(given_at(start_.given), job.writes);
    }
    handed_steps_ += job.runs;
    return std::optional(std::move(job));
}

Job EncoderDecoderScript::encoder_job() const {
    Job job = {.kind = Job::Kind::prompt, .part = encoder_.get(), .len = layout_.source_len};
    const models::SourceTensors& source = encoder_->graph.source;
    job.writes.push_back({source.tokens, tokens_});
    job.writes.push_back(layout_.masked_source ? Write{source.mask, mask_} : Write{source.lengths, lengths_});
    return job;
}

/// For the rules that look at it.
void EncoderDecoderScript::write_source(std::vector<Write>& writes) const {
    if (!step_->graph.source_tokens) return;
    std::vector<std::int32_t> sources = tokens_;
    for (std::size_t b = 0; b < layout_.batch; ++b)
        std::fill_n(sources.begin() + static_cast<std::ptrdiff_t>(b * layout_.source_len) + lengths_[b],
                    layout_.source_len - static_cast<std::size_t>(lengths_[b]), -1);
    writes.push_back({step_->graph.source_tokens, std::move(sources)});
}

ChoiceStart EncoderDecoderScript::given_at(std::size_t position) const {
    return {.tokens = std::span(given_).subspan(position * layout_.batch, layout_.batch),
            .position = static_cast<std::int32_t>(position),
            .max_steps = max_steps_,
            .counted = position == start_.given ? static_cast<std::uint32_t>(start_.forced) : 0};
}

void EncoderDecoderScript::end(bool begins) {
    is_running_ = false;
    is_done_ = true;
    if (!begins) return;
    for (std::size_t i = 0; i < answers_.size(); ++i) {
        answers_[i].tokens.insert(answers_[i].tokens.begin(), forced(i));
        for (Answer& next : answers_[i].further) next.tokens.insert(next.tokens.begin(), forced(i));
    }
}

Result<void> EncoderDecoderScript::take(const Job& job, Records& records) {
    if (job.kind == Job::Kind::prompt) {
        is_encoded_ = true;
        return {};
    }
    if (!is_running_) return {};
    const bool is_search = layout_.beams > 1;  // whose tokens are known at its end
    if (job.first_step < start_.forced) {
        for (std::size_t i = 0; i < answers_.size(); ++i) {
            if (!is_search) answers_[i].tokens = {forced(i)};
            if (is_search && start_.is_whole) answers_[i].score = 0.0f;
        }
        if (start_.is_whole) end(is_search);
        return {};
    }
    const auto is_over =
        choice_->take(job.first_step, job.first_step + job.runs, max_steps_, records, std::span(answers_));
    if (is_over && !*is_over) return {};
    end(is_search && start_.forced > 0 && is_over);
    return is_over ? Result<void>() : Result<void>(is_over.error());
}

}  // namespace vkformer::decoding
