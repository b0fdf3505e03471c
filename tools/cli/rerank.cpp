// SPDX-License-Identifier: MIT
/// vkformer rerank: how well documents answer a query, by a cross-encoder.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "encoder_options.hpp"
#include "line_reader.hpp"

namespace vkformer::cli {
namespace {

struct RerankCommand {
    EncoderCommand encoder;
    std::string query;
    std::vector<std::string> documents;
    std::string input;
    std::uint32_t top = 0;
    bool in_order = false, pairs = false, json = false;
};

Result<std::vector<std::string>> read_all(const std::string& path) {
    VKFORMER_TRY(LineReader reader, LineReader::open(path));
    std::vector<std::string> all;
    for (auto lines = reader.next(); !lines.empty(); lines = reader.next())
        all.insert(all.end(), std::make_move_iterator(lines.begin()), std::make_move_iterator(lines.end()));
    return all;
}

/// "query<tab>document"
Result<TextPair> split_pair(const std::string& line, std::size_t number) {
    const std::size_t tab = line.find('\t');
    if (tab == line.npos)
        return Error{ErrorCode::InvalidArgument, "line " + std::to_string(number) + " has no tab between two texts"};
    return TextPair{line.substr(0, tab), line.substr(tab + 1)};
}

Result<std::vector<TextPair>> read_pairs(const RerankCommand& command) {
    std::vector<TextPair> pairs;
    std::vector<std::string> documents = command.documents;
    if (documents.empty()) {
        VKFORMER_TRY(documents, read_all(command.input));
    }
    for (std::string& document : documents) {
        TextPair pair{command.query, std::move(document)};
        if (command.pairs) {
            VKFORMER_TRY(pair, split_pair(pair.second, pairs.size() + 1));
        }
        pairs.push_back(std::move(pair));
    }
    return pairs;
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

/// Which results are printed, in which order: by the score, equal ones as they came; NaN last.
std::vector<std::size_t> printed(const RerankCommand& command, const std::vector<PairScore>& scores) {
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    if (!command.in_order)
        std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
            const float left = scores[a].scores[0], right = scores[b].scores[0];
            return left > right || (left == left && right != right);
        });
    if (command.top > 0 && order.size() > command.top) order.resize(command.top);
    return order;
}

Result<int> run(RerankCommand command) {
    EncoderOptions options;
    VKFORMER_TRY(const auto folder, command.encoder.apply(options));
    if (command.pairs) command.in_order = true;
    VKFORMER_TRY(CrossEncoder model, CrossEncoder::load(folder, options));
    if (!command.encoder.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", model.device().c_str());
    if (!command.in_order && model.labels() != 1)
        return Error{ErrorCode::InvalidArgument, "the model gives " + std::to_string(model.labels()) +
                                                     " scores for each pair, which have no order; say --in-order"};
    VKFORMER_TRY(const auto pairs, read_pairs(command));
    VKFORMER_TRY(const auto scores, model.score(pairs, show_done("pairs", 0, pairs.size())));
    CutReport cut;
    for (const PairScore& score : scores) cut.add(score.cut);
    cut.show("pair", model.max_length());
    std::string out;
    for (const std::size_t i : printed(command, scores))
        out += (command.json ? as_json(pairs[i], scores[i], i)
                             : scores_text(scores[i].scores) + (command.pairs ? "" : "\t" + pairs[i].second)) +
               "\n";
    VKFORMER_CHECK(print(out));
    return kOk;
}

}  // namespace

void add_rerank(CLI::App& app, Action& action) {
    auto options = std::make_shared<RerankCommand>();
    CLI::App& command = *app.add_subcommand("rerank", "Order documents by how well they answer a query");
    auto* const query = command.add_option("query", options->query, "The query");
    auto* const documents = command.add_option("document", options->documents, "Documents; none: lines of the input");
    options->encoder.add(command);
    command.add_option("-i,--input", options->input, "A file with a document on each line (default: standard input)")
        ->excludes(documents);
    command.add_option("--top", options->top, "Print only so many")->check(CLI::Range(1u, 1u << 30));
    command.add_flag("--in-order", options->in_order, "Print all in the order of the input");
    command
        .add_flag("--pairs", options->pairs,
                  "No query: each line of the input is a text, a tab and another; prints scores in that order")
        ->excludes(query);
    command.add_flag("--json", options->json, "One JSON object per line: index, query, document, score, cut");
    command.footer(
        "Prints score and document, the best first. The model is a cross-encoder: a folder whose architecture is\n"
        "\"...ForSequenceClassification\".\n"
        "Examples:\n"
        "  vkformer rerank --model ms-marco-MiniLM-L6-v2 \"how tall is a giraffe\" \"Up to 5.5 m.\" \"It is yellow.\"\n"
        "  vkformer rerank --model ms-marco-MiniLM-L6-v2 --top 10 \"how tall is a giraffe\" < passages.txt");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
