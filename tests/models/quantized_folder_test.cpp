// SPDX-License-Identifier: MIT
// Folders whose matrices are in block formats: every kind of model, with golden configs that are widened to whole blocks.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cpu/backend.hpp"
#include "formats/safetensors.hpp"
#include "formats/weights.hpp"
#include "models/changed_golden.hpp"
#include "models/model_case.hpp"
#include "models/open_model.hpp"
#include "models/write_blocks.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/quantized.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A golden with other sizes.
struct Widened {
    std::string golden;
    std::map<std::uint64_t, std::uint64_t> dims;  ///< the golden's → these; others stay
    json fields;                                  ///< what config.json says of them
    std::size_t matrices;                         ///< that are stored in blocks
    float gain = 1;                               ///< of the norms about; 0 where they add one to it
};

std::vector<Widened> widened_models() {
    const auto bart_like = [](std::string golden, std::array<std::uint64_t, 3> from, std::array<std::uint64_t, 3> to,
                              std::size_t matrices) {
        return Widened{std::move(golden),
                       {{from[0], to[0]}, {from[1], to[1]}, {from[2], to[2]}},
                       {{"d_model", to[0]},
                        {"encoder_ffn_dim", to[1]},
                        {"decoder_ffn_dim", to[2]},
                        {"encoder_attention_heads", 4},
                        {"decoder_attention_heads", 2}},
                       matrices};
    };
    return {
        bart_like("marian/relu_d30_h5_h3", {30, 37, 41}, {256, 96, 32}, 23),
        bart_like("marian/silu_d20_h4_h2_two_vocabularies", {20, 31, 45}, {64, 96, 32}, 31),
        bart_like("encoder_decoders/bart_d24_scaled_relu_untied", {24, 19, 23}, {96, 32, 64}, 28),
        bart_like("encoder_decoders/mbart_d20_h5_h2", {20, 27, 33}, {64, 96, 32}, 33),
        bart_like("encoder_decoders/m2m100_d26_h2", {26, 31, 37}, {64, 96, 32}, 23),
        bart_like("encoder_decoders/pegasus_d27_h3_h9", {27, 31, 19}, {64, 96, 32}, 23),
        bart_like("speech/whisper_d20_untied", {20, 33, 23}, {64, 96, 32}, 38),
        {"encoder_decoders/mt5_d18_gated_silu",
         {{18, 64}, {14, 96}, {21, 32}},
         {{"d_model", 64}, {"d_kv", 48}, {"d_ff", 32}},
         37},
        {"encoder_decoders/t5_d22_relu",
         {{22, 64}, {15, 96}, {37, 32}},
         {{"d_model", 64}, {"d_kv", 32}, {"d_ff", 32}},
         23},
        {"encoder_decoders/t5gemma_windows",
         {{24, 64}, {12, 32}, {21, 96}, {16, 32}, {8, 64}, {4, 32}, {25, 96}},
         {{"encoder", {{"hidden_size", 64}, {"head_dim", 32}, {"intermediate_size", 96}}},
          {"decoder",
           {{"hidden_size", 32}, {"head_dim", 32}, {"intermediate_size", 96}, {"cross_attention_hidden_size", 64}}}},
         40,
         0},
        {"encoders/roberta_scores",
         {{28, 64}, {45, 96}},
         {{"hidden_size", 64}, {"intermediate_size", 96}, {"num_attention_heads", 4}},
         13},
        {"encoders/distilbert_h30", {{30, 64}, {43, 96}}, {{"dim", 64}, {"hidden_dim", 96}, {"n_heads", 4}}, 13},
        // of each layer also what the rows for distances are projected with
        {"modern_encoders/deberta_v2_types",
         {{22, 64}, {31, 96}},
         {{"hidden_size", 64}, {"intermediate_size", 96}, {"pooler_hidden_size", 64}},
         17},
        {"modern_encoders/modernbert_h24",
         {{24, 64}, {35, 96}, {70, 192}, {72, 192}},
         {{"hidden_size", 64}, {"intermediate_size", 96}},
         25},
        {"modern_encoders/nomic_bert_h24",
         {{24, 64}, {37, 96}, {72, 192}},
         {{"hidden_size", 64}, {"intermediate_size", 96}, {"head_dim", 32}},
         13},
        {"vision/vit",
         {{20, 64}, {30, 96}},
         {{"hidden_size", 64}, {"intermediate_size", 96}, {"num_attention_heads", 4}},
         12},
        {"vision/clip",
         {{16, 64}, {24, 96}, {18, 32}, {27, 128}},
         {{"text_config", {{"hidden_size", 64}, {"intermediate_size", 96}}},
          {"vision_config", {{"hidden_size", 32}, {"intermediate_size", 128}, {"num_attention_heads", 2}}}},
         25},
        // of each of two layers all but what layer scale is multiplied into
        {"modern_vision/dino", {{20, 64}, {40, 128}, {60, 192}}, {{"hidden_size", 64}}, 8},
        {"modern_vision/siglip",
         {{16, 64}, {24, 96}, {20, 32}, {27, 128}, {60, 96}},
         {{"text_config", {{"hidden_size", 64}, {"intermediate_size", 96}, {"projection_size", 32}}},
          {"vision_config", {{"hidden_size", 32}, {"intermediate_size", 128}, {"num_attention_heads", 2}}}},
         25},
    };
}

