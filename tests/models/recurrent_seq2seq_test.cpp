// SPDX-License-Identifier: MIT
// Recurrent encoder–decoders against the same model in PyTorch and transformers' generate() (tests/goldens/make_seq2seq.py).
#include "models/recurrent_seq2seq.hpp"

#include <functional>

#include "cpu/backend.hpp"
#include "decoding/generate_case.hpp"
#include "decoding/steps.hpp"
#include "models/model_case.hpp"
#include "models/open_model.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "validation/validate.hpp"

namespace vkformer::tests {
namespace {

using models::SourceMask;

const char* const kCases[] = {
    "lstm_4_layers_backward",
    "gru_bidirectional_additive_previous",
    "lstm_2_layers_bidirectional_additive_previous",
    "lstm_dot_feeding",
    "lstm_general_bidirectional",
    "gru_concat_feeding_backward",
    "lstm_general_local_m",
    "gru_dot_local_p",
};

std::filesystem::path seq2seq_folder(const std::string& name) { return goldens_dir() / "seq2seq" / name; }

auto cases() { return GENERATE(from_range(std::begin(kCases), std::end(kCases))); }

TEST_CASE("a recurrent model's forward pass is PyTorch's", "[models][recurrent][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = cases();
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), name, to_string(dtype));
    const auto model = must(models::load_encoder_decoder(seq2seq_folder(name)));
    const Golden golden("seq2seq/" + name + "/golden.safetensors");
    const TokenBatch source = token_batch(golden, "input_ids", "attention_mask");
    const TokenBatch target = token_batch(golden, "decoder_input_ids", "");
    const bool attends = golden.has("cross_attentions.0");
    for (const bool keeps_weights : {false, true}) {
        CAPTURE(keeps_weights);
        if (keeps_weights && !attends) continue;
        const ForwardRun run =
            run_forward(*model, backend, source, target,
                        {.dtype = dtype, .source_mask = SourceMask::lengths, .layers = {.attention = keeps_weights}});
        // The weights of these models are ten times as large as trained ones, so that float16's rounding of the states is too.
        const double bound = dtype == DType::f16 ? 3e-3 : is_double(backend) ? kDoubleBound : 1e-5;
        check_golden(run, run.forward.logits, golden, "logits", bound);
        check_golden(run, run.forward.encoder_hidden, golden, "encoder_last_hidden_state", bound);
        CHECK(run.forward.attention.size() == (keeps_weights ? 1 : 0));
        if (keeps_weights) check_golden(run, run.forward.attention[0].weights, golden, "cross_attentions.0", bound);
    }
}

TEST_CASE("a recurrent model generates what generate() does", "[models][recurrent][decoding][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = cases();
    CAPTURE(backend.name(), name);
    if (!takes_case(backend, 2)) return;
    const auto model = must(models::load_encoder_decoder(seq2seq_folder(name)));
    const json folder_config = read_json(seq2seq_folder(name) / "generation_config.json");
    const json entries = read_json(seq2seq_folder(name) / "generate.json");
    REQUIRE(entries.size() >= 5);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const Entry entry =
            read_entry(entries[i], folder_config, model->limits().target_len, model->limits().target_vocab);
        CAPTURE(i, entries[i]["options"].dump());
        const auto sources = sources_of(entry);
        const std::uint32_t batches[] = {static_cast<std::uint32_t>(sources.size()), 1, 4};
        auto session =
            must(decoding::Session::create(backend, *model, {.generation = entry.generation, .batch = batches[i % 3]}));
        check(entry, must(session.generate(sources)), true);
        check(entry, must(session.generate(sources)), true);  // the states start anew
    }
}

TEST_CASE("every node of a recurrent model agrees with double precision", "[models][recurrent][validate]") {
    const std::string name = cases();
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const auto model = must(models::load_encoder_decoder(seq2seq_folder(name)));
    auto f = must(model->forward({.batch = 2,
                                  .source_len = 7,
                                  .target_len = 3,
                                  .dtype = dtype,
                                  .source_mask = SourceMask::lengths,
                                  .layers = {.attention = true}}));
    const validation::Feeds feeds = {
        {"input_ids", std::vector<std::int32_t>{3, 4, 5, 6, 7, 8, 2, 9, 10, 11, 2, 0, 0, 0}},
        {"decoder_input_ids", std::vector<std::int32_t>{1, 5, 6, 1, 7, 8}},
        {"source_lengths", std::vector<std::int32_t>{7, 4}}};
    const auto oracle = cpu::make_cpu_backend<double>();
    for (graph::Backend* backend : vulkan_backends()) {
        CAPTURE(backend->name(), name, to_string(dtype));
        const auto report = must(validation::validate(f.graph, "forward", feeds, *backend, *oracle));
        const validation::NodeCheck* first = report.first_divergence();
        CAPTURE(first ? first->node : "", first ? first->error : 0, first ? first->bound : 0);
        CHECK(first == nullptr);
        CHECK(report.checks.size() > 20);
    }
}

// ---- what is refused ------------------------------------------------------------------------------------------------

json config_of(const std::string& name) { return read_json(seq2seq_folder(name) / "config.json"); }

