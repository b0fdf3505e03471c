// SPDX-License-Identifier: MIT
#include "models/sentence.hpp"

#include <algorithm>
#include <array>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/paths.hpp"
#include "core/try.hpp"
#include "formats/json.hpp"
#include "formats/weights.hpp"
#include "models/open_model.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using graph::Activation;
using graph::Graph;
using graph::Pooling;
using graph::Value;

struct NamedPooling {
    std::string_view name;   // in options, and in newer configs' "pooling_mode"
    std::string_view field;  // of 1_Pooling/config.json
    Pooling pooling;
};
/// In the order in which sentence-transformers puts them together.
constexpr std::array<NamedPooling, 6> kPoolings = {{
    {"cls", "pooling_mode_cls_token", Pooling::first},
    {"max", "pooling_mode_max_tokens", Pooling::max},
    {"mean", "pooling_mode_mean_tokens", Pooling::mean},
    {"mean_sqrt_len", "pooling_mode_mean_sqrt_len_tokens", Pooling::root_mean},
    {"weightedmean", "pooling_mode_weightedmean_tokens", Pooling::weighted_mean},
    {"lasttoken", "pooling_mode_lasttoken", Pooling::last},
}};

constexpr std::array<std::pair<std::string_view, Activation>, 6> kModules = {{
    {"Identity", Activation::none},
    {"Tanh", Activation::tanh},
    {"Sigmoid", Activation::sigmoid},
    {"ReLU", Activation::relu},
    {"GELU", Activation::gelu_erf},
    {"SiLU", Activation::silu},
}};

/// The activation that a field names as a class of PyTorch: "torch.nn.modules.activation.Tanh".
Result<Activation> read_module(const Config& config, std::string_view field, std::optional<std::string> fallback) {
    VKFORMER_TRY(const std::string path, config.string(field, std::move(fallback)));
    const std::size_t dot = path.rfind('.');
    const std::string_view name = std::string_view(path).substr(dot == path.npos ? 0 : dot + 1);
    std::string supported;
    for (const auto& [known, activation] : kModules) {
        if (known == name) return activation;
        supported += (supported.empty() ? "torch.nn." : ", ") + std::string(known);
    }
    return config.unsupported(field, supported);
}

// ---- modules --------------------------------------------------------------------------------------------------------

Result<void> read_pooling(const std::filesystem::path& folder, SentenceModel& model) {
    VKFORMER_TRY(const Config config, Config::open(folder / "config.json"));
    VKFORMER_TRY(model.pools_prompt, config.boolean("include_prompt", true));
    model.pooling.clear();
    if (config.has("pooling_mode")) {
        VKFORMER_TRY(const std::string mode, config.string("pooling_mode"));
        auto pooling = parse_pooling(mode == "mean_sqrt_len_tokens" ? "mean_sqrt_len" : mode);
        if (!pooling) return config.unsupported("pooling_mode", pooling.error().message);
        model.pooling = {*pooling};
        return {};
    }
    for (const NamedPooling& known : kPoolings) {
        VKFORMER_TRY(const bool is_on, config.boolean(known.field, known.pooling == Pooling::mean));
        if (is_on) model.pooling.push_back(known.pooling);
    }
    if (model.pooling.empty())
        return Error{ErrorCode::UnsupportedConfig, (folder / "config.json").string() + ": no pooling mode is on"};
    return {};
}

Result<void> read_dense(const std::filesystem::path& folder, SentenceModel& model) {
    VKFORMER_TRY(const Config config, Config::open(folder / "config.json"));
    const formats::Expect<std::uint32_t> count = {.min = 1, .max = 1u << 20};
    VKFORMER_TRY(const std::uint32_t in, config.unsigned_integer("in_features", count));
    VKFORMER_TRY(const std::uint32_t out, config.unsigned_integer("out_features", count));
    VKFORMER_TRY(const bool has_bias, config.boolean("bias", true));
    DenseStage dense;
    VKFORMER_TRY(dense.activation, read_module(config, "activation_function", "torch.nn.modules.activation.Tanh"));
    VKFORMER_TRY(const formats::Weights weights, formats::open_weights(folder));
    const WeightReader read(weights, "linear.");
    VKFORMER_TRY(dense.weight, read.tensor("weight", {out, in}));
    if (has_bias) {
        VKFORMER_TRY(dense.bias, read.tensor("bias", {out}));
    }
    model.stages.emplace_back(std::move(dense));
    return {};
}

