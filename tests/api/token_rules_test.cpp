// SPDX-License-Identifier: MIT
/// generation_config.json of language models: done as transformers' generate() does it, or refused by name.
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "api/ruled_model.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "support/vkf.hpp"
#include "support/vkf_frames.hpp"
#include "vkformer/generator.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using Tokens = std::vector<std::int32_t>;

json entries() {
    std::ifstream file(goldens_dir() / "decoder_text" / "token_rules.json");
    return json::parse(file);
}

Result<Generator> load_ruled(const RuledModel& model, const std::string& device, std::uint32_t batch = 1) {
    return Generator::load(model.path, {.device = device, .batch = batch, .plain_shaders = true});
}

Result<Generator> load_with_rules(const json& config) {
    const RuledModel model(config);
    return load_ruled(model, "cpu");
}

std::string rule_refusal(const json& config) {
    const RuledModel model(config);
    auto generator = load_ruled(model, "cpu");
    if (!generator) return generator.error().message;
    const auto result = generator->generate(std::vector<std::string>{"Hello"}, {.max_tokens = 2});
    return result ? "" : result.error().message;
}

}  // namespace

TEST_CASE("rules of generation_config.json are those of Hugging Face, alone, together and with beams",
          "[api][generator][golden][token_rules]") {
    const std::string device = GENERATE(from_range(device_names()));
    const json all = entries();
    REQUIRE(all.size() == 14);
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (device != "cpu" && i < 4) continue;  // the entry of all rules together has these
        if (!takes_case(device, 2)) continue;
        const json& entry = all[i];
        CAPTURE(device, entry["config"].dump());
        const RuledModel model(entry["config"]);
        const auto prompts = entry["prompts"].get<std::vector<Tokens>>();
        const auto answers = entry["answers"].get<std::vector<Tokens>>();
        const bool has_beams = entry["config"].contains("num_beams");
        Generator generator = must(load_ruled(model, device, has_beams ? 1 : 2));  // a row is left to the third prompt
        for (int run = 0; run < 2; ++run) {                                  // the second one finds its prompts known
            const auto found = must(generator.generate_tokens(prompts));
            for (std::size_t p = 0; p < prompts.size(); ++p) {
                CAPTURE(run, p);
                CHECK(found[p].tokens == answers[p]);
                REQUIRE(found[p].score.has_value() == has_beams);
                if (has_beams) CHECK(*found[p].score == Approx(entry["scores"][p].get<double>()).epsilon(1e-4));
            }
        }
    }
}

TEST_CASE("rules of generation_config.json hold in sessions, too", "[api][c][guest][session][token_rules]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    const json all = entries();
    for (const std::size_t i :
         {2u, 3u, 4u, 6u, 9u, 11u, 13u}) {  // words, biases, the last token, the first one, beams, phrases, with beams
        const json& entry = all[i];
        CAPTURE(i, entry["config"].dump());
        const RuledModel copy(entry["config"]);
        const VkfModel model = load_model(*device, copy.path.string());
        vkf_session_info info = VKF_SESSION_INFO_INIT;
        info.context = 64;
        info.beams = 0;  // what generation_config.json says
        const VkfSession session = make_session(*model, info);
        for (std::size_t p = 0; p < entry["prompts"].size(); ++p) {
            CAPTURE(p);
            begin(*session, entry["prompts"][p].get<Tokens>(), 14);
            CHECK(run_stepped(*session, 0) == entry["answers"][p].get<Tokens>());
        }
    }
    const RuledModel stops(json{{"eos_token_id", 0}, {"stop_strings", "x"}});
    const VkfModel model = load_model(*device, stops.path.string());
    vkf_session* session = nullptr;
    const vkf_session_info info = VKF_SESSION_INFO_INIT;
    CHECK(vkf_session_create(model.get(), &info, nullptr, nullptr, &session) == VKF_ERROR_UNSUPPORTED_CONFIG);
    CHECK_THAT(vkf_error_message(), ContainsSubstring("stop_strings"));
}

