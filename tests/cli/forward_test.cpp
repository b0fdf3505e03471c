// SPDX-License-Identifier: MIT
/// vkformer forward: given tokens, from a file to a file.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "cli/input_features.hpp"
#include "cli/run_program.hpp"
#include "cpu/backend.hpp"
#include "formats/safetensors.hpp"
#include "models/changed_golden.hpp"
#include "models/open_model.hpp"
#include "support/bounds.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

namespace fs = std::filesystem;

/// Numbers that a file may be written of.
struct FloatsOfTensor {
    Shape shape;
    std::vector<float> values;

    TensorData tensor() const {
        const auto kept = std::make_shared<std::vector<float>>(values);
        return {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*kept)), .owner = kept};
    }
};

std::string marian_case(const std::string& name) { return (goldens_dir() / "marian" / name).string(); }

}  // namespace

TEST_CASE("forward: from a file to a file", "[cli][forward]") {
    const std::string name = GENERATE("relu_d30_h5_h3", "swish_d64_h4_opus");
    const TemporaryFolder folder;
    const Golden golden("marian/" + name + "/golden.safetensors");
    std::vector<formats::NamedTensor> inputs;
    for (const char* input : {"input_ids", "attention_mask", "decoder_input_ids"})
        inputs.push_back({input, golden.tensor(input)});
    const std::string in = (folder / "in.safetensors").string(), out = (folder / "out.safetensors").string();
    must(formats::write_safetensors(in, inputs));
    for (const std::string dtype : {"f32", "f16"}) {
        CAPTURE(name, dtype);
        const Outcome outcome = run("forward --model " + marian_case(name) + " --input " + in + " --output " + out +
                                    " --device cpu --dtype " + dtype);
        CHECK(outcome.err == "vkformer: device: CPU (float)\n");
        REQUIRE(outcome.exit_code == 0);
        const auto file = must(formats::Safetensors::open(out));
        for (const char* output : {"logits", "encoder_last_hidden_state"}) {
            const TensorData* tensor = file.find(output);
            REQUIRE(tensor);
            CHECK(tensor->dtype == DType::f32);
            REQUIRE(tensor->shape == golden.shape(output));
            std::vector<double> found(tensor->shape.element_count());
            must(convert(tensor->dtype, tensor->bytes, 0, std::span<double>(found)));
            const auto expected = golden.doubles(output);
            CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) <
                  (dtype == "f32" ? 1e-5 : 2e-3));
        }
        CHECK(file.find("last_hidden_state"));
    }
}