Result<models::RecurrentSeq2SeqConfig> parse_recurrent(const json& config) {
    return models::parse_recurrent_seq2seq_config(must(formats::Config::parse(config.dump(), "config.json")));
}

TEST_CASE("a recurrent config that makes no sense is refused by name", "[models][recurrent][errors]") {
    struct Case {
        const char* base;
        const char* field;
        json value;
    };
    const Case refused[] = {
        {"lstm_dot_feeding", "model_type", "marian"},
        {"lstm_dot_feeding", "cell", "rnn"},
        {"lstm_dot_feeding", "encoder_direction", "sideways"},
        {"lstm_dot_feeding", "encoder_layers", 0},
        {"lstm_dot_feeding", "encoder_layers", 3},         // bridge copy wants as many in the decoder
        {"lstm_dot_feeding", "decoder_hidden_dim", 2000},  // beyond what a layer takes
        {"lstm_dot_feeding", "decoder_hidden_dim", 16},
        {"lstm_dot_feeding", "attention", "cosine"},
        {"lstm_dot_feeding", "attention", "additive"},  // no attention_dim
        {"lstm_dot_feeding", "attention_query", "next"},
        {"lstm_dot_feeding", "attention_query", "previous"},    // with input feeding
        {"lstm_dot_feeding", "attention_window", "monotonic"},  // no half width
        {"lstm_dot_feeding", "vocab_size", "many"},
        {"lstm_dot_feeding", "max_length", -1},
        {"lstm_dot_feeding", "dropout", 0.1},
        {"lstm_general_bidirectional", "bridge", "copy"},
        {"lstm_general_bidirectional", "attention", "dot"},  // 14 wide outputs, 9 wide states
        {"lstm_4_layers_backward", "input_feeding", true},
    };
    for (const Case& c : refused) {
        json config = config_of(c.base);
        config[c.field] = c.value;
        CAPTURE(c.base, c.field, c.value.dump());
        const auto result = parse_recurrent(config);
        REQUIRE_FALSE(result);
        INFO(result.error().message);
        CHECK(result.error().message.find("config.json") != std::string::npos);
    }
    for (const char* name : kCases) CHECK(parse_recurrent(config_of(name)));
}

TEST_CASE("a recurrent model with wrong weights is refused", "[models][recurrent][errors]") {
    const std::string name = "gru_bidirectional_additive_previous";
    const auto config = must(parse_recurrent(config_of(name)));
    const auto create = [&](const std::function<void(formats::TensorMap&)>& change) {
        formats::TensorMap tensors = must(formats::open_weights(seq2seq_folder(name))).tensors();
        change(tensors);
        return models::RecurrentSeq2Seq::create(config, formats::Weights("model.safetensors", std::move(tensors)));
    };
    CHECK(create([](formats::TensorMap&) {}));
    const formats::TensorMap all = must(formats::open_weights(seq2seq_folder(name))).tensors();
    for (const auto& [tensor, data] : all) {
        CAPTURE(tensor);
        const auto missing = create([&](formats::TensorMap& t) { t.erase(tensor); });
        REQUIRE_FALSE(missing);
        CHECK(missing.error().code == ErrorCode::MissingTensor);
        const auto misshapen = create([&](formats::TensorMap& t) {
            t[tensor].shape = {1, 1};
            t[tensor].bytes = t[tensor].bytes.first(4);
        });
        REQUIRE_FALSE(misshapen);
        CHECK(misshapen.error().code == ErrorCode::ShapeMismatch);
        CHECK(misshapen.error().message.find(tensor) != std::string::npos);
    }
}

TEST_CASE("a recurrent model refuses masks that are no padding", "[models][recurrent][errors]") {
    graph::Backend& backend = *test_backends().front();
    const auto model = must(models::load_encoder_decoder(seq2seq_folder("lstm_dot_feeding")));
    CHECK_FALSE(model->limits().takes_any_mask);
    CHECK_FALSE(model->forward({.source_mask = SourceMask::additive}));
    CHECK_FALSE(model->forward({.target_mask = true}));
    auto session = must(decoding::Session::create(
        backend, *model, {.generation = {.decoder_start = 1, .eos = 2, .pad = 0, .max_steps = 8}}));
    const std::vector<std::int32_t> tokens = {3, 4, 2};
    const std::vector<std::uint8_t> visible = {1, 0, 1};
    const decoding::Source source{.tokens = tokens, .visible = visible};
    const auto result = session.generate({&source, 1});
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::InvalidArgument);
    CHECK(result.error().message.find("padding") != std::string::npos);
}

TEST_CASE("a folder with an unknown model_type names those that are known", "[models][errors]") {
    const auto folder = std::filesystem::temp_directory_path() / "vkformer_unknown_model_type";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << R"({"model_type": "bert"})";
    const auto result = models::load_encoder_decoder(folder);
    std::filesystem::remove_all(folder);
    REQUIRE_FALSE(result);
    for (const char* known : {"marian", "bart", "m2m_100", "recurrent_seq2seq"})
        CHECK(result.error().message.find(known) != std::string::npos);
}

}  // namespace
}  // namespace vkformer::tests