Shape widened(const Shape& shape, const std::map<std::uint64_t, std::uint64_t>& dims) {
    std::vector<std::uint64_t> wide;
    for (const std::uint64_t dim : shape.dims()) wide.push_back(dims.contains(dim) ? dims.at(dim) : dim);
    return Shape(wide);
}

/// Matrices that keep what they multiply about as large as it is, gains about `gain`.
TensorData random_tensor(const std::string& name, const Shape& shape, float gain, std::mt19937& random) {
    const bool is_gain = shape.rank() == 1 && name.ends_with(".weight");
    const bool is_unscaled = name.ends_with("Attention.q.weight");  // T5 does not divide scores by √head_dim
    const double columns = static_cast<double>(shape.element_count()) / static_cast<double>(shape[0]);
    const double deviation = shape.rank() < 2 ? 0.1 : (is_unscaled ? 0.2 : 1.2) / std::sqrt(columns);
    std::normal_distribution<float> distribution(is_gain ? gain : 0, static_cast<float>(deviation));
    std::vector<float> values(shape.element_count());
    for (float& value : values) value = distribution(random);
    return owned(std::move(values), shape);
}

/// Writes the model at its new sizes, with random weights.
void write_widened(const Widened& model, const fs::path& folder) {
    const fs::path golden = goldens_dir() / model.golden;
    fs::create_directory(folder);
    fs::copy_file(golden / "config.json", folder / "config.json");
    write_config_with(folder, model.fields);
    std::mt19937 random(7);
    std::vector<formats::NamedTensor> tensors;
    const formats::Weights weights = must(formats::open_weights(golden));
    for (const auto& [name, data] : weights.tensors()) {
        const bool stays = data.shape.rank() == 0 || !is_float(data.dtype);
        tensors.push_back(
            {name, stays ? data : random_tensor(name, widened(data.shape, model.dims), model.gain, random)});
    }
    must(formats::write_safetensors(folder / "model.safetensors", tensors));
}

/// The numbers that the blocks stand for.
void write_floats(const fs::path& source, const fs::path& folder) {
    fs::create_directory(folder);
    fs::copy_file(source / "config.json", folder / "config.json");
    std::vector<formats::OutputTensor> tensors;
    const formats::Weights weights = must(formats::open_weights(source));
    for (const auto& [name, data] : weights.tensors())
        tensors.push_back({.name = name, .dtype = is_quantized(data.dtype) ? DType::f32 : data.dtype, .source = data});
    must(formats::write_safetensors(folder / "model.safetensors", tensors));
}

/// A forward pass over inputs that are always the same: what it leaves of each kind of model.
class Pass {
public:
    explicit Pass(graph::Backend& backend) : backend_(backend) {}

