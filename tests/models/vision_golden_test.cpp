// SPDX-License-Identifier: MIT
/// ViT, DeiT, DINO, CLIP and SigLIP against transformers: normalised pixels and tokens in, hidden states, logits and vectors out.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "models/model_case.hpp"
#include "models/open_model.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

std::filesystem::path vision_model_folder(const std::string& name) { return goldens_dir() / "vision/models" / name; }
Golden vision_golden(const std::string& name) { return Golden("vision/models/" + name + "/golden.safetensors"); }
std::filesystem::path modern_model_folder(const std::string& name) {
    return goldens_dir() / "modern_vision/models" / name;
}
Golden modern_golden(const std::string& name) { return Golden("modern_vision/models/" + name + "/golden.safetensors"); }

/// A graph that is run once; its inputs are tensors of the golden.
struct VisionPass {
    graph::Graph graph;
    std::unique_ptr<graph::Program> program;

    graph::Value output(Result<graph::Value> value) {
        const graph::Value made = must(std::move(value));
        graph.mark_output(made);
        return made;
    }
    void compile(graph::Backend& backend) {
        program = must(backend.compile(graph::make_plan(graph), backend.make_store(), backend.make_store()));
    }
    void run() {
        must(program->submit());
        must(program->wait());
    }
    std::vector<double> read(graph::Value value) const {
        std::vector<double> values(program->plan().graph.shape(value).element_count());
        must(program->read(value, std::span<double>(values)));
        return values;
    }
    void check(graph::Value value, const Golden& golden, const std::string& name, double bound) const {
        check_golden(read(value), golden, name, bound);
    }
};

models::VisionTensors add_images(VisionPass& pass, const models::VisionEncoder& encoder, const Golden& golden,
                                 DType dtype, bool attention = false, const std::string& pixels = "pixel_values") {
    const auto batch = static_cast<std::uint32_t>(golden.shape(pixels)[0]);
    const auto tensors =
        must(encoder.add_encoder(pass.graph, {.batch = batch, .dtype = dtype, .layers = {.attention = attention}}));
    CHECK(to_string(pass.graph.shape(tensors.pixels)) == to_string(golden.shape(pixels)));
    pass.graph.mark_output(tensors.hidden);
    return tensors;
}

void write_pixels(VisionPass& pass, const models::VisionTensors& tensors, const Golden& golden,
                  const std::string& name = "pixel_values") {
    const auto pixels = golden.floats(name);
    must(pass.program->write(tensors.pixels, std::span<const float>(pixels)));
}

}  // namespace

TEST_CASE("vision encoders give Hugging Face's last hidden states and logits", "[models][vision][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    for (const std::string name : {"vit_h20", "vit_labels", "vit_many_labels", "deit_teacher", "deit_labels"}) {
        CAPTURE(backend.name(), name, to_string(dtype));
        if (!takes_case(backend, 2)) continue;
        const auto encoder = must(models::load_vision_encoder(vision_model_folder(name)));
        const Golden golden = vision_golden(name);
        VisionPass pass;
        const auto tensors = add_images(pass, encoder, golden, dtype);
        CHECK((encoder.config().labels > 0) == golden.has("logits"));
        graph::Value logits;
        if (golden.has("logits")) logits = pass.output(encoder.add_classifier(pass.graph, tensors.hidden));
        pass.compile(backend);
        write_pixels(pass, tensors, golden);
        pass.run();
        pass.check(tensors.hidden, golden, "last_hidden_state", model_bound(backend, dtype));
        if (logits) pass.check(logits, golden, "logits", model_bound(backend, dtype));
    }
}

TEST_CASE("vision encoders give the attention of their patches", "[models][vision][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    for (const std::string name : {"vit_labels", "deit_teacher"}) {
        CAPTURE(backend.name(), name);
        const auto encoder = must(models::load_vision_encoder(vision_model_folder(name)));
        const Golden golden = vision_golden(name);
        VisionPass pass;
        const auto tensors = add_images(pass, encoder, golden, DType::f32, true);
        REQUIRE(tensors.layers.attention.size() == encoder.config().layers);
        pass.compile(backend);
        write_pixels(pass, tensors, golden);
        pass.run();
        pass.check(tensors.layers.attention[0], golden, "attentions.0", model_bound(backend, DType::f32));
        pass.check(tensors.hidden, golden, "last_hidden_state", model_bound(backend, DType::f32));
    }
}

TEST_CASE("DINO takes images of any size, and gives Hugging Face's hidden states, logits and attention",
          "[models][vision][dino][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    for (const std::string name : {"dinov2_odd", "dinov2_gated_labels", "dinov2_registers_labels", "dinov2_registers",
                                   "dinov3_gated", "dinov3_plain"})
        for (const std::string size : {"", ".other"}) {
            const bool keeps_attention = dtype == DType::f32 && !size.empty();
            CAPTURE(backend.name(), name, size, to_string(dtype));
            if (!takes_case(backend, 3)) continue;
            const auto loaded = must(models::load_vision_encoder(modern_model_folder(name)));
            const Golden golden = modern_golden(name);
            const Shape pixels = golden.shape("pixel_values" + size);
            const auto encoder =
                must(loaded.at_size(static_cast<std::uint32_t>(pixels[2]), static_cast<std::uint32_t>(pixels[3])));
            VisionPass pass;
            const auto tensors = add_images(pass, encoder, golden, dtype, keeps_attention, "pixel_values" + size);
            CHECK((encoder.config().labels > 0) == golden.has("logits"));
            graph::Value logits;
            if (golden.has("logits")) logits = pass.output(encoder.add_classifier(pass.graph, tensors.hidden));
            const auto vector = pass.output(encoder.add_embedding(pass.graph, tensors.hidden));
            pass.compile(backend);
            write_pixels(pass, tensors, golden, "pixel_values" + size);
            pass.run();
            const double bound = model_bound(backend, dtype);
            pass.check(tensors.hidden, golden, "last_hidden_state" + size, bound);
            if (logits) pass.check(logits, golden, "logits" + size, bound);
            if (keeps_attention) pass.check(tensors.layers.attention.at(0), golden, "attentions.0" + size, bound);
            // the class token's, which is transformers' pooler_output
            const auto hidden = golden.doubles("last_hidden_state" + size);
            const std::size_t width = encoder.config().hidden_size, image = encoder.config().tokens() * width;
            std::vector<double> first;
            for (std::size_t b = 0; b < pixels[0]; ++b)
                first.insert(first.end(), hidden.begin() + static_cast<std::ptrdiff_t>(b * image),
                             hidden.begin() + static_cast<std::ptrdiff_t>(b * image + width));
            const auto found = pass.read(vector);
            CHECK(relative_error(std::span<const double>(found), std::span<const double>(first)) < bound);
        }
}

