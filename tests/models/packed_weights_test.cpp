// SPDX-License-Identifier: MIT
/// Folders whose weights were quantised for other programs, against what those programs' own code makes of them: tests/goldens/packed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "core/block_format.hpp"
#include "cpu/backend.hpp"
#include "models/changed_golden.hpp"
#include "models/decoder_case.hpp"
#include "models/model_case.hpp"
#include "models/packed_weights.hpp"
#include "models/run_in_pieces.hpp"
#include "models/weight_reader.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/catch.h"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

fs::path packed_folder(const std::string& name) { return goldens_dir() / "packed" / name; }

const std::vector<std::pair<std::string, DType>> kFormats = {
    {"gptq", DType::q4_0},
    {"gptq_zeros", DType::q4_1},
    {"gptq_v2_whole", DType::q4_1},
    {"gptq_ordered", DType::f16},
    {"gptq_8_bits", DType::q8_0},
    {"gptq_2_bits", DType::q4_0},
    {"gptq_experts", DType::q4_0},
    {"awq", DType::q4_1},
    {"fp8", DType::f16},
    {"fp8_odd", DType::f16},
    {"fp8_whole", DType::f16},
    {"compressed_w4a16", DType::q4_0},
    {"compressed_w4a16_zeros", DType::q4_1},
    {"compressed_int8", DType::q8_0},
    {"compressed_fp8", DType::f16},
};

/// The folder's weights with one tensor changed in place.
Result<formats::Weights> unpacked_with(const std::string& name, const json& quantization, const std::string& tensor,
                                       const std::function<void(TensorData&)>& change) {
    json config = json::parse(std::ifstream(packed_folder(name) / "config.json"));
    config["quantization_config"].merge_patch(quantization);
    const auto weights = must(formats::open_weights(packed_folder(name)));
    formats::TensorMap tensors = weights.tensors();
    if (!tensor.empty()) change(tensors.at(tensor));
    return models::unpacked(must(formats::Config::parse(config.dump(), "config.json")),
                            weights.with(std::move(tensors)));
}

Result<formats::Weights> unpacked_with(const std::string& name, const json& quantization) {
    return unpacked_with(name, quantization, "", {});
}

template <class T>
std::shared_ptr<std::vector<T>> copied(TensorData& data) {
    const auto values = std::make_shared<std::vector<T>>(data.bytes.size() / sizeof(T));
    std::memcpy(values->data(), data.bytes.data(), data.bytes.size());
    data.bytes = std::as_bytes(std::span(*values));
    data.owner = values;
    return values;
}

}  // namespace

TEST_CASE("packed weights become block formats that have their numbers", "[models][packed]") {
    for (const auto& [name, format] : kFormats) {
        CAPTURE(name);
        const auto weights = must(models::open_folder_weights(
            must(formats::Config::open(packed_folder(name) / "config.json")), packed_folder(name)));
        std::size_t matrices = 0;
        for (const auto& [tensor, data] : weights.tensors()) {
            CAPTURE(tensor);
            CHECK(tensor.find("qweight") == tensor.npos);
            CHECK(tensor.find("scale") == tensor.npos);
            if (!tensor.starts_with("model.layers.") || data.shape.rank() != 2 || tensor.ends_with("mlp.gate.weight"))
                continue;
            ++matrices;
            CHECK(data.dtype == format);
        }
        CHECK(matrices >= 14);
        CHECK(must(models::load_decoder(packed_folder(name))).notes.empty());
    }
}

