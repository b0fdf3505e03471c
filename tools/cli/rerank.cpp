// SPDX-License-Identifier: MIT
/// vkformer rerank: how well documents answer a query, by a cross-encoder.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "encoder_options.hpp"
#include "inputs.hpp"

namespace vkformer::cli {
namespace {

struct RerankCommand {
    EncoderCommand encoder;
    LoraOption lora;
    std::string query;
    std::vector<std::string> documents;
    BadInputs bad;
    std::string input;
    std::uint32_t top = 0;
    bool in_order = false, pairs = false, json = false;
};

/// "query<tab>document"
void split(Input<TextPair>& pair) {
    const std::string line = std::move(pair.value.second);
    const std::size_t tab = line.find('\t');
    if (tab == line.npos)
        pair.error = "there is no tab between two texts";
    else
        pair.value = {line.substr(0, tab), line.substr(tab + 1)};
}

/// All of them: the best may be the last.
Result<std::vector<Input<TextPair>>> read_pairs(RerankCommand& command) {
    VKFORMER_TRY(Inputs inputs, Inputs::open("document", command.documents, command.input));
    command.bad.begin(inputs);
    std::vector<Input<TextPair>> pairs;
    for (;;) {
        VKFORMER_TRY(auto some, inputs.next());
        if (some.empty()) return pairs;
        for (auto& [text, number, error] : some) {
            pairs.push_back({{command.query, std::move(text)}, number, std::move(error)});
            if (command.pairs && pairs.back().error.empty()) split(pairs.back());
        }
    }
}

std::string scores_text(const std::vector<float>& scores) {
    std::string text;
    for (const float score : scores) {
        char buffer[32];
        std::snprintf(buffer, sizeof buffer, "%s%.6f", text.empty() ? "" : " ", static_cast<double>(score));
        text += buffer;
    }
    return text;
}

std::string as_json(const TextPair& pair, const PairScore& score, std::size_t index) {
    nlohmann::json object = {{"index", index}, {"query", pair.first}, {"document", pair.second}};
    if (score.scores.size() == 1)
        object["score"] = score.scores[0];
    else
        object["scores"] = score.scores;
    if (score.cut > 0) object["cut"] = score.cut;
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Which results are printed, in which order: by the score, equal ones as they came; NaN last, and those without one not at all.
std::vector<std::size_t> printed(const RerankCommand& command, const std::vector<std::optional<PairScore>>& scores) {
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    if (!command.in_order) {
        std::erase_if(order, [&](std::size_t i) { return !scores[i]; });
        std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
            const float left = scores[a]->scores[0], right = scores[b]->scores[0];
            return left > right || (left == left && right != right);
        });
    }
    if (command.top > 0 && order.size() > command.top) order.resize(command.top);
    return order;
}

std::string line_of(const RerankCommand& command, const Input<TextPair>& pair, const std::optional<PairScore>& score) {
    if (command.json) return score ? as_json(pair.value, *score, pair.number - 1) : command.bad.as_json(pair);
    if (!score) return "";
    return scores_text(score->scores) + (command.pairs ? "" : "\t" + pair.value.second);
}

Result<int> run(RerankCommand command) {
    EncoderOptions options;
    VKFORMER_TRY(const auto folder, command.encoder.apply(options));
    VKFORMER_TRY(const auto adapters, command.lora.ask(options.adapters));
    if (command.pairs) command.in_order = true;
    VKFORMER_TRY(CrossEncoder model, CrossEncoder::load(folder, options));
    VKFORMER_CHECK(command.encoder.device.heed(model.notes()));
    if (!command.encoder.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", model.device().c_str());
    if (!command.in_order && model.labels() != 1)
        return Error{ErrorCode::InvalidArgument, "the model gives " + std::to_string(model.labels()) +
                                                     " scores for each pair, which have no order; say --in-order"};
    VKFORMER_TRY(auto pairs, read_pairs(command));
    const auto run = [&](const std::vector<TextPair>& some) {
        return model.score(some, show_done("pairs", 0, some.size()), adapters);
    };
    VKFORMER_TRY(const auto scores,
                 command.bad.results(pairs, run, [&](const TextPair& pair) { return model.check(pair); }));
    // What is best among some of them is no answer.
    if (command.bad.has_ended() && !command.in_order) return command.bad.finish();
    CutReport cut;
    for (const auto& score : scores)
        if (score) cut.add(score->cut);
    cut.show("pair", model.max_length());
    std::string out;
    for (const std::size_t i : printed(command, scores)) out += line_of(command, pairs[i], scores[i]) + "\n";
    VKFORMER_CHECK(print(out));
    return command.bad.finish();
}

}  // namespace

void add_rerank(CLI::App& app, Action& action) {
    auto options = std::make_shared<RerankCommand>();
    CLI::App& command = *app.add_subcommand("rerank", "Order documents by how well they answer a query");
    auto* const query = command.add_option("query", options->query, "The query");
    auto* const documents = command.add_option("document", options->documents, "Documents; none: lines of the input");
    options->encoder.add(command);
    options->lora.add(command);
    command.add_option("-i,--input", options->input, "A file with a document on each line (default: standard input)")
        ->excludes(documents);
    command.add_option("--top", options->top, "Print only so many")->check(CLI::Range(1u, 1u << 30));
    command.add_flag("--in-order", options->in_order, "Print all in the order of the input");
    command
        .add_flag("--pairs", options->pairs,
                  "No query: each line of the input is a text, a tab and another; prints scores in that order")
        ->excludes(query);
    options->bad.add(command);
    command.add_flag("--json", options->json, "One JSON object per line: index, query, document, score, cut");
    command.footer(
        "Prints score and document, the best first. The model is a cross-encoder: a folder whose architecture is\n"
        "\"...ForSequenceClassification\", or a Qwen3-Reranker.\n"
        "Examples:\n"
        "  vkformer rerank --model ms-marco-MiniLM-L6-v2 \"how tall is a giraffe\" \"Up to 5.5 m.\" \"It is yellow.\"\n"
        "  vkformer rerank --model ms-marco-MiniLM-L6-v2 --top 10 \"how tall is a giraffe\" < passages.txt");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