/// A module's folder lies within the model's: what a file says cannot lead elsewhere.
Result<std::filesystem::path> module_folder(const std::filesystem::path& folder, const std::string& path) {
    const std::filesystem::path relative = utf8_path(path);
    const bool climbs = std::ranges::any_of(relative, [](const auto& part) { return part == ".."; });
    if (relative.has_root_path() || climbs || path.find('\0') != path.npos)
        return Error{ErrorCode::CorruptFile,
                     "modules.json: the path " + formats::quote(path) + " leads out of the model's folder"};
    return folder / relative;
}

constexpr const char* kModulesFile = "modules.json";
constexpr const char* kLibraryFile = "config_sentence_transformers.json";

/// An entry of modules.json.
struct Module {
    Config config;
    std::string name;  ///< "Pooling", without what precedes it
    std::filesystem::path at;
};

Result<std::vector<Module>> list_modules(const std::filesystem::path& folder) {
    VKFORMER_TRY(const nlohmann::json list, formats::read_json(folder / kModulesFile));
    if (!list.is_array() || list.empty())
        return Error{ErrorCode::CorruptFile, std::string(kModulesFile) + ": is no list of modules"};
    std::vector<Module> modules;
    for (const nlohmann::json& element : list) {
        VKFORMER_TRY(const Config module, Config::parse(element.dump(), kModulesFile));
        VKFORMER_TRY(const std::string type, module.string("type"));
        VKFORMER_TRY(const std::string path, module.string("path", ""));
        VKFORMER_TRY(const auto at, module_folder(folder, path));
        const std::size_t dot = type.rfind('.');
        modules.push_back({module, type.substr(dot == type.npos ? 0 : dot + 1), at});
    }
    return modules;
}

Result<void> read_modules(const std::filesystem::path& folder, SentenceModel& model) {
    VKFORMER_TRY(const auto modules, list_modules(folder));
    std::size_t index = 0;
    bool has_pooling = false;
    for (const auto& [module, name, at] : modules) {
        const bool is_first = index++ == 0;
        if (is_first != (name == "Transformer"))
            return module.unsupported("type", "a Transformer first, then Pooling, Dense and Normalize");
        if (name == "Transformer") {
            model.encoder_folder = at;
            model.is_listed = true;
        } else if (name == "Pooling" && !has_pooling) {
            VKFORMER_CHECK(read_pooling(at, model));
            has_pooling = true;
        } else if (name == "Dense" && has_pooling) {
            VKFORMER_CHECK(read_dense(at, model));
        } else if (name == "Normalize" && has_pooling) {
            model.stages.emplace_back(NormalizeStage{});
        } else if (name != "Dropout") {
            return module.unsupported("type", "a Transformer first, then Pooling, Dense and Normalize");
        }
    }
    if (!has_pooling)
        return Error{ErrorCode::UnsupportedConfig, std::string(kModulesFile) + ": there is no module of type Pooling"};
    return {};
}

// ---- what goes in ---------------------------------------------------------------------------------------------------

/// max_seq_length and do_lower_case; the file is named after the architectures that there were. `takes_messages`: texts become a prompt.
Result<void> read_text_options(SentenceModel& model, bool takes_messages = false) {
    constexpr std::array<const char*, 6> kFiles = {"sentence_bert_config.json",        "sentence_roberta_config.json",
                                                   "sentence_distilbert_config.json",  "sentence_camembert_config.json",
                                                   "sentence_xlm-roberta_config.json", "sentence_albert_config.json"};
    for (const char* const file : kFiles) {
        std::error_code ignored;
        if (!std::filesystem::exists(model.encoder_folder / file, ignored)) continue;
        VKFORMER_TRY(const Config config, Config::open(model.encoder_folder / file));
        VKFORMER_TRY(model.max_length, config.unsigned_integer("max_seq_length", {.fallback = 0, .min = 1}));
        VKFORMER_TRY(model.lower_case, config.boolean("do_lower_case", false));
        VKFORMER_TRY(const Config modalities, config.object("modality_config"));
        if (modalities.has("message") && !takes_messages)
            return config.unsupported("modality_config", "without \"message\"");
        if (model.lower_case && takes_messages) return config.unsupported("do_lower_case", "false");
        return {};
    }
    return {};
}