TEST_CASE("models with packed weights give the logits of the numbers that they stand for",
          "[models][decoder][golden][packed]") {
    const auto floats_on_cpu = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    graph::Backend* const tested = GENERATE(from_range(test_backends()));
    graph::Backend& backend = tested == test_backends()[0] ? *floats_on_cpu : *tested;
    const DType dtype = GENERATE(DType::f32, DType::f16);
    for (const auto& [name, format] : kFormats) {
        CAPTURE(backend.name(), name, to_string(dtype));
        if (!takes_case(*tested, 2)) continue;
        const models::Decoder model = must(models::load_decoder(packed_folder(name)));
        const Golden golden("packed/" + name + "/golden.safetensors");
        const auto len = static_cast<std::uint32_t>(golden.shape("input_ids")[1]);
        const PiecewiseRun run = run_in_pieces(model, backend, golden, dtype, {len});
        // The others round to float16: each number, or what all of a group are moved by.
        const double rounding = format == DType::f16 ? 1.5e-3 : format == DType::q4_1 ? 3e-3 : 0;
        check_golden(run.logits, golden, "logits", std::max(rotary_bound(backend, dtype), rounding));
    }
}

TEST_CASE("zeros that are 0 are read out of words with borrows", "[models][packed]") {
    // The words of version 1 are those of version 2 less 0x11111111: here a zero of 0 beside others.
    constexpr std::string_view kZeros = "model.layers.0.self_attn.q_proj.qzeros";
    const auto with_zeros = [&](std::uint32_t less, const char* version) {
        return must(
            unpacked_with("gptq_zeros", {{"checkpoint_format", version}}, std::string(kZeros), [&](TensorData& data) {
                const auto words = copied<std::uint32_t>(data);
                for (std::uint32_t& word : *words) word = 0x70F08010u - less;
            }));
    };
    const auto first = with_zeros(0x11111111u, "gptq"), second = with_zeros(0, "gptq_v2");
    for (const char* const name : {"model.layers.0.self_attn.q_proj.weight"}) {
        const TensorData a = must(first.get(name)), b = must(second.get(name));
        REQUIRE(a.dtype == DType::q4_1);
        CHECK(std::ranges::equal(a.bytes, b.bytes));
        // Output 0 has the zero 0, output 1 the zero 1.
        const auto values = must(models::floats_of(a));
        const auto least = [&](std::size_t row) {
            return *std::ranges::min_element(std::span(values).subspan(row * a.shape[1], a.shape[1]));
        };
        CHECK(least(0) >= 0);
        CHECK(least(1) < 0);
    }
}

TEST_CASE("methods and fields that are not read are refused by name", "[models][packed][errors]") {
    const auto [name, fields, what] = GENERATE(table<std::string, std::string, std::string>({
        {"gptq", R"({"quant_method": "bitsandbytes"})", "\"quant_method\" is \"bitsandbytes\""},
        {"gptq", R"({"quant_method": null})", "quant_method"},
        {"gptq", R"({"bits": 3})", "\"bits\" is 3"},
        {"gptq", R"({"bits": null})", "bits"},
        {"gptq", R"({"group_size": 0})", "group_size"},
        {"gptq", R"({"group_size": -2})", "group_size"},
        {"gptq", R"({"checkpoint_format": "marlin"})", "checkpoint_format"},
        {"gptq", R"({"is_marlin_format": true})", "is_marlin_format"},
        {"gptq", R"({"pack_dtype": "int8"})", "pack_dtype"},
        {"gptq", R"({"dynamic": {"-:.*down.*": {}}})", "dynamic"},
        {"gptq", R"({"dynamic": [1]})", "dynamic"},
        {"gptq", R"({"checkpoint_format": null, "format": "gptq_v3"})", "\"format\" is \"gptq_v3\""},
        {"awq", R"({"version": null, "format": "gemv_fast"})", "gemv_fast"},
        {"awq", R"({"dynamic": {"x": {}}})", "dynamic"},
        {"awq", R"({"bits": 8})", "bits"},
        {"awq", R"({"version": "gemv"})", "version"},
        {"fp8", R"({"fmt": "e5m2"})", "fmt"},
        {"fp8", R"({"activation_scheme": "odd"})", "activation_scheme"},
        {"fp8", R"({"weight_block_size": [16]})", "weight_block_size"},
        {"fp8", R"({"weight_block_size": [16, 0]})", "weight_block_size"},
        {"compressed_w4a16", R"({"format": "marlin-24"})", "marlin-24"},
        {"compressed_w4a16", R"({"format": "nvfp4-pack-quantized"})", "nvfp4"},
        {"compressed_w4a16", R"({"transform_config": {"config_groups": {}}})", "transform_config"},
        {"compressed_w4a16", R"({"sparsity_config": {"format": "sparse-24-bitmask"}})", "sparse-24-bitmask"},
        {"compressed_w4a16", R"({"quantization_status": "frozen"})", "quantization_status"},
        {"compressed_w4a16", R"({"config_groups": {"group_0": {"weights": {"num_bits": 3}}}})", "num_bits"},
        {"compressed_w4a16", R"({"config_groups": {"group_0": {"weights": {"type": "float"}}}})", "num_bits"},
        {"compressed_w4a16", R"({"config_groups": {"group_0": {"weights": {"strategy": "tensor_group"}}}})",
         "strategy"},
        {"compressed_w4a16", R"({"config_groups": {"group_0": {"weights": {"strategy": "block"}}}})",
         "block_structure"},
        {"compressed_w4a16", R"({"config_groups": {"group_0": {"weights": {"dynamic": true}}}})", "dynamic"},
        {"compressed_w4a16", R"({"config_groups": {"group_1": {"weights": {"num_bits": 8}}}})", "config_groups"},
    }));
    CAPTURE(name, fields);
    const auto refused = unpacked_with(name, json::parse(fields));
    REQUIRE_FALSE(refused);
    // A value that no version has at all, and one that is not done.
    const bool is_malformed =
        fields == R"({"bits": null})" || fields == R"({"group_size": -2})" || fields == R"({"dynamic": [1]})";
    CHECK(refused.error().code == (is_malformed ? ErrorCode::CorruptFile : ErrorCode::UnsupportedConfig));
    CHECK_THAT(refused.error().message, ContainsSubstring(what) && ContainsSubstring("quantization_config"));
}

