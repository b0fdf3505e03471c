// SPDX-License-Identifier: MIT
/// Adapters of a guest's sequences.
#include <array>
#include <limits>

#include "models/adapter_case.hpp"
#include "models/decoder_case.hpp"
#include "support/backends.hpp"
#include "support/vkf_frames.hpp"

namespace vkformer::tests {
namespace {

using Tokens = std::vector<std::int32_t>;

vkf_result load_adapted(vkf_device& device, const std::filesystem::path& base,
                        const std::vector<std::filesystem::path>& adapters, vkf_model** model) {
    std::vector<std::string> texts;
    for (const auto& adapter : adapters) texts.push_back(adapter.string());
    std::vector<const char*> names;
    for (const std::string& text : texts) names.push_back(text.c_str());
    return vkf_model_load_adapted(&device, base.string().c_str(), static_cast<std::uint32_t>(names.size()),
                                  names.data(), model);
}

VkfModel two_adapters(vkf_device& device) {
    vkf_model* model = nullptr;
    succeed(load_adapted(device, goldens_dir() / "decoders" / "llama_gqa_odd",
                         {adapter_folder("llama_gqa_odd"), adapter_folder("llama_gqa_odd_second")}, &model));
    return VkfModel(model);
}

/// A prompt and what follows, with these adapters: the golden's, or those of the model alone.
struct Adapted {
    std::vector<float> scales;
    Greedy greedy;
};
std::vector<Adapted> with_adapters_set() {
    const auto of_adapter = [](const std::string& name) {
        const nlohmann::json golden = read_json(adapter_folder(name) / "greedy.json");
        return Greedy{golden["prompt"].get<Tokens>(), golden["continuation"].get<Tokens>()};
    };
    return {{{1, 0}, of_adapter("llama_gqa_odd")},
            {{0, 0}, greedy_golden("llama_gqa_odd")},
            {{0, 1}, of_adapter("llama_gqa_odd_second")}};
}

void set_adapters(vkf_session& session, const std::vector<float>& scales) {
    succeed(vkf_session_set_adapters(&session, static_cast<std::uint32_t>(scales.size()), scales.data()));
}

/// Each kind of adapters twice, `run` to the end.
void check_all(vkf_session& session, const auto& run) {
    constexpr std::uint32_t kTokens = 8;
    const Greedy alone = greedy_golden("llama_gqa_odd");  // before anything is set
    const Tokens of_alone(alone.continuation.begin(), alone.continuation.begin() + kTokens);
    begin(session, alone.prompt, kTokens);
    CHECK(run() == of_alone);
    for (int round = 0; round < 2; ++round)
        for (const Adapted& one : with_adapters_set()) {
            CAPTURE(round, one.scales);
            set_adapters(session, one.scales);
            begin(session, one.greedy.prompt, kTokens);
            CHECK(run() == Tokens(one.greedy.continuation.begin(), one.greedy.continuation.begin() + kTokens));
        }
    // The same prompt with others: nothing of the keys before is used.
    const Tokens prompt = prompt_of(12);
    const auto with = [&](const std::vector<float>& scales) {
        set_adapters(session, scales);
        begin(session, prompt, kTokens);
        return run();
    };
    const Tokens first = with({1, 1}), second = with({0, 0});
    CHECK(first != second);
    CHECK(with({1, 1}) == first);
    CHECK(with({0, 0}) == second);
}

}  // namespace

TEST_CASE("a guest's sequences have the adapters that are set before them", "[api][c][guest][session][adapter]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend_least());
    CAPTURE(vkf_device_name(device.get()));
    const VkfModel model = two_adapters(*device);
    const VkfSession session = make_session(*model);
    check_all(*session, [&] { return run_recorded(host, *session, 0); });
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("adapters of sequences on the CPU, of beams, and of what goes on after an eviction",
          "[api][c][cpu_device][session][adapter]") {
    const VkfDevice device = own_device(VKF_DEVICE_CPU);
    const VkfModel model = two_adapters(*device);
    const VkfSession session = make_session(*model);
    check_all(*session, [&] { return run_stepped(*session, 0); });

    const Adapted one = with_adapters_set()[0];
    set_adapters(*session, one.scales);
    begin(*session, one.greedy.prompt, 8);
    vkf_slice slice = VKF_SLICE_INIT;
    while (status_of(*session).generated_tokens < 3) succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
    succeed(vkf_session_retire(session.get(), slice.ticket));
    set_adapters(*session, {0, 0});  // of the next sequence
    const std::int32_t no_token = -1;
    CHECK(vkf_session_begin(session.get(), &no_token, 1, 8) == VKF_ERROR_INVALID_ARGUMENT);  // nor of one that is none
    std::uint64_t freed = 0;
    succeed(vkf_session_evict(session.get(), &freed));
    succeed(vkf_session_reload(session.get(), nullptr, nullptr));
    CHECK(run_stepped(*session, 0) == Tokens(one.greedy.continuation.begin(), one.greedy.continuation.begin() + 8));

    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.beams = 3;
    const VkfSession search = make_session(*model, info);
    const auto found = [&](const std::vector<float>& scales) {
        set_adapters(*search, scales);
        begin(*search, prompt_of(9), 8);
        return run_stepped(*search, 0);
    };
    const Tokens with = found({1, 1}), without = found({0, 0});
    CHECK(with != without);
    CHECK(found({1, 1}) == with);
}

TEST_CASE("what is wrong with a guest's adapters is said", "[api][c][cpu_device][adapter][errors]") {
    const VkfDevice device = own_device(VKF_DEVICE_CPU);
    const VkfModel model = two_adapters(*device);
    const VkfSession session = make_session(*model);
    const std::array<float, 3> scales = {1, std::numeric_limits<float>::quiet_NaN(), 1};
    CHECK(vkf_session_set_adapters(session.get(), 1, scales.data()) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_session_set_adapters(session.get(), 3, scales.data()) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_session_set_adapters(session.get(), 2, scales.data()) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_session_set_adapters(session.get(), 2, nullptr) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_session_set_adapters(nullptr, 0, nullptr) == VKF_ERROR_INVALID_ARGUMENT);

    vkf_pass_info pass = VKF_PASS_INFO_INIT;
    pass.target_len = 3;
    vkf_program* program = nullptr;
    CHECK(vkf_model_pass(model.get(), &pass, nullptr, &program) == VKF_ERROR_UNSUPPORTED_CONFIG);

    vkf_model* other = nullptr;
    CHECK(load_adapted(*device, goldens_dir() / "decoders" / "llama_gqa_odd", {"/nowhere"}, &other) ==
          VKF_ERROR_FILE_NOT_FOUND);
    CHECK(load_adapted(*device, goldens_dir() / "decoders" / "gpt2", {adapter_folder("llama_gqa_odd")}, &other) ==
          VKF_ERROR_UNSUPPORTED_CONFIG);
    CHECK(load_adapted(*device, goldens_dir() / "marian" / "relu_d30_h5_h3", {adapter_folder("llama_gqa_odd")},
                       &other) == VKF_ERROR_UNSUPPORTED_CONFIG);
    const char* const none = nullptr;
    CHECK(vkf_model_load_adapted(device.get(), "x", 1, &none, &other) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(other == nullptr);
    const VkfModel bare = load_model(*device, (goldens_dir() / "decoders" / "llama_gqa_odd").string());
    const VkfSession plain = make_session(*bare);
    CHECK(vkf_session_set_adapters(plain.get(), 1, scales.data()) == VKF_ERROR_INVALID_ARGUMENT);
    succeed(vkf_session_set_adapters(plain.get(), 0, nullptr));
}

}  // namespace vkformer::tests
