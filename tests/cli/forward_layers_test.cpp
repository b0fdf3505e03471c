// SPDX-License-Identifier: MIT
/// vkformer forward --hidden-states --attentions: what Hugging Face gives of every layer, of every kind of model.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "cli/input_features.hpp"
#include "cli/run_program.hpp"
#include "formats/safetensors.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

namespace fs = std::filesystem;

/// The folders with layers.safetensors, among the goldens: "decoders/gpt_oss".
std::vector<std::string> cases_with_layers() {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(goldens_dir()))
        if (entry.path().filename() == "layers.safetensors")
            names.push_back(fs::relative(entry.path().parent_path(), goldens_dir()).generic_string());
    std::ranges::sort(names);
    return names;
}

std::vector<formats::NamedTensor> inputs_of(const Golden& golden) {
    std::vector<formats::NamedTensor> inputs;
    for (const char* name : {"input_ids", "attention_mask", "token_type_ids", "pixel_values", "input_values",
                             "decoder_input_ids", "decoder_attention_mask"})
        if (golden.has(name)) inputs.push_back({name, golden.tensor(name)});
    if (golden.has("input_features")) inputs.push_back(features_of(golden));
    return inputs;
}

/// Whether what is given for position `at` of a text means anything.
bool is_padding(const std::string& name, const Golden& golden, std::size_t b, std::size_t at) {
    if (name.starts_with("text_model_output.") && golden.has("lengths"))
        return at >= static_cast<std::size_t>(golden.ints("lengths")[b]);
    const bool is_of_encoder = name.starts_with("hidden_states.") || name.starts_with("attentions.");
    return is_of_encoder && golden.has("attention_mask") &&
           golden.ints("attention_mask")[b * golden.shape("attention_mask")[1] + at] == 0;
}

/// Rows of padding are zeros there.
void check_layer(const std::string& name, const TensorData& tensor, const Golden& layers, const Golden& golden,
                 double bound) {
    CAPTURE(name);
    CHECK(tensor.dtype == DType::f32);
    REQUIRE(tensor.shape == layers.shape(name));
    std::vector<double> found(tensor.shape.element_count());
    must(convert(tensor.dtype, tensor.bytes, 0, std::span<double>(found)));
    const std::size_t width = tensor.shape.back(), rows = tensor.shape[tensor.shape.rank() - 2];
    for (std::size_t row = 0; row < found.size() / width; ++row)
        if (is_padding(name, golden, row / (found.size() / width / tensor.shape[0]), row % rows))
            std::fill_n(&found[row * width], width, 0.0);
    const auto expected = layers.doubles(name);
    CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) < bound);
}

void check_layers(const std::string& name, const std::string& options, double bound) {
    CAPTURE(name, options);
    const TemporaryFolder folder;
    const std::string in = (folder / "in.safetensors").string(), out = (folder / "out.safetensors").string();
    const Golden golden(name + "/golden.safetensors"), layers(name + "/layers.safetensors");
    must(formats::write_safetensors(in, inputs_of(golden)));
    const Outcome outcome = run("forward -q --model " + (goldens_dir() / name).string() + " -i " + in + " -o " + out +
                                " --hidden-states --attentions " + options);
    CHECK(outcome.err.empty());
    REQUIRE(outcome.exit_code == 0);
    const auto file = must(formats::Safetensors::open(out));
    std::set<std::string> found;
    for (const std::string_view tensor : file.names())
        if (const std::string text(tensor);
            text.find("hidden_states.") != std::string::npos || text.find("attentions.") != std::string::npos)
            found.insert(text);
    const auto known = must(formats::Safetensors::open(goldens_dir() / name / "layers.safetensors"));
    std::set<std::string> expected;
    for (const std::string_view tensor : known.names()) expected.emplace(tensor);
    CHECK(found == expected);
    for (const std::string& tensor : expected)
        if (found.contains(tensor)) check_layer(tensor, *file.find(tensor), layers, golden, bound);
}

}  // namespace

TEST_CASE("forward: hidden states and attention weights of every layer", "[cli][forward][layers]") {
    const std::string name = GENERATE(from_range(cases_with_layers()));
    check_layers(name, "--device cpu --dtype f32", 1e-5);
    check_layers(name, "--device cpu --dtype f16", 5e-3);
}

TEST_CASE("forward: hidden states and attention weights of devices", "[cli][forward][layers]") {
    for (graph::Backend* const backend : test_backends()) {
        if (backend->name().starts_with("CPU")) continue;
        for (const std::string name : {"decoders/gpt_oss", "decoders/gemma2", "modern_encoders/modernbert_h24",
                                       "encoder_decoders/umt5_d20_own_biases", "encoder_decoders/t5gemma_e24_d28",
                                       "vision/models/clip_old_end", "ctc/hubert_large"})
            for (const auto& [dtype, bound] : {std::pair{"f32", 1e-5}, std::pair{"f16", 5e-3}})
                check_layers(name,
                             "--plain --dtype " + std::string(dtype) + " --device " + quoted(fs::path(backend->name())),
                             bound);
    }
}

}  // namespace vkformer::tests

#endif
