// SPDX-License-Identifier: MIT
#include "serve/encoder_routes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "serve/adapter_fields.hpp"
#include "serve/base64.hpp"
#include "serve/fields.hpp"
#include "serve/submit.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMostEmbedded = 2048, kMostDocuments = 1000;

json as_base64(const std::vector<float>& values) {
    static_assert(std::endian::native == std::endian::little);
    return base64(std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}

/// As read_adapters, or the one that "task" names, which is what Jina's API calls the adapters of its models.
AdapterScales read_task(Fields& fields, AskedModel<EmbeddingModel>& asked) {
    const std::vector<std::string>& adapters = asked.model->adapters();
    const auto task = adapters.empty() ? std::nullopt : fields.text("task");
    if (task && std::ranges::find(adapters, *task) == adapters.end())
        fields.refuse("task", "the model has no adapter of that name");
    if (task && fields.take("lora")) fields.refuse("lora", "\"task\" says already which adapter counts");
    if (!task) return read_adapters(fields, asked);
    asked.name = asked.model->name();
    return {{*task, 1.0f}};
}

void embeddings(const ModelSet& models, const Call& call) {
    const json body = parse_body(call.request());
    Fields fields(body);
    AskedModel<EmbeddingModel> asked = read_model<EmbeddingModel>(fields, models, call);
    EmbeddingModel& model = *asked.model;
    AdapterScales adapters = read_task(fields, asked);
    const json& input = fields.needed("input");
    if (input.is_array() && !input.empty() && !input.front().is_string())
        fields.refuse("input", "it has token ids or other values: this server takes texts");
    std::vector<std::string> texts = fields.texts("input", kMostEmbedded);
    if (texts.empty()) fields.refuse("input", "it has no text");
    const std::string format = fields.text("encoding_format").value_or("float");
    if (format != "float" && format != "base64")
        fields.refuse("encoding_format", "it is neither \"float\" nor \"base64\"");
    fields.only("dimensions", model.dimension(),
                "the model's vectors have " + std::to_string(model.dimension()) + " numbers, which cannot be cut");
    fields.pass_over({"user"});
    fields.finish();
    submit(
        model.calls(), call, std::move(texts),
        [name = asked.name, format](const Call& of, const std::vector<Embedding>& made) {
            json data = json::array();
            std::size_t tokens = 0;
            for (std::size_t i = 0; i < made.size(); ++i) {
                tokens += made[i].tokens;
                data.push_back({{"object", "embedding"},
                                {"index", i},
                                {"embedding", format == "base64" ? as_base64(made[i].values) : json(made[i].values)}});
            }
            of.reply({{"object", "list"},
                      {"data", std::move(data)},
                      {"model", name},
                      {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
        },
        std::move(adapters));
}

/// A text, or an object with a text.
std::vector<std::string> documents_of(Fields& fields) {
    const json& documents = fields.needed("documents");
    if (!documents.is_array() || documents.empty()) fields.refuse("documents", "it is no list of texts");
    if (documents.size() > kMostDocuments)
        fields.refuse("documents", "it has " + std::to_string(documents.size()) + " texts, at most " +
                                       std::to_string(kMostDocuments) + " are taken");
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < documents.size(); ++i) {
        if (documents[i].is_string()) {
            texts.push_back(documents[i].get<std::string>());
            continue;
        }
        Fields document(documents[i], "documents[" + std::to_string(i) + "]");
        texts.push_back(document.needed_text("text"));
        document.finish();
    }
    return texts;
}

/// Indices by their scores, the best first, equal ones as they came; NaN last.
std::vector<std::size_t> by_score(const std::vector<PairScore>& scores, std::size_t most) {
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        const float left = scores[a].scores[0], right = scores[b].scores[0];
        return left > right || (left == left && right != right);
    });
    order.resize(std::min(order.size(), most));
    return order;
}

void rerank(const ModelSet& models, const Call& call) {
    const json body = parse_body(call.request());
    Fields fields(body);
    AskedModel<RerankModel> asked = read_model<RerankModel>(fields, models, call);
    AdapterScales adapters = read_adapters(fields, asked);
    const std::string query = fields.needed_text("query");
    const std::vector<std::string> documents = documents_of(fields);
    const auto most = fields.integer("top_n", 1, 1 << 30).value_or(1 << 30);
    const bool has_documents = fields.boolean("return_documents").value_or(false);
    fields.pass_over({"user"});
    fields.finish();
    std::vector<TextPair> pairs;
    for (const std::string& document : documents) pairs.push_back({query, document});
    const auto answer = [name = asked.name, most, has_documents, documents](const Call& of,
                                                                            const std::vector<PairScore>& scores) {
        json results = json::array();
        for (const std::size_t i : by_score(scores, static_cast<std::size_t>(most))) {
            json result = {{"index", i}, {"relevance_score", scores[i].scores[0]}};
            if (has_documents) result["document"] = {{"text", documents[i]}};
            results.push_back(std::move(result));
        }
        std::size_t tokens = 0;
        for (const PairScore& score : scores) tokens += score.tokens;
        const std::string id = "rerank-" + std::to_string(of.request().number);
        of.reply({{"id", id},
                  {"model", name},
                  {"results", std::move(results)},
                  {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
    };
    submit(asked.model->calls(), call, std::move(pairs), answer, std::move(adapters));
}

}  // namespace

std::vector<Route> encoder_routes(const ModelSet& models, const Limits& limits) {
    std::vector<Route> routes;
    const auto add = [&](std::string_view path, std::string_view summary,
                         void (*answer)(const ModelSet&, const Call&)) {
        routes.push_back({.method = "POST",
                          .path = path,
                          .body_bytes = limits.body_bytes,
                          .is_work = true,
                          .summary = summary,
                          .answer = [&models, answer](const Call& call) { answer(models, call); }});
    };
    add("/v1/embeddings", "Texts to vectors, as OpenAI's API has it", embeddings);
    add("/v1/rerank", "Documents in the order of how well they answer a query, as Jina's and Cohere's APIs have it",
        rerank);
    add("/v2/rerank", "The same, where Cohere's newer clients look for it", rerank);
    return routes;
}

}  // namespace vkformer::serve