TEST_CASE("a session that goes on after an eviction begins its answer only once",
          "[api][c][guest][session][token_rules]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    const json entry = entries()[1];
    REQUIRE(entry["config"].contains("begin_suppress_tokens"));
    json config = entry["config"];
    config["forced_eos_token_id"] = 2;
    // What may not come first does come later: forbidding it there would change the answer.
    const auto prompt = entry["prompts"][2].get<Tokens>();
    auto whole = entry["answers"][2].get<Tokens>();
    const auto later = whole[4];
    config["begin_suppress_tokens"].push_back(later);
    whole.back() = 2;
    const RuledModel copy(config);
    const VkfModel model = load_model(*device, copy.path.string());
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.context = 64;
    const VkfSession session = make_session(*model, info);
    begin(*session, prompt, 14);
    vkf_slice slice = VKF_SLICE_INIT;
    for (int tokens = 0; tokens < 4;) {
        succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
        tokens += static_cast<int>(slice.tokens);
        succeed(vkf_session_wait(session.get(), UINT64_MAX));
    }
    succeed(vkf_session_evict(session.get(), nullptr));
    succeed(vkf_session_reload(session.get(), nullptr, nullptr));
    CHECK(run_stepped(*session, 0) == whole);
}

TEST_CASE("lengths and stop strings of generation_config.json, and what overrides them",
          "[api][generator][token_rules]") {
    const std::vector<std::string> prompt = {"Hello"};
    Generator plain = must(load_with_rules({{"eos_token_id", 0}}));
    const std::string text = must(plain.generate(prompt, {.max_tokens = 24}))[0].text;
    const std::string stop = text.substr(text.size() / 2, 2);
    const std::size_t at = text.find(stop);

    Generator few = must(load_with_rules({{"eos_token_id", 0}, {"max_new_tokens", 7}, {"max_length", 3}}));
    CHECK(must(few.generate(prompt))[0].tokens.size() == 7);
    CHECK(must(few.generate(prompt, {.max_tokens = 9}))[0].tokens.size() == 9);
    Generator counted = must(load_with_rules({{"eos_token_id", 0}, {"max_length", 12}}));
    CHECK(must(counted.generate_tokens(std::vector<Tokens>{Tokens(5, 28)}))[0].tokens.size() == 7);
    CHECK(must(counted.generate_tokens(std::vector<Tokens>{Tokens(11, 28)}))[0].finish == Finish::length);
    const auto full = counted.generate_tokens(std::vector<Tokens>{Tokens(2, 28), Tokens(12, 28)});
    REQUIRE_FALSE(full);
    CHECK_THAT(full.error().message, ContainsSubstring("prompt 2 has 12 tokens") && ContainsSubstring("max_length"));
    CHECK(must(counted.generate_tokens(std::vector<Tokens>{Tokens(12, 28)}, {.max_tokens = 3}))[0].tokens.size() == 3);

    Generator stops = must(load_with_rules({{"eos_token_id", 0}, {"stop_strings", {"nowhere", stop}}}));
    const auto stopped = must(stops.generate(prompt, {.max_tokens = 24}))[0];
    CHECK(stopped.finish == Finish::stop_string);
    CHECK(stopped.text == text.substr(0, at));
    CHECK(must(stops.generate(prompt, {.max_tokens = 24, .stop = {"nowhere"}}))[0].text == text);
    CHECK_THAT(rule_refusal({{"eos_token_id", 0}, {"stop_strings", "x"}, {"num_beams", 2}}),
               ContainsSubstring("stop_strings") && ContainsSubstring("one beam"));

    // A bias that is asked for takes the place of the folder's.
    const auto chosen = must(plain.generate(prompt, {.max_tokens = 1}))[0].tokens[0];
    Generator never = must(load_with_rules({{"eos_token_id", 0}, {"sequence_bias", {{{chosen}, -1000}}}}));
    CHECK(must(never.generate(prompt, {.max_tokens = 1}))[0].tokens[0] != chosen);
    const Sampling again{.logit_bias = {{chosen, 0.0f}}};
    CHECK(must(never.generate(prompt, {.max_tokens = 1, .sampling = again}))[0].tokens[0] == chosen);
}

