// SPDX-License-Identifier: MIT
// The rules on tokens of the C interface's sessions: a guest in slices chooses what a Generator chooses that is waited for.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "api/ruled_model.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "support/vkf_frames.hpp"
#include "vkformer/generator.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using Tokens = std::vector<std::int32_t>;

const Tokens kPrompt = {20, 31, 42, 53, 20, 31, 64, 75, 20, 31};
constexpr std::uint32_t kRuledTokens = 14;

Tokens waited_for(const RuledModel& model, const std::string& device, const GenerateOptions& options,
                  std::uint32_t beams) {
    Generator generator = must(Generator::load(
        model.path, {.device = device, .context = 64, .beam_search = {.beams = beams}, .plain_shaders = true}));
    return must(generator.generate_tokens(std::vector<Tokens>{kPrompt}, options))[0].tokens;
}

vkf_session_info small_session(std::uint32_t beams) {
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.context = 64;
    info.chunk = 4;
    info.beams = beams;
    return info;
}

}  // namespace

TEST_CASE("a guest heeds the rules that the model's files have", "[api][c][guest][session][token_rules]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend(true));
    const RuledModel bare(json{{"eos_token_id", 299}});
    const Tokens plain = waited_for(bare, index, {.max_tokens = kRuledTokens}, 1);
    REQUIRE(plain.size() == kRuledTokens);
    // Each rule has something to do: it forbids or lowers what would be chosen without it.
    const json rules[] = {
        {{"repetition_penalty", 1.7}},
        {{"no_repeat_ngram_size", 2}, {"repetition_penalty", 1.2}},
        {{"eos_token_id", plain[2]}, {"min_new_tokens", 9}},
        {{"suppress_tokens", {plain[0], plain[5]}}, {"begin_suppress_tokens", {plain[1]}}},
        {{"repetition_penalty", 1.3},
         {"no_repeat_ngram_size", 3},
         {"min_new_tokens", 6},
         {"eos_token_id", {plain[1], 299}},
         {"bad_words_ids", {{plain[3]}, {plain[6], plain[7]}}},
         {"sequence_bias", {{{plain[4]}, 2.5}}}},
    };
    std::size_t changed = 0, count = 0;
    const std::size_t stride = case_stride(index, std::size(rules));
    for (std::size_t i = std::size(rules) - 1; i < std::size(rules); i -= stride) {  // all of them together first
        json config = {{"eos_token_id", 299}};
        config.update(rules[i]);
        ++count;
        const RuledModel model(config);
        const VkfModel guest = load_model(*device, model.path.string());
        for (const std::uint32_t beams : {1u, 3u}) {
            CAPTURE(index, config.dump(), beams);
            const Tokens expected = waited_for(model, index, {.max_tokens = kRuledTokens}, beams);
            changed += beams == 1 && expected != plain ? 1 : 0;
            const VkfSession session = make_session(*guest, small_session(beams));
            begin(*session, kPrompt, kRuledTokens);
            CHECK(run_stepped(*session, 0) == expected);
            begin(*session, kPrompt, kRuledTokens);  // what the first sequence has counted is forgotten
            CHECK(run_recorded(host, *session, 200) == expected);
            if (beams > 1) continue;
            begin(*session, kPrompt, kRuledTokens);
            for (int steps = 0; steps < 5; ++steps) {
                vkf_slice slice = VKF_SLICE_INIT;
                succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
                succeed(vkf_session_wait(session.get(), UINT64_MAX));
            }
            succeed(
                vkf_session_evict(session.get(), nullptr));  // the answer so far is read again, and counts as an answer
            succeed(vkf_session_reload(session.get(), nullptr, nullptr));
            CHECK(run_stepped(*session, 0) == expected);
        }
    }
    CHECK(changed == count);
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("a guest is given rules in place of the files'", "[api][c][guest][session][token_rules]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().back();
    const VkfDevice device = own_device(index);
    const RuledModel model(json{{"eos_token_id", 299}, {"repetition_penalty", 1.4}, {"no_repeat_ngram_size", 4}});
    const VkfModel guest = load_model(*device, model.path.string());
    const Tokens by_files = waited_for(model, index, {.max_tokens = kRuledTokens}, 1);
    const vkf_token_bias biases[] = {{by_files[0], -INFINITY}, {by_files[4], 1.5f}};
    const Sampling sampling = {.temperature = 0,
                               .repetition_penalty = 1.2f,
                               .presence_penalty = 0.4f,
                               .frequency_penalty = 0.3f,
                               .no_repeat_ngram = 2,
                               .logit_bias = {{biases[0].token, biases[0].bias}, {biases[1].token, biases[1].bias}}};
    for (const std::uint32_t beams : {1u, 3u}) {
        CAPTURE(beams);
        vkf_session_info info = small_session(beams);
        info.repetition_penalty = sampling.repetition_penalty;
        info.presence_penalty = sampling.presence_penalty;
        info.frequency_penalty = sampling.frequency_penalty;
        info.no_repeat_ngram = sampling.no_repeat_ngram;
        info.biases = biases;
        info.bias_count = 2;
        const Tokens expected = waited_for(model, index, {.max_tokens = kRuledTokens, .sampling = sampling}, beams);
        CHECK(std::ranges::count(expected, biases[0].token) == 0);
        const VkfSession session = make_session(*guest, info);
        begin(*session, kPrompt, kRuledTokens);
        CHECK(run_stepped(*session, 0) == expected);
    }
    // Nothing at all, against the files.
    vkf_session_info none = small_session(1);
    none.repetition_penalty = 1;
    none.no_repeat_ngram = VKF_NO_RULE;
    const VkfSession session = make_session(*guest, none);
    begin(*session, kPrompt, kRuledTokens);
    const Tokens found = run_stepped(*session, 0);
    CHECK(found == waited_for(RuledModel(json{{"eos_token_id", 299}}), index, {.max_tokens = kRuledTokens}, 1));
    CHECK(found != by_files);
}

TEST_CASE("a guest's bias of a token takes the place of the file's", "[api][c][guest][session][token_rules]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    struct Case {
        std::string golden;
        Tokens prompt;
        json config;
        std::uint32_t context, max_tokens;
    };
    const Case c = GENERATE(Case{"decoder_text", kPrompt, {{"eos_token_id", 299}}, 64, kRuledTokens},
                            Case{"encoder_decoders/t5_d22_relu",
                                 {5, 9, 14, 3, 7},
                                 {{"eos_token_id", 1}, {"decoder_start_token_id", 0}, {"pad_token_id", 0}},
                                 12,
                                 0});
    CAPTURE(c.golden);
    constexpr std::int32_t kToken = 17;
    const auto answer = [&](const json& filed, std::optional<float> bias) {
        json config = c.config;
        config.update(filed);
        const RuledModel model(config, c.golden);
        const VkfModel guest = load_model(*device, model.path.string());
        const vkf_token_bias given = {kToken, bias.value_or(0)};
        vkf_session_info info = small_session(1);
        info.source_capacity = static_cast<std::uint32_t>(c.prompt.size()) + 1;
        info.context = c.context;
        info.biases = &given;
        info.bias_count = bias ? 1 : 0;
        const VkfSession session = make_session(*guest, info);
        begin(*session, c.prompt, c.max_tokens);
        return run_stepped(*session, 0);
    };
    const json forcing = {{"sequence_bias", {{{kToken}, 1000.0}}}};
    const Tokens forced = answer(forcing, std::nullopt);
    CHECK(std::ranges::count(forced, kToken) == std::ssize(forced));
    CHECK(answer(forcing, 0.25f) == answer(json::object(), 0.25f));
    CHECK(answer(forcing, 0.25f) != forced);
}