TEST_CASE("forward: bad input is said", "[cli][forward][errors]") {
    const TemporaryFolder folder;
    const std::string in = (folder / "in.safetensors").string(), out = (folder / "out.safetensors").string();
    const auto integers = [](std::vector<std::int64_t> values, const Shape& shape) {
        auto owner = std::make_shared<std::vector<std::int64_t>>(std::move(values));
        return TensorData{
            .dtype = DType::i64, .shape = shape, .bytes = std::as_bytes(std::span(*owner)), .owner = owner};
    };
    const auto refused = [&](const std::vector<formats::NamedTensor>& inputs, const std::string& what) {
        must(formats::write_safetensors(in, inputs));
        refuses("forward --model " + marian_case("relu_d30_h5_h3") + " -i " + in + " -o " + out + " --device cpu",
                what);
        CHECK_FALSE(fs::exists(out));
    };
    const formats::NamedTensor ids = {"input_ids", integers({4, 5}, {1, 2})},
                               decoder = {"decoder_input_ids", integers({52}, {1, 1})};
    refused({ids}, "decoder_input_ids");
    refused({decoder}, "input_ids");
    refused({{"input_ids", integers({4, 53}, {1, 2})}, decoder}, "token 53");
    refused({{"input_ids", integers({4, -1}, {1, 2})}, decoder}, "token -1");
    refused({{"input_ids", integers({4, 1LL << 40}, {1, 2})}, decoder}, "1099511627776");
    refused({{"input_ids", integers({4, 5}, {2})}, decoder}, "[batch, length]");
    refused({{"input_ids", integers({4, 5}, {2, 1})}, decoder}, "batch");
    refused({{"input_ids", integers(std::vector<std::int64_t>(33, 4), {1, 33})}, decoder}, "at most 32");
    refused({ids, decoder, {"attention_mask", integers({1, 2}, {1, 2})}}, "attention_mask");
    refused({ids, decoder, {"attention_mask", integers({1}, {1, 1})}}, "attention_mask");
    refused({ids, decoder, {"token_type_ids", integers({0, 0}, {1, 2})}}, "token_type_ids");
    must(formats::write_safetensors(
        in, std::vector<formats::NamedTensor>{ids, {"decoder_input_ids", integers({2}, {1, 1})}}));
    refuses("forward --model " + (goldens_dir() / "seq2seq/lstm_dot_feeding").string() + " -i " + in + " -o " + out +
                " --device cpu --hidden-states",
            "between the layers of a recurrent model");
    refuses("forward --model " + (goldens_dir() / "seq2seq/lstm_4_layers_backward").string() + " -i " + in + " -o " +
                out + " --device cpu --attentions",
            "the model has no attention");
    const TemporaryFolder folder_of_long;
    fs::copy(goldens_dir() / "decoders/llama_gqa_odd", folder_of_long.path() / "long");
    write_config_with(folder_of_long / "long", {{"max_position_embeddings", 1 << 20}});
    fs::copy(goldens_dir() / "modern_encoders/modernbert_h24", folder_of_long.path() / "long_encoder");
    write_config_with(folder_of_long / "long_encoder", {{"max_position_embeddings", 1 << 20}});
    const auto refuses_long = [&](const std::string& model, std::uint64_t len, const std::string& what) {
        must(formats::write_safetensors(in, std::vector<formats::NamedTensor>{
                                                {"input_ids", integers(std::vector<std::int64_t>(len, 7), {1, len})}}));
        refuses("forward --model " + (folder_of_long.path() / model).string() + " -i " + in + " -o " + out +
                    " -d cpu --attentions",
                what);
    };
    refuses_long("long", 27000, "a layer has 3 weights for each of 1 x 27000 x 27000 tokens");
    refuses_long("long", 26000, "16 GiB");
    refuses_long("long_encoder", 20000, "16 GiB");
    std::ofstream(in) << "not a safetensors file";
    refuses("forward --model " + marian_case("relu_d30_h5_h3") + " -i " + in + " -o " + out + " --device cpu",
            "in.safetensors");
}

TEST_CASE("forward: language models and text encoders", "[cli][forward]") {
    const std::string name =
        GENERATE("decoders/qwen3", "decoders/nemotron_h_moe", "encoders/bert_pairs", "encoders/distilbert_scores");
    const std::string dtype = GENERATE("f32", "f16");
    CAPTURE(name, dtype);
    const TemporaryFolder folder;
    const Golden golden(name + "/golden.safetensors");
    std::vector<formats::NamedTensor> inputs;
    for (const char* input : {"input_ids", "attention_mask", "token_type_ids"})
        if (golden.has(input)) inputs.push_back({input, golden.tensor(input)});
    const std::string in = (folder / "in.safetensors").string(), out = (folder / "out.safetensors").string();
    must(formats::write_safetensors(in, inputs));
    const Outcome outcome = run("forward -q --model " + (goldens_dir() / name).string() + " -i " + in + " -o " + out +
                                " --device cpu --dtype " + dtype);
    CHECK(outcome.err.empty());
    REQUIRE(outcome.exit_code == 0);
    const auto file = must(formats::Safetensors::open(out));
    CHECK((file.find("logits") != nullptr) == golden.has("logits"));
    for (const char* output : {"logits", "last_hidden_state"}) {
        if (!golden.has(output)) continue;
        CAPTURE(output);
        const TensorData* tensor = file.find(output);
        REQUIRE(tensor);
        CHECK(tensor->dtype == DType::f32);
        REQUIRE(tensor->shape == golden.shape(output));
        std::vector<double> found(tensor->shape.element_count());
        must(convert(tensor->dtype, tensor->bytes, 0, std::span<double>(found)));
        auto expected = golden.doubles(output);
        if (golden.has("attention_mask") && output == std::string("last_hidden_state")) {
            const auto mask = golden.ints("attention_mask");  // rows of padding mean nothing
            for (std::size_t i = 0; i < found.size(); ++i)
                if (mask[i / tensor->shape.back()] == 0) found[i] = expected[i] = 0;
        }
        CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) <
              (dtype == "f32" ? 1e-5 : 3e-3));
    }
}

