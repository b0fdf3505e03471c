// SPDX-License-Identifier: MIT
// Beam searches of the C interface's sessions: what Hugging Face's generate() finds, whatever the slices are.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <nlohmann/json.hpp>

#include "support/backends.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/temporary_folder.hpp"
#include "support/vkf_frames.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

vkf_early_stopping early_stopping_of(const json& options) {
    const json value = options.value("early_stopping", json(false));
    return value == "never" ? VKF_EARLY_STOPPING_NEVER
           : value == true  ? VKF_EARLY_STOPPING_ALWAYS
                            : VKF_EARLY_STOPPING_HEURISTIC;
}

/// What a session has to be told for a call of generate().
vkf_session_info info_of(const json& options) {
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.beams = options["num_beams"].get<std::uint32_t>();
    info.length_penalty = options.value("length_penalty", 1.0f);
    info.early_stopping = early_stopping_of(options);
    return info;
}

/// A golden model in a folder whose generation_config.json says that and nothing else.
std::string model_with(const TemporaryFolder& folder, const std::string& kind, const std::string& name,
                       const json& generation) {
    const auto copy = folder.path() / name;
    std::filesystem::remove_all(copy);
    std::filesystem::copy(goldens_dir() / kind / name, copy);
    std::ofstream(copy / "generation_config.json") << generation;
    return copy.string();
}

std::string decoder_with(const TemporaryFolder& folder, const std::string& name, const json& generation) {
    return model_with(folder, "decoders", name, generation);
}

/// A row of the source, without what pads it on the right.
std::vector<std::int32_t> source_of(const json& golden, std::size_t row) {
    auto source = golden["input_ids"][row].get<std::vector<std::int32_t>>();
    const auto mask = golden["attention_mask"][row].get<std::vector<std::size_t>>();
    source.resize(std::accumulate(mask.begin(), mask.end(), std::size_t{0}));
    return source;
}

std::string beam_refusal(vkf_model& model, const vkf_session_info& info) {
    vkf_session* session = nullptr;
    CHECK(vkf_session_create(&model, &info, nullptr, nullptr, &session) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(session == nullptr);
    return vkf_error_message();
}

}  // namespace