TEST_CASE("what generation_config.json asks of a language model and is not done is refused by name",
          "[api][generator][errors][token_rules]") {
    const auto [field, value, also] = GENERATE(table<std::string, std::string, std::string>({
        {"exponential_decay_length_penalty", "[10, 1.5]", ""},
        {"encoder_repetition_penalty", "1.5", ""},
        {"encoder_no_repeat_ngram_size", "2", ""},
        {"guidance_scale", "1.5", "take it out of the file"},
        {"penalty_alpha", "0.6", ""},
        {"dola_layers", "\"high\"", ""},
        {"watermarking_config", R"({"bias": 2.5})", ""},
        {"num_return_sequences", "2", ""},
        {"max_time", "2.5", ""},
        {"token_healing", "true", ""},
        {"remove_invalid_values", "true", ""},
        {"a_field_of_the_future", "1", "not known"},
        {"typical_p", "0.9", "the caller's own rules for drawing"},
        {"epsilon_cutoff", "3e-4", "the caller's own rules for drawing"},
        {"eta_cutoff", "3e-4", "the caller's own rules for drawing"},
        {"top_h", "0.4", "the caller's own rules for drawing"},
        {"eos_token_id", "999999", "0 to 299"},
        {"eos_token_id", "[0, -1]", "0 to 299"},
        {"suppress_tokens", "[300]", "0 to 299"},
        {"begin_suppress_tokens", "[-1]", "0 to 299"},
        {"bad_words_ids", "[[1, 300]]", "0 to 299"},
        {"bad_words_ids", "[[]]", ""},
        {"sequence_bias", "[[[300], 2.0]]", "0 to 299"},
        {"sequence_bias", "[[[1, 300], 2.0]]", "0 to 299"},
        {"sequence_bias", "[[[], 2.0]]", "one token or more"},
        {"forced_bos_token_id", "300", "0 to 299"},
        {"forced_eos_token_id", "-1", "0 to 299"},
        {"stop_strings", R"(["x", ""])", ""},
        {"stop_strings", "7", ""},
        {"max_length", "0", ""},
        {"max_new_tokens", "-4", ""},
    }));
    CAPTURE(field, value);
    json config = {{"eos_token_id", 0}, {"do_sample", true}};
    config[field] = json::parse(value);
    CHECK_THAT(rule_refusal(config),
               ContainsSubstring("generation_config.json") && ContainsSubstring(field) && ContainsSubstring(also));
}

TEST_CASE("fields whose values do nothing are taken, and what an option overrides", "[api][generator][token_rules]") {
    CHECK(rule_refusal({{"eos_token_id", 0},
                        {"typical_p", 0.9},  // nothing is drawn
                        {"diversity_penalty", 0.5},
                        {"num_beam_groups", 4},
                        {"guidance_scale", 1.0},
                        {"penalty_alpha", 0},
                        {"encoder_no_repeat_ngram_size", 0},
                        {"suppress_tokens", json::array()},
                        {"watermarking_config", nullptr},
                        {"prefill_chunk_size", 7},
                        {"pad_token_id", 300},  // nothing is padded
                        {"transformers_version", "5.12.1"}}) == "");
    Generator typical = must(load_with_rules({{"eos_token_id", 0}, {"do_sample", true}, {"typical_p", 0.9}}));
    CHECK(typical.generate(std::vector<std::string>{"Hello"}, {.max_tokens = 2, .sampling = Sampling{}}));
    CHECK_THAT(rule_refusal({{"eos_token_id", 0}, {"num_beams", 2}, {"diversity_penalty", 0.5}}),
               ContainsSubstring("diversity_penalty") && ContainsSubstring("a search that the caller asks for"));
    CHECK_THAT(rule_refusal({{"eos_token_id", 0}, {"forced_bos_token_id", 3}, {"begin_suppress_tokens", {4}}}),
               ContainsSubstring("begin_suppress_tokens"));
    CHECK_THAT(rule_refusal({{"eos_token_id", 0}, {"forced_eos_token_id", 3}, {"suppress_tokens", {3}}}),
               ContainsSubstring("forced_eos_token_id"));
}

}  // namespace vkformer::tests