Result<void> read_prompts(const std::filesystem::path& folder, SentenceModel& model) {
    VKFORMER_TRY(const Config config, Config::open_if_present(folder / kLibraryFile));
    VKFORMER_TRY(const Config prompts, config.object("prompts"));
    for (const std::string& name : prompts.names()) {
        VKFORMER_TRY(model.prompts[name], prompts.string(name));
    }
    VKFORMER_TRY(model.default_prompt, config.string("default_prompt_name", ""));
    if (!model.default_prompt.empty() && !model.prompts.contains(model.default_prompt))
        return config.unsupported("default_prompt_name", "a name in \"prompts\"");
    return {};
}

/// The library has other models than those that give vectors, in folders that look alike.
Result<void> refuse_other_models(const std::filesystem::path& folder) {
    VKFORMER_TRY(const Config config, Config::open_if_present(folder / kLibraryFile));
    VKFORMER_TRY(const std::string type, config.string("model_type", "SentenceTransformer"));
    if (type == "SentenceTransformer") return {};
    Error error = config.unsupported("model_type", "SentenceTransformer");
    if (type == "CrossEncoder") error.hint = Hint::cross_encoder;
    return error;
}

}  // namespace

bool SentenceModel::normalizes() const noexcept {
    return std::ranges::any_of(stages, [](const auto& stage) { return std::holds_alternative<NormalizeStage>(stage); });
}

void SentenceModel::set_normalize(bool normalize) {
    std::erase_if(stages, [](const auto& stage) { return std::holds_alternative<NormalizeStage>(stage); });
    if (normalize) stages.emplace_back(NormalizeStage{});
}

std::uint64_t SentenceModel::dimension(std::uint64_t hidden_size) const noexcept {
    std::uint64_t width = hidden_size * pooling.size();
    for (const auto& stage : stages)
        if (const auto* const dense = std::get_if<DenseStage>(&stage)) width = dense->weight.shape[0];
    return width;
}

Result<std::optional<ScoreTokens>> read_score_tokens(const std::filesystem::path& folder) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder / kModulesFile, ignored)) return std::optional<ScoreTokens>();
    VKFORMER_TRY(const auto modules, list_modules(folder));
    for (const Module& module : modules) {
        if (module.name != "LogitScore") continue;
        VKFORMER_TRY(const Config config, Config::open(module.at / "config.json"));
        const formats::Expect<std::uint32_t> token = {.max = 1u << 30};
        VKFORMER_TRY(const std::uint32_t yes, config.unsigned_integer("true_token_id", token));
        if (!config.has("false_token_id")) return std::optional<ScoreTokens>({.yes = static_cast<std::int32_t>(yes)});
        VKFORMER_TRY(const std::uint32_t no, config.unsigned_integer("false_token_id", token));
        return std::optional<ScoreTokens>({.yes = static_cast<std::int32_t>(yes), .no = static_cast<std::int32_t>(no)});
    }
    return std::optional<ScoreTokens>();
}

Result<ScoreTexts> read_score_texts(const std::filesystem::path& folder) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder / kModulesFile, ignored)) return ScoreTexts{};
    VKFORMER_TRY(const auto modules, list_modules(folder));
    SentenceModel model{.encoder_folder = modules.front().at};
    VKFORMER_CHECK(read_text_options(model, true));
    VKFORMER_CHECK(read_prompts(folder, model));
    const auto prompt = model.prompts.find(model.default_prompt);
    return ScoreTexts{.max_length = model.max_length,
                      .prompt = model.default_prompt.empty() ? "" : std::move(prompt->second)};
}

Result<std::vector<std::filesystem::path>> stage_folders(const std::filesystem::path& folder) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder / kModulesFile, ignored)) return std::vector<std::filesystem::path>{};
    VKFORMER_TRY(const auto modules, list_modules(folder));
    std::vector<std::filesystem::path> stages;
    for (const Module& module : modules)
        if (!std::filesystem::equivalent(module.at, folder, ignored) &&
            std::filesystem::is_directory(module.at, ignored))
            stages.push_back(module.at.lexically_relative(folder));
    return stages;
}