namespace {

/// A tensor of the output beside one of the golden.
void check_output(const formats::Safetensors& file, const std::string& output, const Golden& golden,
                  const std::string& name, double bound) {
    CAPTURE(output);
    const TensorData* tensor = file.find(output);
    REQUIRE(tensor);
    CHECK(tensor->dtype == DType::f32);
    REQUIRE(tensor->shape == golden.shape(name));
    std::vector<double> found(tensor->shape.element_count());
    must(convert(tensor->dtype, tensor->bytes, 0, std::span<double>(found)));
    const auto expected = golden.doubles(name);
    CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) < bound);
}

}  // namespace

TEST_CASE("forward: what hears and what sees", "[cli][forward][speech][vision]") {
    const std::string dtype = GENERATE("f32", "f16");
    const double bound = dtype == "f32" ? 1e-5 : 3e-3;
    const TemporaryFolder folder;
    const std::string in = (folder / "in.safetensors").string(), out = (folder / "out.safetensors").string();
    const auto pass = [&](const std::string& model, const std::vector<formats::NamedTensor>& inputs,
                          const std::string& more = "") {
        CAPTURE(model);
        must(formats::write_safetensors(in, inputs));
        const Outcome outcome = run("forward -q --model " + (goldens_dir() / model).string() + " -i " + in + " -o " +
                                    out + " --device cpu --dtype " + dtype + more);
        CHECK(outcome.err.empty());
        REQUIRE(outcome.exit_code == 0);
        return must(formats::Safetensors::open(out));
    };
    for (const std::string name : {"whisper_d20_untied", "whisper_english"}) {
        const Golden golden("speech/" + name + "/golden.safetensors");
        const auto file =
            pass("speech/" + name, {features_of(golden), {"decoder_input_ids", golden.tensor("decoder_input_ids")}},
                 " --attentions");
        check_output(file, "logits", golden, "logits", bound);
        check_output(file, "encoder_last_hidden_state", golden, "encoder_last_hidden_state", bound);
        check_output(file, "last_hidden_state", golden, "decoder_last_hidden_state", bound);
        const std::uint64_t batch = golden.shape("logits")[0], len = golden.shape("logits")[1],
                            positions = golden.shape("input_features")[1] / 2;
        for (const auto& [attentions, queries, keys] :
             {std::tuple{"encoder_attentions.0", positions, positions}, std::tuple{"decoder_attentions.0", len, len},
              std::tuple{"cross_attentions.0", len, positions}}) {
            const TensorData* tensor = file.find(attentions);
            REQUIRE(tensor);
            CHECK(tensor->shape == Shape{batch, tensor->shape[1], queries, keys});
            std::vector<float> weights(tensor->shape.element_count());
            must(convert(tensor->dtype, tensor->bytes, 0, std::span<float>(weights)));
            for (std::size_t row = 0; row < weights.size(); row += keys)
                CHECK(std::abs(std::accumulate(&weights[row], &weights[row] + keys, 0.0) - 1) < bound);
        }
    }
    for (const std::string name : {"wav2vec2_base", "hubert_large"}) {
        const Golden golden("ctc/" + name + "/golden.safetensors");
        const auto file = pass("ctc/" + name, {{"input_values", golden.tensor("input_values")}});
        check_output(file, "logits", golden, "logits", bound);
        check_output(file, "last_hidden_state", golden, "last_hidden_state", bound);
        const auto masked = pass("ctc/" + name, {{"input_values", golden.tensor("input_values")},
                                                 {"attention_mask", golden.tensor("sample_mask")}});
        const TensorData* const logits = masked.find("logits");
        REQUIRE((logits && logits->shape == golden.shape("logits")));
        std::vector<double> found(logits->shape.element_count());
        must(convert(logits->dtype, logits->bytes, 0, std::span<double>(found)));
        const auto expected = golden.doubles("masked_logits");
        const auto numbers = static_cast<std::size_t>(golden.ints("frames")[1]) * golden.shape("logits")[2];
        CHECK(relative_error(std::span<const double>(found).subspan(found.size() / 2, numbers),
                             std::span<const double>(expected).first(numbers)) < bound);
    }
    {
        const Golden golden("marian/relu_d30_h5_h3/golden.safetensors");
        const auto file = pass("marian/relu_d30_h5_h3",
                               {{"input_ids", golden.tensor("input_ids")},
                                {"attention_mask", golden.tensor("attention_mask")},
                                {"decoder_input_ids", golden.tensor("decoder_input_ids")}},
                               " --attentions");
        check_output(file, "logits", golden, "logits", dtype == "f32" ? 1e-5 : 2e-3);
        const std::uint64_t source = golden.shape("input_ids")[1], target = golden.shape("decoder_input_ids")[1];
        const auto has = [&](const char* name, std::uint64_t queries, std::uint64_t keys) {
            const TensorData* tensor = file.find(name);
            return tensor && tensor->shape[2] == queries && tensor->shape[3] == keys;
        };
        CHECK(has("encoder_attentions.0", source, source));
        CHECK(has("decoder_attentions.0", target, target));
        CHECK(has("cross_attentions.0", target, source));
    }
    for (const std::string name : {"vit_h20", "vit_labels", "deit_teacher"}) {
        const Golden golden("vision/models/" + name + "/golden.safetensors");
        const auto file =
            pass("vision/models/" + name, {{"pixel_values", golden.tensor("pixel_values")}}, " --attentions");
        check_output(file, "last_hidden_state", golden, "last_hidden_state", bound);
        check_output(file, "attentions.0", golden, "attentions.0", bound);
        CHECK((file.find("logits") != nullptr) == golden.has("logits"));
        if (golden.has("logits")) check_output(file, "logits", golden, "logits", bound);
    }
    for (const std::string name : {"dinov2_registers_labels", "dinov3_gated"})
        for (const std::string size : {"", ".other"}) {
            CAPTURE(name, size);
            const Golden golden("modern_vision/models/" + name + "/golden.safetensors");
            const auto file = pass("modern_vision/models/" + name,
                                   {{"pixel_values", golden.tensor("pixel_values" + size)}}, " --attentions");
            check_output(file, "last_hidden_state", golden, "last_hidden_state" + size, bound);
            check_output(file, "attentions.0", golden, "attentions.0" + size, bound);
            CHECK((file.find("logits") != nullptr) == golden.has("logits"));
            if (golden.has("logits")) check_output(file, "logits", golden, "logits" + size, bound);
        }
    for (const std::string name : {"siglip_odd", "siglip_short"}) {
        CAPTURE(name);
        const Golden golden("modern_vision/models/" + name + "/golden.safetensors");
        const auto both = pass("modern_vision/models/" + name, {{"pixel_values", golden.tensor("pixel_values")},
                                                                {"input_ids", golden.tensor("input_ids")}});
        for (const char* output : {"image_embeds", "text_embeds", "logits_per_image"})
            check_output(both, output, golden, output, bound);
        check_output(both, "text_model_output.last_hidden_state", golden, "text_last_hidden_state", bound);
    }
    for (const std::string name : {"clip_gelu", "clip_old_end"}) {
        const Golden golden("vision/models/" + name + "/golden.safetensors");
        const formats::NamedTensor pixels{"pixel_values", golden.tensor("pixel_values")},
            ids{"input_ids", golden.tensor("input_ids")};
        const auto both = pass("vision/models/" + name, {pixels, ids}, " --attentions");
        for (const char* output : {"image_embeds", "text_embeds", "logits_per_image"})
            check_output(both, output, golden, output, bound);
        check_output(both, "vision_model_output.last_hidden_state", golden, "last_hidden_state", bound);
        check_output(both, "vision_model_output.attentions.0", golden, "attentions.0", bound);
        {
            const TensorData* tensor = both.find("text_model_output.last_hidden_state");
            REQUIRE(tensor);
            REQUIRE(tensor->shape == golden.shape("text_last_hidden_state"));
            std::vector<double> found(tensor->shape.element_count());
            must(convert(tensor->dtype, tensor->bytes, 0, std::span<double>(found)));
            auto expected = golden.doubles("text_last_hidden_state");
            const auto lengths = golden.ints("lengths");  // behind the end token it means nothing
            const std::size_t len = tensor->shape[1], width = tensor->shape[2];
            for (std::size_t i = 0; i < found.size(); ++i)
                if (i / width % len >= static_cast<std::size_t>(lengths[i / width / len])) found[i] = expected[i] = 0;
            CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) < bound);
        }
        const auto images = pass("vision/models/" + name, {pixels});
        check_output(images, "image_embeds", golden, "image_embeds", bound);
        CHECK(images.names().size() == 2);
        const auto texts = pass("vision/models/" + name, {ids});
        check_output(texts, "text_embeds", golden, "text_embeds", bound);
        CHECK(texts.names().size() == 2);
    }
}

