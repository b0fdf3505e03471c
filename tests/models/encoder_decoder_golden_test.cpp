// SPDX-License-Identifier: MIT
/// BART, mBART, M2M100, PEGASUS and T5 against Hugging Face: forward passes and generations of tests/goldens/encoder_decoders.
#include <cstdlib>

#include "decoding/generate_case.hpp"
#include "models/model_case.hpp"
#include "models/open_model.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"

namespace vkformer::tests {
namespace {

using models::SourceMask;

const std::filesystem::path kEncoderDecoders = goldens_dir() / "encoder_decoders";

std::vector<std::string> case_names() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(kEncoderDecoders))
        names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

/// A software Vulkan device compiles shaders anew for most entries, seconds each, so devices get one greedy entry and one with
/// beams of each folder.
bool is_for(const graph::Backend& backend, std::size_t index, std::size_t name_length) {
    const bool gets_all = backend.name().starts_with("CPU (") || std::getenv("VKFORMER_TEST_THOROUGH");
    return gets_all || index == name_length % 2 || index == 2 + name_length % 2;
}

}  // namespace

TEST_CASE("forward passes of encoder-decoders are those of Hugging Face", "[models][encoder_decoder][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE(from_range(case_names()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), name, to_string(dtype));

    const auto model = must(models::load_encoder_decoder(kEncoderDecoders / name));
    const Golden golden((kEncoderDecoders / name / "golden.safetensors").string());
    const TokenBatch source = token_batch(golden, "input_ids", "attention_mask");
    const TokenBatch target = token_batch(golden, "decoder_input_ids", "");
    const ForwardRun run = run_forward(
        *model, backend, source, target,
        {.dtype = dtype, .source_mask = source.is_padded_on_the_right() ? SourceMask::lengths : SourceMask::additive});
    const double bound = model_bound(backend, dtype);
    check_golden(run, run.forward.logits, golden, "logits", bound);
    check_golden(run, run.forward.decoder_hidden, golden, "decoder_last_hidden_state", bound);

    // The encoder's rows of padding have no meaning, and Hugging Face masks differently what they see.
    const std::vector<double> found = run.read(run.forward.encoder_hidden),
                              expected = golden.doubles("encoder_last_hidden_state");
    REQUIRE(found.size() == expected.size());
    std::vector<double> seen, wanted;
    const std::size_t width = found.size() / source.mask.size();
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (source.mask[i / width] == 0) continue;
        seen.push_back(found[i]);
        wanted.push_back(expected[i]);
    }
    CHECK(relative_error(std::span<const double>(seen), std::span<const double>(wanted)) < bound);
}

TEST_CASE("a least length and runs that come once are those of Hugging Face", "[models][encoder_decoder][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("bart_d21_h3_h7", "m2m100_d26_h2", "t5_d22_relu");
    CAPTURE(backend.name(), name);
    const auto model = must(models::load_encoder_decoder(kEncoderDecoders / name));
    const json folder_config = read_json(kEncoderDecoders / name / "generation_config.json");
    const json entries = read_json(kEncoderDecoders / name / "rules.json");
    REQUIRE(entries.size() == 10);
    const bool is_cpu = backend.name().starts_with("CPU (") || std::getenv("VKFORMER_TEST_THOROUGH");
    for (const std::size_t i : {1, 3, 8, 0, 2, 4, 5, 6, 7, 9}) {
        if (!is_cpu && i != 1 && i != 3 && i != 8) continue;  // as above: one greedy entry, two with beams
        const Entry entry =
            read_entry(entries[i], folder_config, model->limits().target_len, model->limits().target_vocab);
        CAPTURE(i, entries[i]["options"].dump());
        auto session = must(
            decoding::Session::create(backend, *model, {.generation = entry.generation, .batch = i == 3 ? 1u : 3u}));
        check(entry, must(session.generate(sources_of(entry))), true);
    }
}

TEST_CASE("tokens and words that are forbidden or preferred are those of Hugging Face",
          "[models][encoder_decoder][golden][token_rules]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("bart_d21_h3_h7", "t5_d22_relu");
    CAPTURE(backend.name(), name);
    const auto model = must(models::load_encoder_decoder(kEncoderDecoders / name));
    const json folder_config = read_json(kEncoderDecoders / name / "generation_config.json");
    const json entries = read_json(kEncoderDecoders / name / "token_rules.json");
    REQUIRE(entries.size() == 12);
    const bool is_cpu = backend.name().starts_with("CPU (") || std::getenv("VKFORMER_TEST_THOROUGH");
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (!is_cpu && i % 6 < 4) continue;  // those of all rules together and of phrases, greedy and with beams
        const auto limits = model->limits();
        const Entry entry = read_entry(entries[i], folder_config, limits.target_len, limits.target_vocab);
        CAPTURE(i, entries[i]["options"].dump());
        auto session = must(
            decoding::Session::create(backend, *model, {.generation = entry.generation, .batch = i % 2 ? 1u : 3u}));
        check(entry, must(session.generate(sources_of(entry))), true);
    }
}

TEST_CASE("generations of encoder-decoders are those of Hugging Face", "[models][encoder_decoder][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE(from_range(case_names()));
    CAPTURE(backend.name(), name);
    const auto model = must(models::load_encoder_decoder(kEncoderDecoders / name));
    const json folder_config = read_json(kEncoderDecoders / name / "generation_config.json");
    const json entries = read_json(kEncoderDecoders / name / "generate.json");
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (!is_for(backend, i, name.size())) continue;
        const Entry entry =
            read_entry(entries[i], folder_config, model->limits().target_len, model->limits().target_vocab);
        CAPTURE(i, entries[i]["options"].dump());
        const auto sources = sources_of(entry);
        const std::uint32_t batch = i % 2 ? 2 : static_cast<std::uint32_t>(sources.size());
        auto session =
            must(decoding::Session::create(backend, *model, {.generation = entry.generation, .batch = batch}));
        check(entry, must(session.generate(sources)), true);
        if (entry.robust_to < 0.01) continue;
        auto half = must(decoding::Session::create(
            backend, *model, {.generation = entry.generation, .batch = batch, .dtype = DType::f16}));
        if (i == 0) check(entry, must(half.generate(sources)), false);
    }
}

}  // namespace vkformer::tests