Result<SentenceModel> load_sentence_model(const std::filesystem::path& path) {
    if (formats::is_file(path)) {
        VKFORMER_TRY(const OpenedModel opened, open_model(path, std::array{ModelKind::encoder}));
        VKFORMER_TRY(SentenceModel model, load_gguf_sentence_model(*std::get<Opened<Encoder>>(opened).gguf()));
        model.encoder_folder = path;
        return model;
    }
    const std::filesystem::path& folder = path;
    SentenceModel model{.encoder_folder = folder};
    VKFORMER_CHECK(refuse_other_models(folder));
    std::error_code ignored;
    if (std::filesystem::exists(folder / kModulesFile, ignored)) VKFORMER_CHECK(read_modules(folder, model));
    VKFORMER_CHECK(read_text_options(model));
    VKFORMER_CHECK(read_prompts(folder, model));
    return model;
}

namespace {

Result<Value> add_dense(Graph& graph, const std::string& name, const DenseStage& dense, Value x) {
    VKFORMER_TRY(const Value weight, graph.weight(name + ".weight", dense.weight, DType::f32));
    Value bias;
    if (!dense.bias.bytes.empty()) {
        VKFORMER_TRY(bias, graph.weight(name + ".bias", dense.bias, DType::f32));
    }
    VKFORMER_TRY(const Value y, graph::linear(graph, x, weight, bias));
    return dense.activation == Activation::none ? Result<Value>(y) : graph::activate(graph, y, dense.activation);
}

}  // namespace

Result<Value> add_sentence(Graph& graph, const SentenceModel& model, const EncoderTensors& encoder) {
    graph.set_scope("sentence");
    Value x;
    for (const Pooling pooling : model.pooling) {
        VKFORMER_TRY(const Value pooled, graph::pool(graph, encoder.hidden, encoder.lengths, pooling));
        if (!x) {
            x = pooled;
            continue;
        }
        VKFORMER_TRY(x, graph::concat(graph, x, pooled));
    }
    for (std::size_t i = 0; i < model.stages.size(); ++i) {
        const std::string name = "sentence." + std::to_string(i);
        graph.set_scope(name);
        if (const auto* const dense = std::get_if<DenseStage>(&model.stages[i])) {
            VKFORMER_TRY(x, add_dense(graph, name, *dense, x));
        } else {
            VKFORMER_TRY(x, graph::l2_normalize(graph, x));
        }
    }
    return x;
}

std::string_view pooling_name(Pooling pooling) noexcept {
    const auto known = std::ranges::find(kPoolings, pooling, &NamedPooling::pooling);
    return known == kPoolings.end() ? "?" : known->name;
}

Result<Pooling> parse_pooling(std::string_view name) {
    std::string names;
    for (const NamedPooling& known : kPoolings) {
        if (known.name == name) return known.pooling;
        names += (names.empty() ? "" : ", ") + std::string(known.name);
    }
    return Error{ErrorCode::InvalidArgument, "there is no pooling " + formats::quote(name) + "; there are " + names};
}

Result<Activation> read_score_activation(const Config& library, const Config& config, std::uint32_t labels) {
    if (library.has("activation_fn")) return read_module(library, "activation_fn", {});
    VKFORMER_TRY(const Config newer, config.object("sentence_transformers"));
    if (newer.has("activation_fn")) return read_module(newer, "activation_fn", {});
    constexpr std::string_view kOlder = "sbert_ce_default_activation_function";
    if (config.has(kOlder)) return read_module(config, kOlder, {});
    return labels == 1 ? Activation::sigmoid : Activation::none;
}

Result<Activation> read_score_activation(const std::filesystem::path& folder, std::uint32_t labels) {
    std::error_code ignored;
    const bool has_modules = std::filesystem::exists(folder / kModulesFile, ignored);
    VKFORMER_TRY(const Config library,
                 has_modules ? Config::open_if_present(folder / kLibraryFile) : Config::parse("{}", kLibraryFile));
    VKFORMER_TRY(const Config config, Config::open(folder / "config.json"));
    return read_score_activation(library, config, labels);
}

}  // namespace vkformer::models