TEST_CASE("forward: bad input of what hears and sees is said", "[cli][forward][speech][vision][errors]") {
    const TemporaryFolder folder;
    const std::string in = (folder / "in.safetensors").string(), out = (folder / "out.safetensors").string();
    const auto refuses = [&](const std::string& model, const std::vector<formats::NamedTensor>& inputs,
                             const std::string& what, const std::string& more = "") {
        CAPTURE(model, what);
        must(formats::write_safetensors(in, inputs));
        const Outcome outcome = run("forward -q --model " + (goldens_dir() / model).string() + " -i " + in + " -o " +
                                    out + " --device cpu" + more);
        CHECK(outcome.exit_code == 2);
        CHECK_THAT(outcome.err, Catch::Matchers::Contains(what));
    };
    const Golden speech("speech/whisper_english/golden.safetensors");
    const std::string whisper = "speech/whisper_english", vit = "vision/models/vit_h20",
                      clip = "vision/models/clip_gelu";
    const formats::NamedTensor targets{"decoder_input_ids", speech.tensor("decoder_input_ids")};
    const auto zeros = [](const std::string& name, const Shape& shape) {
        const FloatsOfTensor made{shape, std::vector<float>(shape.element_count())};
        return formats::NamedTensor{name, made.tensor()};
    };
    refuses(whisper, {targets}, "no tensor input_features");
    refuses(whisper, {targets, zeros("input_features", {1, 80, 8})}, "takes [batch, 7, 8]");  // frames first
    refuses(whisper, {targets, zeros("input_features", {1, 7, 79})}, "has 79 frames");
    refuses(whisper, {targets, zeros("input_features", {1, 7, 82})}, "an even number up to 80");
    refuses(whisper, {targets, zeros("input_features", {2, 7, 80})}, "batch of 2, decoder_input_ids of 1");
    refuses(whisper, {targets, zeros("input_features", {1, 7, 80}), zeros("attention_mask", {1, 80})}, "does not take");
    const std::string ctc = "ctc/wav2vec2_base";
    refuses(ctc, {}, "no tensor input_values");
    refuses(ctc, {zeros("input_values", {1, 1, 80})}, "takes [batch, 1]");
    refuses(ctc, {zeros("input_values", {1, 29})}, "29 samples are too few");
    refuses(ctc, {zeros("input_values", {1, 80}), zeros("input_features", {1, 80})}, "does not take");
    refuses(vit, {}, "no tensor pixel_values");
    refuses(vit, {zeros("pixel_values", {1, 3, 12, 13})}, "takes [batch, 3, 12, 12]");
    refuses("modern_vision/models/dinov2_odd", {zeros("pixel_values", {1, 3, 6, 30})}, "at least one patch, 7 × 7");
    const Golden siglip("modern_vision/models/siglip_odd/golden.safetensors");
    const formats::NamedTensor read{"input_ids", siglip.tensor("input_ids")};
    std::vector<std::int32_t> mask(siglip.shape("input_ids").element_count(), 1);
    mask.back() = 0;
    const TensorData holed{
        .dtype = DType::i32, .shape = siglip.shape("input_ids"), .bytes = std::as_bytes(std::span(mask))};
    refuses("modern_vision/models/siglip_odd", {read, {"attention_mask", holed}}, "reads texts with their padding");
    refuses(vit, {zeros("pixel_values", {0, 3, 12, 12})}, "expected 1 to ");
    refuses(vit, {{"pixel_values", speech.tensor("decoder_input_ids")}}, "expected float32");
    refuses(vit, {zeros("pixel_values", {1, 3, 12, 12}), targets}, "does not take");
    refuses(clip, {}, "neither pixel_values nor input_ids");
    const std::vector<std::int32_t> no_end = {1, 2, 3};
    refuses(clip, {{"input_ids", {.dtype = DType::i32, .shape = {1, 3}, .bytes = std::as_bytes(std::span(no_end))}}},
            "without the end token 44");
    const std::vector<std::int32_t> twice = {7, 44, 3, 44}, short_mask = {1, 0, 0, 0}, long_mask = {1, 1, 0, 0};
    const auto words = [](const std::vector<std::int32_t>& values) {
        return TensorData{.dtype = DType::i32, .shape = {1, 4}, .bytes = std::as_bytes(std::span(values))};
    };
    refuses(clip, {{"input_ids", words(twice)}, {"attention_mask", words(short_mask)}}, "zero before or at the end");
    must(formats::write_safetensors(
        in, std::vector<formats::NamedTensor>{{"input_ids", words(twice)}, {"attention_mask", words(long_mask)}}));
    CHECK(run("forward -q --model " + (goldens_dir() / clip).string() + " -i " + in + " -o " + out + " --device cpu")
              .exit_code == 0);
}