TEST_CASE("a session's beam search finds what generate() finds, in slices of any size",
          "[api][c][guest][session][beam]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend(true));
    CAPTURE(vkf_device_name(device.get()));
    const TemporaryFolder folder;
    const json entries = read_json(goldens_dir() / "decoders/gemma3/beams.json");
    for (const std::size_t i : {2u, 3u}) {  // early_stopping true and "never"; one and three tokens that end
        CAPTURE(i);
        const json& options = entries[i]["options"];
        const VkfModel model =
            load_model(*device, decoder_with(folder, "gemma3", {{"eos_token_id", options["eos_token_id"]}}));
        vkf_session_info info = info_of(options);
        info.context = 48;
        info.chunk = 4;
        const VkfSession session = make_session(*model, info);
        const auto prompt = entries[i]["prompt"].get<std::vector<std::int32_t>>();
        const auto expected = entries[i]["continuation"].get<std::vector<std::int32_t>>();
        const auto max_tokens = options["max_new_tokens"].get<std::uint32_t>();
        begin(*session, prompt, max_tokens);
        CHECK(run_recorded(host, *session, 400) == expected);
        CHECK(status_of(*session).score == Approx(entries[i]["score"].get<double>()).epsilon(1e-4));
        begin(*session, prompt, max_tokens);  // whose keys and values are all there
        CHECK(status_of(*session).computed_tokens == prompt.size() - 1);
        CHECK(status_of(*session).score == 0);
        CHECK(run_stepped(*session, 0) == expected);
        // What the beams have read of an answer serves no other prompt.
        std::vector<std::int32_t> longer = prompt;
        longer.insert(longer.end(), expected.begin(), expected.begin() + 2);
        begin(*session, longer, 1);
        CHECK(status_of(*session).computed_tokens == prompt.size());
        succeed(vkf_session_cancel(session.get()));
        begin(*session, {prompt.back()}, 1);  // a prompt that leaves nothing to copy
        CHECK(run_stepped(*session, 0).size() == 1);
        begin(*session, prompt, max_tokens);
        CHECK(run_stepped(*session, 0) == expected);
    }
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("a search's tokens come at its end, and it begins anew after an eviction", "[api][c][guest][session][beam]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    const json entry = read_json(goldens_dir() / "decoders/gpt2/beams.json")[0];
    const TemporaryFolder folder;
    const VkfModel model = load_model(*device, decoder_with(folder, "gpt2", {{"num_beams", 4}}));
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.context = 40;
    info.beams = 0;  // what generation_config.json says
    const VkfSession session = make_session(*model, info);
    const auto prompt = entry["prompt"].get<std::vector<std::int32_t>>();
    const auto expected = entry["continuation"].get<std::vector<std::int32_t>>();
    begin(*session, prompt, 12);
    vkf_slice slice = VKF_SLICE_INIT;
    for (int steps = 0; steps < 3; ++steps) {
        succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
        CHECK(slice.dispatches > 0);
        CHECK(slice.tokens == 0);
        succeed(vkf_session_wait(session.get(), UINT64_MAX));
    }
    CHECK(status_of(*session).state == VKF_SESSION_GENERATING);
    CHECK(status_of(*session).generated_tokens == 0);
    succeed(vkf_session_evict(session.get(), nullptr));
    succeed(vkf_session_reload(session.get(), nullptr, nullptr));
    CHECK(status_of(*session).state == VKF_SESSION_PROMPT);
    CHECK(run_stepped(*session, 0) == expected);
    CHECK(status_of(*session).state == VKF_SESSION_DONE);
    const float score = status_of(*session).score;
    CHECK(score == Approx(entry["score"].get<double>()).epsilon(1e-4));

    succeed(vkf_session_evict(session.get(), nullptr));
    CHECK(tokens_of(*session) == expected);
    succeed(vkf_session_reload(session.get(), nullptr, nullptr));
    CHECK(tokens_of(*session) == expected);
    CHECK(status_of(*session).score == score);

    begin(*session, prompt, 12);
    succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
    succeed(vkf_session_cancel(session.get()));
    CHECK(tokens_of(*session).empty());
    begin(*session, prompt, 12);
    CHECK(run_stepped(*session, 0) == expected);
}

TEST_CASE("an encoder-decoder's session searches as generate() does", "[api][c][guest][session][beam]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend_least());
    const auto folder = goldens_dir() / "encoder_decoders/t5_d22_relu";
    const json golden = read_json(folder / "generate.json")[2];
    const VkfModel model = load_model(*device, folder.string());
    vkf_session_info info = info_of(golden["options"]);
    REQUIRE(info.beams == 2);
    info.source_capacity = 11;
    info.context = golden["options"]["max_length"].get<std::uint32_t>() - 1;
    const VkfSession session = make_session(*model, info);
    for (const std::size_t row : {1u, 0u}) {
        CAPTURE(row);
        auto expected = golden["sequences"][row].get<std::vector<std::int32_t>>();
        expected.erase(expected.begin());  // the start token
        begin(*session, source_of(golden, row), 0);
        CHECK(run_recorded(host, *session, row == 0 ? 0 : 500) == expected);
        CHECK(status_of(*session).score == Approx(golden["sequences_scores"][row].get<double>()).epsilon(1e-4));
    }
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("a session's forced first token comes with a step of its own", "[api][c][guest][session][beam]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    const auto golden_folder = goldens_dir() / "encoder_decoders/m2m100_d15_h3_odd";
    const TemporaryFolder folder;
    std::size_t searches = 0, others = 0;
    for (const json& golden : read_json(golden_folder / "generate.json")) {
        const json& options = golden["options"];
        if (!options.value("forced_bos_token_id", json()).is_number()) continue;
        CAPTURE(options.dump());
        json generation = read_json(golden_folder / "generation_config.json");
        generation.update(options);
        const VkfModel model =
            load_model(*device, model_with(folder, "encoder_decoders", "m2m100_d15_h3_odd", generation));
        vkf_session_info info = info_of(options);
        info.source_capacity = 13;
        info.context = options["max_length"].get<std::uint32_t>() - 1;
        const VkfSession session = make_session(*model, info);
        const bool is_search = info.beams > 1;
        (is_search ? searches : others) += 1;
        auto expected = golden["sequences"][0].get<std::vector<std::int32_t>>();
        expected.erase(expected.begin());  // the start token
        const auto end = std::ranges::find(expected, generation["eos_token_id"].get<std::int32_t>());
        if (end != expected.end()) expected.erase(end + 1, expected.end());
        REQUIRE(expected[0] == options["forced_bos_token_id"].get<std::int32_t>());
        for (const std::uint32_t most : {0u, 1u}) {
            CAPTURE(most);
            begin(*session, source_of(golden, 0), most);
            CHECK(tokens_of(*session).empty());
            CHECK(status_of(*session).generated_tokens == 0);
            std::size_t steps = 0;
            while (is_running(*session)) {
                vkf_slice slice = VKF_SLICE_INIT;
                succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
                succeed(vkf_session_wait(session.get(), UINT64_MAX));
                CHECK(slice.tokens <= 1);
                steps += slice.tokens;
                if (is_search && is_running(*session)) CHECK(tokens_of(*session).empty());
                if (!is_search) CHECK(tokens_of(*session).size() == steps);
            }
            const auto found = tokens_of(*session);
            if (most == 1) CHECK(found == std::vector{expected[0]});
            if (most == 0) CHECK(found == expected);
            CHECK(steps == (is_search ? 0 : found.size()));  // a search has tokens at its end
        }
    }
    CHECK(searches > 0);
    CHECK(others > 0);
}

TEST_CASE("an encoder-decoder's session repeats no n-gram of its source", "[api][c][guest][session][beam]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    const std::string name = GENERATE("t5_d22_relu", "bart_d21_h3_h7");
    const auto golden_folder = goldens_dir() / "encoder_decoders" / name;
    const TemporaryFolder folder;
    for (const json& golden : read_json(golden_folder / "rules.json")) {
        const json& options = golden["options"];
        if (!options.contains("encoder_no_repeat_ngram_size")) continue;
        CAPTURE(name, options.dump());
        json generation = read_json(golden_folder / "generation_config.json");
        generation.update(options);
        const VkfModel model = load_model(*device, model_with(folder, "encoder_decoders", name, generation));
        vkf_session_info info = info_of(options);
        info.source_capacity = 13;  // more than either source, so that neither fills it
        info.context = options["max_length"].get<std::uint32_t>() - 1;
        const VkfSession session = make_session(*model, info);
        for (const std::size_t row : {0u, 1u}) {  // the shorter one last: nothing of the longer is left
            CAPTURE(row);
            auto expected = golden["sequences"][row].get<std::vector<std::int32_t>>();
            expected.erase(expected.begin());  // the start token
            const auto end = std::ranges::find(expected, generation["eos_token_id"].get<std::int32_t>());
            if (end != expected.end()) expected.erase(end + 1, expected.end());
            begin(*session, source_of(golden, row), 0);
            CHECK(run_stepped(*session, 0) == expected);
        }
    }
}

TEST_CASE("a session says which searches there are not", "[api][c][guest][session][beam][errors]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(vulkan_device_indices().back());
    const VkfModel model = load_model(*device, (goldens_dir() / "decoders/gpt2").string());
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.beams = 33;
    CHECK_THAT(beam_refusal(*model, info), ContainsSubstring("33 beams was asked for, it takes 2 to 32"));
    info.beams = 3;
    info.temperature = 0.5f;
    CHECK_THAT(beam_refusal(*model, info), ContainsSubstring("the temperature must be 0"));
    info.temperature = 0;
    info.length_penalty = 101;
    CHECK_THAT(beam_refusal(*model, info), ContainsSubstring("length_penalty is 101.000000, expected a number"));
    info.length_penalty = 1;
    info.early_stopping = VKF_EARLY_STOPPING_MAX_ENUM;
    CHECK_THAT(beam_refusal(*model, info), ContainsSubstring("vkf_session_info::early_stopping is 2147483647"));
    info.early_stopping = VKF_EARLY_STOPPING_NEVER;

    // The caches of four beams take four times the memory; a struct of an application that knows no beams has none.
    vkf_session_memory one = VKF_SESSION_MEMORY_INIT, four = VKF_SESSION_MEMORY_INIT, old = VKF_SESSION_MEMORY_INIT;
    info.beams = 1;
    succeed(vkf_session_query_memory(model.get(), &info, &one));
    info.beams = 4;
    succeed(vkf_session_query_memory(model.get(), &info, &four));
    CHECK(four.states > 3 * one.states);
    CHECK(four.weights == one.weights);
    info.struct_size = offsetof(vkf_session_info, early_stopping);
    succeed(vkf_session_query_memory(model.get(), &info, &old));
    CHECK(old.total == one.total);

    const VkfModel t5 = load_model(*device, (goldens_dir() / "encoder_decoders/t5_d22_relu").string());
    vkf_session_info translation = VKF_SESSION_INFO_INIT;
    translation.beams = 40;
    CHECK_THAT(beam_refusal(*t5, translation), ContainsSubstring("40 beams was asked for"));
}

}  // namespace vkformer::tests
