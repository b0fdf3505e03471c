// SPDX-License-Identifier: MIT
#include <algorithm>
#include <filesystem>

#include "models/model_case.hpp"
#include "models/open_model.hpp"
#include "models/sentence.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

std::vector<std::string> encoder_cases() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(goldens_dir() / "encoders"))
        if (entry.is_directory()) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

models::Encoder load_encoder_case(const std::string& name) {
    return must(models::load_encoder(goldens_dir() / "encoders" / name));
}

std::vector<std::int32_t> lengths_of(const Golden& golden) {
    const Shape shape = golden.shape("attention_mask");
    const auto mask = golden.ints("attention_mask");
    std::vector<std::int32_t> lengths;
    for (std::size_t b = 0; b < shape[0]; ++b)
        lengths.push_back(
            static_cast<std::int32_t>(std::ranges::count(std::span(mask).subspan(b * shape[1], shape[1]), 1)));
    return lengths;
}

/// A graph of the golden's batch, to which heads are added before it runs.
struct EncoderPass {
    graph::Graph graph;
    models::EncoderTensors tensors;
    std::unique_ptr<graph::Program> program;

    EncoderPass(const models::Encoder& encoder, const Golden& golden, DType dtype, bool token_types) {
        const Shape shape = golden.shape("input_ids");
        tensors = must(encoder.add_encoder(graph, {.batch = static_cast<std::uint32_t>(shape[0]),
                                                   .len = static_cast<std::uint32_t>(shape[1]),
                                                   .dtype = dtype,
                                                   .token_types = token_types}));
        graph.mark_output(tensors.hidden);
    }
    graph::Value output(Result<graph::Value> value) {
        const graph::Value made = must(std::move(value));
        graph.mark_output(made);
        return made;
    }
    void run(graph::Backend& backend, const Golden& golden) {
        program = must(backend.compile(graph::make_plan(graph), backend.make_store(), backend.make_store()));
        const auto tokens = golden.ints("input_ids"), lengths = lengths_of(golden);
        must(program->write(tensors.tokens, std::span<const std::int32_t>(tokens)));
        must(program->write(tensors.lengths, std::span<const std::int32_t>(lengths)));
        if (tensors.types) {
            const auto types = golden.has("token_type_ids") ? golden.ints("token_type_ids")
                                                            : std::vector<std::int32_t>(tokens.size(), 0);
            must(program->write(tensors.types, std::span<const std::int32_t>(types)));
        }
        must(program->submit());
        must(program->wait());
    }
    std::vector<double> read(graph::Value value) const {
        std::vector<double> values(program->plan().graph.shape(value).element_count());
        must(program->read(value, std::span<double>(values)));
        return values;
    }
};

}  // namespace

TEST_CASE("encoders give Hugging Face's last hidden states and scores", "[models][encoder][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    for (const std::string& name : encoder_cases()) {
        CAPTURE(backend.name(), name, to_string(dtype));
        const models::Encoder encoder = load_encoder_case(name);
        const Golden golden("encoders/" + name + "/golden.safetensors");
        EncoderPass pass(encoder, golden, dtype, golden.has("token_type_ids"));
        graph::Value logits;
        if (golden.has("logits")) logits = pass.output(encoder.add_classifier(pass.graph, pass.tensors.hidden));
        pass.run(backend, golden);

        std::vector<double> hidden = pass.read(pass.tensors.hidden);
        const Shape shape = golden.shape("last_hidden_state");
        const auto lengths = lengths_of(golden);
        for (std::size_t i = 0; i < hidden.size(); ++i)  // the golden has zeros for padding
            if (i / shape[2] % shape[1] >= static_cast<std::size_t>(lengths[i / shape[2] / shape[1]])) hidden[i] = 0;
        const double bound = model_bound(backend, dtype);
        check_golden(hidden, golden, "last_hidden_state", bound);
        if (logits) check_golden(pass.read(logits), golden, "logits", bound);
        CHECK((encoder.config().labels > 0) == golden.has("logits"));
    }
}

TEST_CASE("poolings are those of sentence-transformers", "[models][encoder][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("bert_h33_relu", "distilbert_h30", "roberta_h21");
    CAPTURE(backend.name(), name);
    const models::Encoder encoder = load_encoder_case(name);
    const Golden golden("encoders/" + name + "/golden.safetensors");
    EncoderPass pass(encoder, golden, DType::f32, golden.has("token_type_ids"));
    std::vector<std::pair<std::string, graph::Value>> results;
    for (const std::string pooling : {"cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken"}) {
        models::SentenceModel sentence;
        sentence.pooling = {must(models::parse_pooling(pooling))};
        results.emplace_back("pooled." + pooling,
                             pass.output(models::add_sentence(pass.graph, sentence, pass.tensors)));
    }
    models::SentenceModel normalized;
    normalized.set_normalize(true);
    results.emplace_back("pooled.mean.normalized",
                         pass.output(models::add_sentence(pass.graph, normalized, pass.tensors)));
    pass.run(backend, golden);
    for (const auto& [golden_name, value] : results)
        check_golden(pass.read(value), golden, golden_name, model_bound(backend, DType::f32));
}

TEST_CASE("a table of positions with type 0 says what types of 0 say", "[models][encoder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Encoder encoder = load_encoder_case("bert_h20");
    const Golden golden("encoders/bert_h20/golden.safetensors");
    EncoderPass without(encoder, golden, DType::f32, false), with(encoder, golden, DType::f32, true);
    without.run(backend, golden);
    with.run(backend, golden);
    const auto a = without.read(without.tensors.hidden), b = with.read(with.tensors.hidden);
    CHECK(relative_error(std::span<const double>(a), std::span<const double>(b)) < kModelBound);
}

}  // namespace vkformer::tests