TEST_CASE("a guest may end before the files' least tokens", "[api][c][guest][session][token_rules]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().back();
    const VkfDevice device = own_device(index);
    const Tokens plain = waited_for(RuledModel(json{{"eos_token_id", 299}}), index, {.max_tokens = kRuledTokens}, 1);
    const RuledModel model(json{{"eos_token_id", plain[2]}, {"min_new_tokens", 9}});
    const VkfModel guest = load_model(*device, model.path.string());
    vkf_session_info info = small_session(1);
    const auto count = [&] {
        const VkfSession session = make_session(*guest, info);
        begin(*session, kPrompt, kRuledTokens);
        return run_stepped(*session, 0).size();
    };
    CHECK(count() >= 9);
    info.min_tokens = VKF_NO_RULE - 1;  // more than can be counted with a sign
    CHECK(count() == kRuledTokens);
    info.min_tokens = VKF_NO_RULE;
    CHECK(count() <= 3);
}

TEST_CASE("rules that a session cannot have are refused", "[api][c][guest][session][token_rules][errors]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    const auto refusal = [&](const std::string& folder, const auto& change) {
        const VkfModel model = load_model(*device, (goldens_dir() / folder).string());
        vkf_session_info info = small_session(1);
        change(info);
        vkf_session* session = nullptr;
        CHECK(vkf_session_create(model.get(), &info, nullptr, nullptr, &session) == VKF_ERROR_INVALID_ARGUMENT);
        CHECK(session == nullptr);
        return std::string(vkf_error_message());
    };
    CHECK_THAT(refusal("decoder_text", [](auto& info) { info.repetition_penalty = -1; }),
               ContainsSubstring("repetition_penalty"));
    CHECK_THAT(refusal("decoder_text", [](auto& info) { info.frequency_penalty = NAN; }),
               ContainsSubstring("frequency_penalty"));
    CHECK_THAT(refusal("decoder_text", [](auto& info) { info.bias_count = 1; }), ContainsSubstring("biases"));
    const vkf_token_bias unknown = {300, 1};
    CHECK_THAT(refusal("decoder_text", [&](auto& info) { info.biases = &unknown, info.bias_count = 1; }),
               ContainsSubstring("token 300"));
    const vkf_token_bias twice[] = {{7, 1}, {8, 1}, {7, 2}};
    CHECK_THAT(refusal("decoder_text", [&](auto& info) { info.biases = twice, info.bias_count = 3; }),
               ContainsSubstring("two of token 7"));
    CHECK_THAT(refusal("encoder_decoders/t5_d22_relu", [](auto& info) { info.presence_penalty = 1; }),
               ContainsSubstring("for decoder-only models"));
    // Where nothing is drawn by them, too.
    CHECK_THAT(refusal("decoder_text", [](auto& info) { info.top_p = NAN; }), ContainsSubstring("top_p"));
    CHECK_THAT(refusal("decoder_text", [](auto& info) { info.min_p = -1; }), ContainsSubstring("min_p"));
    for (const vkf_dtype dtype : {VKF_BF16, VKF_Q8_0, VKF_I32})
        CHECK_THAT(refusal("decoder_text", [&](auto& info) { info.dtype = dtype; }),
                   ContainsSubstring("vkf_session_info::dtype is neither"));

    const VkfModel model = load_model(*device, (goldens_dir() / "decoder_text").string());
    const VkfSession session = make_session(*model, small_session(1));
    for (const std::size_t count : {std::size_t{1} << 60, std::size_t{1} << 62, SIZE_MAX}) {
        CHECK(vkf_session_begin(session.get(), kPrompt.data(), count, 1) == VKF_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(vkf_error_message(), ContainsSubstring(std::to_string(count) + " tokens"));
    }
    begin(*session, kPrompt, 2);
    CHECK(run_stepped(*session, 0).size() == 2);
}

}  // namespace vkformer::tests