TEST_CASE("forward: long texts go through language models in several runs", "[cli][forward]") {
    // One with attention alone, from a GGUF file; hybrids of convolutions and of scans, one of them with scaled layers; one with other
    // positions for long texts; one with sinks.
    const std::string name = GENERATE("", "lfm2", "nemotron_h", "granite_hybrid", "phi3_longrope", "gpt_oss");
    CAPTURE(name);
    const TemporaryFolder folder;
    fs::path path = fs::path(VKFORMER_SOURCE_DIR) / "samples/models/verse-writer/verse-writer-q8_0.gguf";
    if (!name.empty()) {
        path = folder.path() / name;
        fs::copy(goldens_dir() / "decoders" / name, path);
        write_config_with(path, {{"max_position_embeddings", 512}});
    }
    const models::Decoder model = must(models::load_decoder(path));
    const std::uint32_t kBatch = 2, kLen = GENERATE(257, 300);  // a run of 256, and what is left
    REQUIRE(model.config().most_positions() >= kLen);
    auto ids = std::make_shared<std::vector<std::int32_t>>(), mask = std::make_shared<std::vector<std::int32_t>>();
    for (std::uint32_t i = 0; i < kBatch * kLen; ++i) {
        ids->push_back(static_cast<std::int32_t>((i * 7919 + i * i) % model.config().vocab_size));
        mask->push_back(i < kLen || i < kLen + 250 ? 1 : 0);  // the second text is shorter
    }
    const auto integers = [&](const char* of, const std::shared_ptr<std::vector<std::int32_t>>& values) {
        return formats::NamedTensor{of,
                                    {.dtype = DType::i32,
                                     .shape = {kBatch, kLen},
                                     .bytes = std::as_bytes(std::span(*values)),
                                     .owner = values}};
    };
    const std::string in = (folder / "in.safetensors").string(), out = (folder / "out.safetensors").string();
    must(formats::write_safetensors(
        in, std::vector<formats::NamedTensor>{integers("input_ids", ids), integers("attention_mask", mask)}));
    // Without 8-bit activations: a run of fewer rows may add in another order, and what differs in a last bit may be rounded to another
    // of 255 steps.
    REQUIRE(run("forward -m " + path.string() + " -i " + in + " -o " + out +
                " -d cpu --plain --hidden-states --attentions")
                .exit_code == 0);
    const auto backend = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    graph::Graph g;
    const graph::Value tokens = must(g.input("tokens", DType::i32, {kBatch, kLen})),
                       starts = must(g.input("starts", DType::i32, {kBatch}));
    const auto pass = must(model.add_pass(g,
                                          {.rows = kBatch,
                                           .len = kLen,
                                           .capacity = kLen,
                                           .weights = models::WeightFormat::as_filed,
                                           .extended = kLen > model.config().max_positions,
                                           .layers = {.attention = true, .hidden = true}},
                                          tokens, starts, models::Logits::all));
    g.mark_output(pass.logits);
    g.mark_output(pass.hidden);
    const auto whole =
        must(backend->compile(graph::make_plan(std::move(g)), backend->make_store(), backend->make_store()));
    must(whole->write(tokens, std::span<const std::int32_t>(*ids)));
    must(whole->write(starts, std::span<const std::int32_t>(std::vector<std::int32_t>(kBatch, 0))));
    must(whole->submit());
    must(whole->wait());
    const auto file = must(formats::Safetensors::open(out));
    std::vector<std::pair<std::string, graph::Value>> outputs = {{"logits", pass.logits},
                                                                 {"last_hidden_state", pass.hidden}};
    for (std::size_t layer = 0; layer < model.config().layers.size(); ++layer) {
        outputs.emplace_back("hidden_states." + std::to_string(layer), pass.layers.hidden[layer]);
        if (const graph::Value weights = pass.layers.attention[layer])
            outputs.emplace_back("attentions." + std::to_string(layer), weights);
    }
    for (const auto& [output, value] : outputs) {
        CAPTURE(output);
        const TensorData* tensor = file.find(output);
        REQUIRE(tensor);
        const Shape shape = whole->plan().graph.shape(value);
        CHECK(tensor->shape == (shape.rank() == 2 ? Shape{kBatch, kLen, shape[1]} : shape));
        std::vector<double> found(tensor->shape.element_count()), expected(found.size());
        must(convert(tensor->dtype, tensor->bytes, 0, std::span<double>(found)));
        must(whole->read(value, std::span(expected)));
        CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) < 1e-5);
    }
}