TEST_CASE("both spellings of a method's fields, and what writers add to them", "[models][packed]") {
    const auto is_same = [](const std::string& name, const json& fields) {
        const auto as_is = must(unpacked_with(name, json::object())), changed = must(unpacked_with(name, fields));
        for (const auto& [tensor, data] : as_is.tensors()) {
            const TensorData* const other = changed.find(tensor);
            if (!other || other->dtype != data.dtype || !std::ranges::equal(other->bytes, data.bytes)) return false;
        }
        return true;
    };
    CHECK(is_same("awq", {{"bits", nullptr}, {"w_bit", 4}, {"group_size", nullptr}, {"q_group_size", 32}}));
    CHECK(
        is_same("awq", {{"version", nullptr}, {"format", "gemm"}, {"checkpoint_format", "gemm"}, {"desc_act", false}}));
    CHECK(is_same("gptq_v2_whole", {{"checkpoint_format", nullptr}, {"format", "gptq_v2"}}));
    CHECK(is_same("gptq",
                  {{"method", "gptq"}, {"format", "gptq"}, {"act_group_aware", true}, {"dynamic", json::object()}}));
    CHECK_FALSE(is_same("gptq_zeros", {{"checkpoint_format", "gptq_v2"}}));
}

TEST_CASE("groups of inputs that compressed-tensors lists", "[models][packed]") {
    const std::string layer = "model.layers.0.mlp.up_proj.";
    const auto with_groups = [&](const std::function<std::int32_t(std::size_t)>& group) {
        const json config = json::parse(std::ifstream(packed_folder("compressed_w4a16") / "config.json"));
        const auto weights = must(formats::open_weights(packed_folder("compressed_w4a16")));
        formats::TensorMap tensors = weights.tensors();
        const auto groups = std::make_shared<std::vector<std::int32_t>>(64);
        for (std::size_t i = 0; i < groups->size(); ++i) (*groups)[i] = group(i);
        tensors[layer + "weight_g_idx"] = {
            .dtype = DType::i32, .shape = {64}, .bytes = std::as_bytes(std::span(*groups)), .owner = groups};
        return models::unpacked(must(formats::Config::parse(config.dump(), "config.json")),
                                weights.with(std::move(tensors)));
    };
    const TensorData plain =
        must(must(with_groups([](std::size_t i) { return static_cast<std::int32_t>(i / 32); })).get(layer + "weight"));
    CHECK(plain.dtype == DType::q4_0);
    const TensorData turned =
        must(must(with_groups([](std::size_t i) { return static_cast<std::int32_t>(i % 2); })).get(layer + "weight"));
    REQUIRE(turned.dtype == DType::f16);
    const auto a = must(models::floats_of(plain)), b = must(models::floats_of(turned));
    CHECK(a[0] == b[0]);    // group 0 in both
    CHECK(a[33] == b[33]);  // group 1 in both
    CHECK(a != b);
    CHECK_FALSE(with_groups([](std::size_t i) { return static_cast<std::int32_t>(i / 31); }));
}