    std::vector<double> operator()(const models::Opened<std::unique_ptr<models::EncoderDecoder>>& opened) {
        return run(*must(opened.load()), 11);
    }
    std::vector<double> operator()(const models::Opened<models::SpeechModel>& opened) {
        const auto speech = must(opened.load());
        return run(*speech.model, static_cast<std::uint32_t>(speech.model->limits().source_len));
    }
    std::vector<double> operator()(const models::Opened<models::Encoder>& opened) {
        add(must(opened.load()));
        return run();
    }
    std::vector<double> operator()(const models::Opened<models::VisionEncoder>& opened) {
        add(must(opened.load()));
        return run();
    }
    std::vector<double> operator()(const models::Opened<models::Clip>& opened) {
        const auto clip = must(opened.load());
        add(clip.vision);
        add(clip.text);
        return run();
    }
    std::vector<double> operator()(const models::Opened<models::Decoder>&) {
        FAIL("a decoder");
        return {};
    }
    /// Weights of the last pass that are stored in blocks.
    std::size_t blocks() const {
        return static_cast<std::size_t>(std::ranges::count_if(graph_.tensors(), [](const graph::Tensor& tensor) {
            return tensor.kind == graph::TensorKind::weight && !tensor.alias_of && is_quantized(tensor.dtype);
        }));
    }

private:
    std::vector<double> run(const models::EncoderDecoder& model, std::uint32_t source_len) {
        models::ForwardGraph forward = must(model.forward({.batch = 2, .source_len = source_len, .target_len = 5}));
        outputs_ = {forward.encoder_hidden, forward.logits};
        graph_ = std::move(forward.graph);
        return run();
    }
    void add(const models::Encoder& encoder) {
        const auto tensors = must(encoder.add_encoder(graph_, {.batch = 2, .len = 9}));
        graph_.mark_output(tensors.hidden);
        outputs_.push_back(tensors.hidden);
    }
    void add(const models::VisionEncoder& encoder) {
        const auto tensors = must(encoder.add_encoder(graph_, {.batch = 2}));
        graph_.mark_output(tensors.hidden);
        outputs_.push_back(tensors.hidden);
    }
    std::vector<double> run() {
        const auto program =
            must(backend_.compile(graph::make_plan(graph_), backend_.make_store(), backend_.make_store()));
        std::mt19937 random(3);
        for (std::uint32_t id = 0; id < graph_.tensors().size(); ++id) {
            const graph::Tensor& tensor = graph_.tensors()[id];
            if (tensor.kind != graph::TensorKind::input || tensor.alias_of) continue;
            if (tensor.dtype == DType::i32) {
                std::vector<std::int32_t> tokens(tensor.shape.element_count());
                const bool is_length = tensor.name == "lengths";
                for (std::int32_t& token : tokens) token = is_length ? 9 : static_cast<std::int32_t>(random() % 30);
                must(program->write(graph::Value{id}, std::span<const std::int32_t>(tokens)));
            } else {
                std::normal_distribution<float> distribution;
                std::vector<float> numbers(tensor.shape.element_count());
                for (float& number : numbers) number = distribution(random);
                must(program->write(graph::Value{id}, std::span<const float>(numbers)));
            }
        }
        must(program->submit());
        must(program->wait());
        std::vector<double> all;
        for (const graph::Value output : outputs_) {
            std::vector<double> values(graph_.shape(output).element_count());
            must(program->read(output, std::span<double>(values)));
            all.insert(all.end(), values.begin(), values.end());
        }
        return all;
    }

    graph::Backend& backend_;
    graph::Graph graph_;
    std::vector<graph::Value> outputs_;
};

std::vector<double> run_folder(const fs::path& folder, graph::Backend& backend) {
    Pass pass(backend);
    return std::visit(pass, must(models::open_model(folder)));
}

}  // namespace

TEST_CASE("matrices that a scale is multiplied into when they are read are not put into blocks",
          "[models][quantized][folder][dino]") {
    const std::vector<Widened> models = widened_models();
    const auto dino = std::ranges::find(models, std::string("modern_vision/dino"), &Widened::golden);
    const TemporaryFolder folder;
    write_widened(*dino, folder / "given");
    write_blocks(folder / "given", folder / "blocks", DType::q8_0);
    const formats::TensorMap tensors = must(formats::open_weights(folder / "blocks")).tensors();
    const std::string layer = "dinov2.encoder.layer.1.";
    CHECK(tensors.at(layer + "mlp.fc1.weight").dtype == DType::q8_0);
    CHECK(tensors.at(layer + "attention.attention.query.weight").dtype == DType::q8_0);
    CHECK(tensors.at(layer + "mlp.fc2.weight").dtype == DType::f32);
    CHECK(tensors.at(layer + "attention.output.dense.weight").dtype == DType::f32);
}

TEST_CASE("a folder in blocks computes what its blocks stand for", "[models][quantized][folder]") {
    const auto floats_on_cpu = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    graph::Backend* const tested = GENERATE(from_range(test_backends()));
    graph::Backend& backend = tested == test_backends()[0] ? *floats_on_cpu : *tested;
    const auto oracle = cpu::make_cpu_backend<double>();
    const std::vector<Widened> models = widened_models();
    std::vector<std::pair<Widened, DType>> cases = {{models[0], DType::q4_k}};
    for (const Widened& model : models) cases.emplace_back(model, DType::q8_0);
    for (const auto& [model, dtype] : cases) {
        CAPTURE(backend.name(), to_string(dtype), model.golden);
        if (!takes_case(*tested, 2)) continue;
        const TemporaryFolder folder;
        write_widened(model, folder / "given");
        write_blocks(folder / "given", folder / "blocks", dtype);
        write_floats(folder / "blocks", folder / "floats");
        const std::vector<double> given = run_folder(folder / "given", *oracle),
                                  floats = run_folder(folder / "floats", *oracle);
        Pass pass(backend);
        const std::vector<double> blocks = std::visit(pass, must(models::open_model(folder / "blocks")));
        CHECK(pass.blocks() == model.matrices);
        CHECK(relative_error<double, double>(blocks, floats) < kModelBound);
        const double rounding = relative_error<double, double>(floats, given);
        CHECK(rounding > 1e-4);
        CHECK(rounding < (dtype == DType::q8_0 ? 0.035 : 0.3));
    }
}

}  // namespace vkformer::tests