TEST_CASE("forward: bad input of language models and text encoders is said", "[cli][forward][errors]") {
    const TemporaryFolder folder;
    const std::string in = (folder / "in.safetensors").string(), out = (folder / "out.safetensors").string();
    const auto integers = [](const std::string& name, std::vector<std::int32_t> values, const Shape& shape) {
        auto owner = std::make_shared<std::vector<std::int32_t>>(std::move(values));
        return formats::NamedTensor{
            name, {.dtype = DType::i32, .shape = shape, .bytes = std::as_bytes(std::span(*owner)), .owner = owner}};
    };
    const auto refused = [&](const std::string& model, const std::vector<formats::NamedTensor>& inputs,
                             const std::string& what) {
        CAPTURE(model);
        must(formats::write_safetensors(in, inputs));
        refuses("forward -m " + (goldens_dir() / model).string() + " -i " + in + " -o " + out + " -d cpu", what);
        CHECK_FALSE(fs::exists(out));
    };
    const formats::NamedTensor ids = integers("input_ids", {4, 5}, {1, 2});
    for (const std::string model : {"decoders/qwen3", "encoders/bert_pairs"}) {
        refused(model, {integers("ids", {4, 5}, {1, 2})}, "input_ids");
        refused(model, {integers("input_ids", {4, 100000}, {1, 2})}, "token 100000");
        refused(model, {integers("input_ids", std::vector<std::int32_t>(5000, 4), {1, 5000})}, "at most");
        refused(model, {ids, integers("attention_mask", {0, 1}, {1, 2})}, "attention_mask has zeros before ones");
        refused(model, {ids, integers("attention_mask", {1}, {1, 1})}, "attention_mask");
        refused(model, {ids, integers("decoder_input_ids", {1}, {1, 1})},
                "decoder_input_ids, which the model does not take");
    }
    // 2^31 logits and more, of the model with the most tokens that is here
    must(formats::write_safetensors(in, std::vector<formats::NamedTensor>{integers(
                                            "input_ids", std::vector<std::int32_t>(2048 * 512, 4), {2048, 512})}));
    refuses("forward -m " +
                (fs::path(VKFORMER_SOURCE_DIR) / "samples/models/verse-writer/verse-writer-q8_0.gguf").string() +
                " -i " + in + " -o " + out + " -d cpu",
            "go through at a time");
    const formats::NamedTensor types = integers("token_type_ids", {0, 1}, {1, 2});
    refused("decoders/qwen3", {ids, types}, "token_type_ids, which the model does not take");
    refused("encoders/distilbert_scores", {ids, types}, "token_type_ids, which the model does not take");
    refused("encoders/bert_pairs", {ids, integers("token_type_ids", {0, 9}, {1, 2})}, "type 9");
    refused("encoders/bert_pairs", {ids, integers("token_type_ids", {0}, {1, 1})}, "same shape");
}

}  // namespace vkformer::tests

#endif