TEST_CASE("packed tensors that do not fit each other are refused by name", "[models][packed][errors]") {
    const std::string layer = "model.layers.1.mlp.down_proj.";
    const auto check = [&](const std::string& name, const json& fields, const std::string& tensor, ErrorCode code,
                           auto&& change) {
        CAPTURE(name, tensor);
        const auto refused = unpacked_with(name, fields, layer + tensor, change);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == code);
        // Which of the tensors is told depends on the order; where a field is wrong, the first layer is.
        CHECK_THAT(refused.error().message,
                   ContainsSubstring(fields.empty() ? layer : "model.layers.0.mlp.down_proj."));
    };
    const auto reshaped = [](Shape shape) {
        return [shape](TensorData& data) {
            data.shape = shape;
            data.bytes = data.bytes.first(bytes_of(data.dtype, shape.element_count()));
        };
    };
    const json same = json::object();
    check("gptq", same, "scales", ErrorCode::ShapeMismatch, reshaped({2, 64}));
    check("gptq", same, "scales", ErrorCode::ShapeMismatch, reshaped({3, 32}));
    check("gptq", same, "qzeros", ErrorCode::ShapeMismatch, reshaped({3, 4}));
    check("gptq", same, "qweight", ErrorCode::ShapeMismatch, reshaped({8, 64}));
    check("gptq", same, "qweight", ErrorCode::ShapeMismatch, reshaped({768}));
    check("gptq", same, "g_idx", ErrorCode::ShapeMismatch, reshaped({95}));
    check("awq", {{"group_size", 64}}, "scales", ErrorCode::ShapeMismatch, [](TensorData&) {});
    check("gptq", same, "g_idx", ErrorCode::CorruptFile,
          [](TensorData& data) { copied<std::int32_t>(data)->at(5) = 3; });
    check("gptq", same, "g_idx", ErrorCode::CorruptFile,
          [](TensorData& data) { copied<std::int32_t>(data)->at(95) = -1; });
    check("gptq", same, "scales", ErrorCode::UnsupportedDtype, [](TensorData& data) { data.dtype = DType::i16; });
    check("awq", same, "qweight", ErrorCode::ShapeMismatch, reshaped({64, 8}));
    check("awq", same, "scales", ErrorCode::ShapeMismatch, reshaped({1, 64}));
    check("fp8", same, "weight_scale_inv", ErrorCode::ShapeMismatch, reshaped({4, 2}));
    check("fp8", {{"weight_block_size", nullptr}}, "weight_scale_inv", ErrorCode::ShapeMismatch, [](TensorData&) {});
    check("compressed_w4a16", same, "weight_packed", ErrorCode::ShapeMismatch, reshaped({64, 11}));
    check("compressed_w4a16", same, "weight_scale", ErrorCode::ShapeMismatch, reshaped({32, 3}));
    check("compressed_w4a16", same, "weight_shape", ErrorCode::ShapeMismatch,
          [](TensorData& data) { copied<std::int64_t>(data)->at(0) = -4; });
    check("compressed_w4a16", same, "weight_shape", ErrorCode::ShapeMismatch,
          [](TensorData& data) { copied<std::int64_t>(data)->at(1) = 1 << 25; });
    check("compressed_w4a16", same, "weight_shape", ErrorCode::InvalidArgument,
          [](TensorData& data) { copied<std::int64_t>(data)->at(1) = std::int64_t{1} << 40; });
    check("fp8", same, "weight_scale_inv", ErrorCode::UnsupportedConfig,
          [](TensorData& data) { copied<float>(data)->at(1) = 1e9f; });
    check("compressed_w4a16_zeros", same, "weight_zero_point", ErrorCode::ShapeMismatch, reshaped({7, 3}));
    check("compressed_int8", same, "weight_scale", ErrorCode::ShapeMismatch, reshaped({63, 1}));
}

