// SPDX-License-Identifier: MIT
#include "decoding/speech_segments.hpp"

#include <cmath>

#include "decoding/speech_session.hpp"
#include "models/open_model.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using decoding::cut_into_segments;
using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t kFirstTimeToken = 100;
Tokens with_times(std::initializer_list<std::int32_t> tokens) { return tokens; }

void check_segments(const Tokens& tokens, std::uint32_t frames, const std::vector<decoding::SpeechSegment>& expected,
                    std::uint32_t advance) {
    const auto found = cut_into_segments(tokens, kFirstTimeToken, frames);
    CHECK(found.advance == advance);
    REQUIRE(found.segments.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK(found.segments[i].tokens == expected[i].tokens);
        CHECK(found.segments[i].start == expected[i].start);
        CHECK(found.segments[i].end == expected[i].end);
    }
}

}  // namespace

TEST_CASE("tokens are cut where two times stand side by side", "[decoding][speech]") {
    // two whole segments, and the beginning of a third, which the next window hears again
    check_segments(with_times({100, 1, 2, 110, 110, 3, 120, 120, 4}), 60,
                   {{0, 20, {100, 1, 2, 110}}, {20, 40, {110, 3, 120, 120}}}, 40);
    // a single time at the end: nobody speaks behind it
    check_segments(with_times({100, 1, 110, 110, 3, 125}), 60, {{0, 20, {100, 1, 110}}, {20, 50, {110, 3, 125}}}, 60);
    // no pair: one segment, up to its last time
    check_segments(with_times({102, 1, 2, 115}), 60, {{0, 30, {102, 1, 2, 115}}}, 60);
    check_segments(with_times({100, 1, 2}), 61, {{0, 60, {100, 1, 2}}}, 61);
    check_segments(with_times({1, 2}), 7, {{0, 6, {1, 2}}}, 7);
    check_segments(with_times({100, 100}), 60, {{0, 0, {100, 100}}}, 1);  // goes on nevertheless
    check_segments({}, 60, {}, 60);
    check_segments({}, 0, {}, 1);
}

TEST_CASE("the text before ends each segment in one time", "[decoding][speech]") {
    const std::vector<Tokens> segments = {{100, 1, 110, 110}, {110, 2, 125}, {125, 125}};
    CHECK(decoding::previous_text(segments, kFirstTimeToken, 20) == Tokens{100, 1, 110, 110, 2, 125, 125, 125});
    CHECK(decoding::previous_text(segments, kFirstTimeToken, 3) == Tokens{125, 125, 125});
    CHECK(decoding::previous_text({}, kFirstTimeToken, 3).empty());
}

TEST_CASE("what repeats itself can be compressed", "[decoding][speech]") {
    CHECK(decoding::compression_ratio({}, 51865) == 0);
    // zlib.compress() of the same bytes, two for each token: 200 / 13, and 12 / 20 where nothing repeats itself
    CHECK(std::abs(decoding::compression_ratio(Tokens(100, 513), 51865) - 200.0 / 13) < 1e-12);
    CHECK(std::abs(decoding::compression_ratio(Tokens{1, 900, 77, 4000, 31, 20000}, 51865) - 12.0 / 20) < 1e-12);
    CHECK(decoding::compression_ratio(Tokens(100, 5), 200) > 7);  // one byte is enough
}

TEST_CASE("a speech session says what does not fit", "[decoding][speech][errors]") {
    graph::Backend& backend = *test_backends().front();
    const auto loaded = must(models::load_speech_model(goldens_dir() / "speech/whisper_times_414"));
    decoding::SpeechSessionOptions options;
    options.rules.generation = {.decoder_start = 5, .eos = 6, .pad = 6, .max_steps = 60};
    auto session = must(decoding::SpeechSession::create(backend, *loaded.model, options));
    const auto message = [](const auto& result) {
        REQUIRE_FALSE(result);
        return result.error().message;
    };
    CHECK(message(session.write_down({.given = {5}, .max_length = 9})).find("nothing was heard") != std::string::npos);
    CHECK(message(session.likeliest(Tokens{1})).find("nothing was heard") != std::string::npos);
    const auto limits = loaded.model->limits();
    const std::vector<std::vector<float>> windows(1, std::vector<float>(limits.source_len * limits.source_features));
    must(session.hear(windows));
    CHECK(message(session.hear(std::vector(2, windows[0]))).find("expected 1 to 1") != std::string::npos);
    CHECK(message(session.hear(std::vector(1, std::vector<float>(3)))).find("3 features") != std::string::npos);
    CHECK(message(session.write_down({.given = {4}, .max_length = 9})).find("start token") != std::string::npos);
    CHECK(message(session.write_down({.given = {5, 1}, .max_length = 2})).find("2 tokens") != std::string::npos);
    CHECK(message(session.write_down({.given = {5, 100'000}, .max_length = 9})).find("100000") != std::string::npos);
    CHECK(message(session.likeliest(Tokens{})).find("no choices") != std::string::npos);
    CHECK(must(session.write_down({.given = {5, 1}, .max_length = 9}))[0].tokens.size() <= 7);

    options.rules.generation.rules.banned_first = {100'000};
    CHECK(message(decoding::SpeechSession::create(backend, *loaded.model, options)).find("begin_suppress_tokens") !=
          std::string::npos);
    const auto reads = must(models::load_encoder_decoder(goldens_dir() / "encoder_decoders/t5_d22_relu"));
    CHECK(message(decoding::SpeechSession::create(backend, *reads, options)).find("does not hear") !=
          std::string::npos);
}

}  // namespace vkformer::tests
