// SPDX-License-Identifier: MIT
#include <cstdlib>

#include "decoding/generate_case.hpp"
#include "models/marian_case.hpp"
#include "support/backends.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;

/// A software Vulkan device compiles shaders anew for most entries, seconds each, so devices get every `stride`-th entry, another
/// one in each folder; the CPU and VKFORMER_TEST_THOROUGH=1 get all.
std::vector<json> entries_for(const graph::Backend& backend, const std::string& name, std::size_t stride) {
    const json all = read_json(goldens_dir() / "marian" / name / "generate.json");
    REQUIRE(all.size() >= 10);
    const bool is_cpu = backend.name().starts_with("CPU (");
    if (is_cpu || std::getenv("VKFORMER_TEST_THOROUGH")) stride = 1;
    std::vector<json> entries;
    for (std::size_t i = name.size() % stride; i < all.size(); i += stride) entries.push_back(all[i]);
    return entries;
}

}  // namespace

TEST_CASE("generation gives the tokens of Hugging Face's generate", "[decoding][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE(from_range(marian_cases()));
    CAPTURE(backend.name(), name);
    const auto folder = goldens_dir() / "marian" / name;
    const models::Seq2Seq model = load_marian(name);
    const json folder_config = read_json(folder / "generation_config.json");
    const std::vector<json> entries = entries_for(backend, name, 24);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const Entry entry =
            read_entry(entries[i], folder_config, model.limits().target_len, model.limits().target_vocab);
        CAPTURE(i, entries[i]["options"].dump());
        const auto sources = sources_of(entry);
        // The whole batch at once; one by one; three at a time, so that rows are left over.
        const std::uint32_t batches[] = {static_cast<std::uint32_t>(sources.size()), 1, 4};
        const std::uint32_t batch = batches[i % 3];
        auto session =
            must(decoding::Session::create(backend, model, {.generation = entry.generation, .batch = batch}));
        CAPTURE(batch);
        check(entry, must(session.generate(sources)), true);
        if (i % 5 == 0) check(entry, must(session.generate(sources)), true);  // the states start anew
    }
}

TEST_CASE("generation in float16 gives the same tokens where they are robust", "[decoding][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE(from_range(marian_cases()));
    CAPTURE(backend.name(), name);
    const auto folder = goldens_dir() / "marian" / name;
    const models::Seq2Seq model = load_marian(name);
    const json folder_config = read_json(folder / "generation_config.json");
    for (const json& entry_json : entries_for(backend, name, 48)) {
        const Entry entry =
            read_entry(entry_json, folder_config, model.limits().target_len, model.limits().target_vocab);
        if (entry.robust_to < 0.01) continue;
        CAPTURE(entry_json["options"].dump());
        auto session = must(decoding::Session::create(
            backend, model, {.generation = entry.generation, .batch = 2, .dtype = DType::f16}));
        check(entry, must(session.generate(sources_of(entry))), false);
    }
}

TEST_CASE("masked sources and shorter ones are the same to a generation", "[decoding]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Seq2Seq model = load_marian("swish_d64_h4_opus");
    const auto folder = goldens_dir() / "marian" / "swish_d64_h4_opus";
    const Entry entry =
        read_entry(read_json(folder / "generate.json").back(), read_json(folder / "generation_config.json"),
                   model.limits().target_len, model.limits().target_vocab);
    auto session = must(decoding::Session::create(backend, model, {.generation = entry.generation, .batch = 3}));
    std::vector<decoding::Source> masked;
    for (std::size_t b = 0; b < entry.tokens.size(); ++b)
        masked.push_back({.tokens = entry.tokens[b], .visible = entry.masks[b]});
    const auto a = must(session.generate(sources_of(entry))), b = must(session.generate(masked));
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i].tokens == b[i].tokens);
}

TEST_CASE("a session refuses what the model cannot do", "[decoding][errors]") {
    graph::Backend& backend = *test_backends().front();
    const models::Seq2Seq model = load_marian("relu_d30_h5_h3");
    const models::GenerationConfig good = {.decoder_start = 52, .eos = 0, .pad = 52, .max_steps = 8};
    const auto refused = [&](models::GenerationConfig generation, std::uint32_t batch, const std::string& what) {
        const auto session =
            decoding::Session::create(backend, model, {.generation = std::move(generation), .batch = batch});
        CAPTURE(what);
        REQUIRE_FALSE(session);
        CHECK_THAT(session.error().message, Catch::Matchers::ContainsSubstring(what));
    };
    auto bad = good;
    refused(good, 0, "batch");
    bad.beams = 33;
    refused(bad, 1, "num_beams");
    bad = good;
    bad.max_steps = 33;
    refused(bad, 1, "max_length");
    bad = good;
    bad.decoder_start = 53;
    refused(bad, 1, "decoder_start_token_id");
    bad = good;
    bad.rules.banned = {99};
    refused(bad, 1, "bad_words_ids");

    auto session = must(decoding::Session::create(backend, model, {.generation = good}));
    const std::vector<std::int32_t> unknown = {1, 53}, too_long(33, 1), fine = {1, 2};
    const std::vector<std::uint8_t> short_mask = {1};
    for (const decoding::Source& source :
         {decoding::Source{}, decoding::Source{.tokens = unknown}, decoding::Source{.tokens = too_long},
          decoding::Source{.tokens = fine, .visible = short_mask}}) {
        const auto result = session.generate(std::span(&source, 1));
        REQUIRE_FALSE(result);
        CHECK_THAT(result.error().message, Catch::Matchers::ContainsSubstring("source 0"));
    }
    CHECK(must(session.generate({})).empty());
}

}  // namespace vkformer::tests