TEST_CASE("SigLIP's towers give Hugging Face's hidden states and vectors", "[models][vision][siglip][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    for (const std::string name : {"siglip_odd", "siglip_short"}) {
        CAPTURE(backend.name(), name, to_string(dtype));
        if (!takes_case(backend, 3)) continue;
        const auto siglip = must(models::load_clip(modern_model_folder(name)));
        CHECK(siglip.is_sigmoid);
        const Golden golden = modern_golden(name);
        const Shape ids = golden.shape("input_ids");
        const auto batch = static_cast<std::uint32_t>(ids[0]), len = static_cast<std::uint32_t>(ids[1]);
        VisionPass pass;
        const auto images = add_images(pass, siglip.vision, golden, dtype);
        const auto texts = must(siglip.text.add_encoder(pass.graph, {.batch = batch, .len = len, .dtype = dtype}));
        pass.graph.mark_output(texts.hidden);
        const auto image_vector = pass.output(siglip.vision.add_embedding(pass.graph, images.hidden));
        const auto text_vector = pass.output(siglip.add_text_embedding(pass.graph, texts));
        pass.compile(backend);
        write_pixels(pass, images, golden);
        const auto tokens = golden.ints("input_ids");
        const std::vector<std::int32_t> lengths(batch, static_cast<std::int32_t>(len));
        must(pass.program->write(texts.tokens, std::span<const std::int32_t>(tokens)));
        must(pass.program->write(texts.lengths, std::span<const std::int32_t>(lengths)));
        pass.run();
        const double bound = model_bound(backend, dtype);
        pass.check(images.hidden, golden, "last_hidden_state", bound);
        pass.check(texts.hidden, golden, "text_last_hidden_state", bound);
        pass.check(image_vector, golden, "image_features", bound);
        pass.check(text_vector, golden, "text_features", bound);
        CHECK(std::abs(siglip.logit_scale - std::exp(2.3)) < 1e-2);  // one of them is in float16
        CHECK(std::abs(siglip.logit_bias + 1.7) < 1e-3);
    }
}

TEST_CASE("CLIP's towers give Hugging Face's hidden states and vectors", "[models][vision][clip][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    for (const std::string name : {"clip_old_end", "clip_gelu"}) {
        CAPTURE(backend.name(), name, to_string(dtype));
        if (!takes_case(backend, 3)) continue;
        const auto clip = must(models::load_clip(vision_model_folder(name)));
        const Golden golden = vision_golden(name);
        const Shape ids = golden.shape("input_ids");
        VisionPass pass;
        const auto images = add_images(pass, clip.vision, golden, dtype);
        const auto texts = must(clip.text.add_encoder(
            pass.graph,
            {.batch = static_cast<std::uint32_t>(ids[0]), .len = static_cast<std::uint32_t>(ids[1]), .dtype = dtype}));
        pass.graph.mark_output(texts.hidden);
        const auto image_vector = pass.output(clip.vision.add_embedding(pass.graph, images.hidden));
        const auto text_vector = pass.output(clip.add_text_embedding(pass.graph, texts));
        const auto image_unit = pass.output(graph::l2_normalize(pass.graph, image_vector));
        const auto text_unit = pass.output(graph::l2_normalize(pass.graph, text_vector));
        pass.compile(backend);
        write_pixels(pass, images, golden);
        const auto tokens = golden.ints("input_ids"), lengths = golden.ints("lengths");
        must(pass.program->write(texts.tokens, std::span<const std::int32_t>(tokens)));
        must(pass.program->write(texts.lengths, std::span<const std::int32_t>(lengths)));
        pass.run();

        const double bound = model_bound(backend, dtype);
        pass.check(images.hidden, golden, "last_hidden_state", bound);
        pass.check(image_vector, golden, "image_features", bound);
        pass.check(text_vector, golden, "text_features", bound);
        pass.check(image_unit, golden, "image_embeds", bound);
        pass.check(text_unit, golden, "text_embeds", bound);
        // Hugging Face ran without a mask over padding: tokens up to the end are what matters
        std::vector<double> hidden = pass.read(texts.hidden), expected = golden.doubles("text_last_hidden_state");
        const std::size_t width = clip.text.config().hidden_size;
        for (std::size_t i = 0; i < hidden.size(); ++i)
            if (i / width % ids[1] >= static_cast<std::size_t>(lengths[i / width / ids[1]]))
                hidden[i] = expected[i] = 0;
        CHECK(relative_error(std::span<const double>(hidden), std::span<const double>(expected)) < bound);
        CHECK(std::abs(clip.logit_scale - std::exp(2.3)) < 1e-5);
        CHECK(clip.text.config().end_token == (name == "clip_gelu" ? 44 : 60));
    }
}

}  // namespace vkformer::tests
