// SPDX-License-Identifier: MIT
// A translator under many clients.
#include <future>

#include "serve/translation_model.hpp"
#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using serve::Translated;
using serve::TranslationModel;

const auto kNllbTexts = std::filesystem::path(VKFORMER_SOURCE_DIR) / "tests/goldens/nllb_texts";

struct Client {
    std::string text, from, to;
};

std::future<std::vector<Translated>> ask(TranslationModel& model, const Client& client, std::uint64_t group = 0) {
    const auto answer = std::make_shared<std::promise<std::vector<Translated>>>();
    model.calls().submit(
        model.inputs({client.text}, client.from, client.to),
        [answer](auto result) { answer->set_value(must(std::move(result))); }, group);
    return answer->get_future();
}

int told(const serve::Metrics& metrics, const std::string& name) {
    const std::string text = metrics.text(), line = name + "{model=\"nllb\"} ";
    const std::size_t at = text.find(line);
    return at == text.npos ? -1 : std::stoi(text.substr(at + line.size()));
}

}  // namespace

TEST_CASE("clients of a model of many languages share its calls", "[serve][languages]") {
    serve::Metrics metrics({{.name = "vkformer_batch_inputs",
                             .help = "texts of a call",
                             .kind = serve::Metrics::Family::histogram,
                             .bounds = {1, 2, 4}}});
    serve::ModelOptions options;
    options.device = "cpu";
    options.plain_shaders = true;
    const auto model = must(TranslationModel::load("nllb", kNllbTexts, options, metrics));
    const std::vector<Client> clients = {{"the cat sat on the mat", "eng_Latn", "fra_Latn"},
                                         {"the cat sat on the mat", "deu_Latn", "zho_Hans"},
                                         {"we see the sea", "fra_Latn", "eng_Latn"}};
    std::vector<std::string> alone;
    for (const Client& client : clients) alone.push_back(ask(*model, client).get()[0].translation.text);

    // Its thread waits until all have asked.
    std::promise<void> all_have_asked;
    model->calls().submit(model->inputs({"a dog"}, "eng_Latn", "fra_Latn"),
                          [&](const auto&) { all_have_asked.get_future().wait(); });
    std::vector<std::future<std::vector<Translated>>> answers;
    for (const Client& client : clients) answers.push_back(ask(*model, client));
    auto looked_at = ask(*model, clients[1], 7);  // with attention: alone
    all_have_asked.set_value();
    for (std::size_t i = 0; i < clients.size(); ++i) CHECK(answers[i].get()[0].translation.text == alone[i]);
    const auto looked = looked_at.get();
    CHECK(looked[0].translation.text == alone[1]);
    REQUIRE(looked[0].attention);
    CHECK(looked[0].attention->source.front() == "deu_Latn");
    CHECK(told(metrics, "vkformer_batch_inputs_sum") == 8);
    // The first three, the one that waited, which the model may have had others wait for, three together, and the last.
    CHECK(told(metrics, "vkformer_batch_inputs_count") <= 6);
}

}  // namespace vkformer::tests