TEST_CASE("a matrix beside its packed form is refused", "[models][packed][errors]") {
    const json config = json::parse(std::ifstream(packed_folder("gptq") / "config.json"));
    const auto weights = must(formats::open_weights(packed_folder("gptq")));
    formats::TensorMap tensors = weights.tensors();
    tensors["model.layers.1.mlp.up_proj.weight"] = tensors.at("model.embed_tokens.weight");
    const auto refused =
        models::unpacked(must(formats::Config::parse(config.dump(), "config.json")), weights.with(std::move(tensors)));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::CorruptFile);
    CHECK_THAT(refused.error().message, ContainsSubstring("model.layers.1.mlp.up_proj.weight is there beside qweight"));
}

TEST_CASE("scales and zeros that a layer's fields do not ask for stay, and are told of", "[models][packed]") {
    const std::string layer = "model.layers.1.mlp.up_proj.";
    const auto with_tensor = [&](const std::string& name, const std::string& tensor, const std::string& of) {
        const json config = json::parse(std::ifstream(packed_folder(name) / "config.json"));
        const auto weights = must(formats::open_weights(packed_folder(name)));
        formats::TensorMap tensors = weights.tensors();
        tensors[layer + tensor] = tensors.at(layer + of);
        return models::unpacked(must(formats::Config::parse(config.dump(), "config.json")),
                                weights.with(std::move(tensors)));
    };
    CHECK(must(with_tensor("compressed_w4a16", "weight_zero_point", "weight_packed")).has(layer + "weight_zero_point"));
    CHECK(must(with_tensor("fp8", "weight_scale", "weight_scale_inv")).has(layer + "weight_scale"));
}

TEST_CASE("a scale that is no number is told of as damage", "[models][packed][errors]") {
    const TemporaryFolder folder;
    const fs::path model = folder / "model";
    fs::copy(packed_folder("gptq"), model);
    const auto file = must(formats::Safetensors::open(packed_folder("gptq") / "model.safetensors"));
    std::vector<formats::NamedTensor> tensors;
    for (const auto& [name, data] : file.tensors()) {
        tensors.push_back({name, data});
        if (name == "model.layers.0.mlp.up_proj.scales") copied<std::uint16_t>(tensors.back().data)->at(7) = 0x7C00;
    }
    must(formats::write_safetensors(model / "model.safetensors", tensors));
    const auto refused = models::load_decoder(model);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::CorruptFile);
    CHECK_THAT(refused.error().message, ContainsSubstring("model.layers.0.mlp.up_proj.weight"));
}

TEST_CASE("scales that float16 does not have leave float16 numbers", "[models][packed]") {
    const std::string name = "model.layers.0.mlp.up_proj.";
    const auto weights =
        must(unpacked_with("compressed_w4a16", json::object(), name + "weight_scale", [](TensorData& data) {
            for (std::uint16_t& scale : *copied<std::uint16_t>(data)) scale = float_to_bfloat(0x1.5p-25f);
        }));
    CHECK(must(weights.get(name + "weight")).dtype == DType::f16);
    CHECK(must(weights.get("model.layers.0.mlp.gate_proj.weight")).dtype == DType::q4_0);
}

}  // namespace vkformer::tests
