// SPDX-License-Identifier: MIT
// The types of models: each that is named as one of a kind is known to the loading function of that kind.
#include <algorithm>
#include <fstream>

#include "models/open_model.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using models::ModelKind;

/// Why the folder cannot be loaded as a model of the kind.
std::string kind_refusal(ModelKind kind, const std::filesystem::path& folder) {
    const auto message = [](const auto& result) { return result ? std::string() : result.error().message; };
    switch (kind) {
    case ModelKind::encoder_decoder: return message(models::load_encoder_decoder(folder));
    case ModelKind::decoder: return message(models::load_decoder(folder));
    case ModelKind::encoder: return message(models::load_encoder(folder));
    case ModelKind::vision: return message(models::load_vision_encoder(folder));
    case ModelKind::clip: return message(models::load_clip(folder));
    case ModelKind::speech: return message(models::load_speech_model(folder));
    }
    return {};
}

void write_type(const TemporaryFolder& folder, std::string_view type) {
    std::ofstream(folder / "config.json") << R"({"model_type": ")" << type << R"("})";
}

bool is_decoder_type(std::string_view type) {
    return std::ranges::count(models::model_types(ModelKind::decoder), type) > 0;
}

/// What makes an encoder of a decoder.
void write_pooling(const TemporaryFolder& folder) {
    std::ofstream(folder / "modules.json") << R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
                                                  {"type": "sentence_transformers.models.Pooling", "path": "1"}])";
    std::filesystem::create_directory(folder / "1");
    std::ofstream(folder / "1/config.json") << R"({"pooling_mode_lasttoken": true})";
}

}  // namespace

TEST_CASE("every type that is named is loaded as one of its kind, and refused as one of another", "[models][errors]") {
    for (const ModelKind kind : models::kModelKinds) {
        REQUIRE_FALSE(models::model_types(kind).empty());
        const std::string named = models::list_types(std::array{kind});
        for (const std::string_view type : models::model_types(kind)) {
            CAPTURE(type);
            CHECK_THAT(named, ContainsSubstring(std::string(type)));
            const TemporaryFolder folder;
            write_type(folder, type);
            if (kind == ModelKind::encoder && is_decoder_type(type)) {
                write_pooling(folder);
                CHECK(models::kind_of(must(models::open_model(folder.path()))) == kind);
                CHECK(models::kind_of(must(models::open_model(folder.path(), std::array{ModelKind::decoder}))) ==
                      ModelKind::decoder);
                continue;
            }
            CHECK(models::kind_of(must(models::open_model(folder.path()))) == kind);
            CHECK(kind_refusal(kind, folder.path()).find("\"model_type\"") == std::string::npos);
            for (const ModelKind other : models::kModelKinds) {
                if (other == kind) continue;
                CHECK_THAT(kind_refusal(other, folder.path()),
                           ContainsSubstring("supported: " + models::list_types(std::array{other}) + "; this one is " +
                                             std::string(models::kind_name(kind))));
            }
        }
    }
}

TEST_CASE("a type that nothing loads is refused with those of every kind that was asked for", "[models][errors]") {
    const TemporaryFolder folder;
    write_type(folder, "mamba");
    const auto any = models::open_model(folder.path());
    REQUIRE_FALSE(any);
    CHECK(any.error().code == ErrorCode::UnsupportedConfig);
    for (const ModelKind kind : models::kModelKinds) {
        CHECK_THAT(any.error().message, ContainsSubstring(models::list_types(std::array{kind})));
        CHECK_THAT(kind_refusal(kind, folder.path()), ContainsSubstring(models::list_types(std::array{kind})));
    }
    CHECK(models::open_model(folder.path(), std::array{ModelKind::decoder}).error().message.find("whisper") ==
          std::string::npos);
}

TEST_CASE("a GGUF file is said to be what it is where something else is needed", "[models][errors]") {
    const auto file = goldens_dir() / "gguf_decoders/qwen2.gguf";
    CHECK(models::kind_of(must(models::open_model(file))) == ModelKind::decoder);
    CHECK(models::kind_of(must(models::open_model(goldens_dir() / "gguf_encoders/bert.gguf"))) == ModelKind::encoder);
    for (const ModelKind other : {ModelKind::encoder_decoder, ModelKind::vision, ModelKind::speech}) {
        CHECK_THAT(kind_refusal(other, file), ContainsSubstring("is a GGUF file of a language model, supported: " +
                                                                models::list_types(std::array{other})));
        CHECK(models::open_model(file, std::array{other}).error().hint == Hint::language_model);
    }
    CHECK(models::open_model(file, std::array{ModelKind::decoder}));
}

TEST_CASE("what is opened knows its files and reads them once they are asked for", "[models]") {
    const TemporaryFolder folder;
    write_type(folder, "llama");
    const auto opened = must(models::open_decoder(folder.path()));  // there are no weights
    CHECK(opened.path == folder.path());
    CHECK(opened.gguf() == nullptr);
    CHECK(opened.load().error().code == ErrorCode::FileNotFound);
    const auto file = must(models::open_decoder(goldens_dir() / "gguf_decoders/qwen2.gguf"));
    REQUIRE(file.gguf());
    CHECK(must(file.gguf()->string("general.architecture")) == "qwen2");
    CHECK(must(file.load()).config().vocab_size > 0);
}

TEST_CASE("a folder of sentence-transformers is opened where its encoder lies", "[models]") {
    const TemporaryFolder folder;
    std::ofstream(folder / "modules.json") << R"([{"type": "sentence_transformers.models.Transformer", "path": "0"},
                                                  {"type": "sentence_transformers.models.Pooling", "path": "1"}])";
    for (const char* const part : {"0", "1"}) std::filesystem::create_directory(folder / part);
    std::ofstream(folder / "0/config.json") << R"({"model_type": "distilbert"})";
    std::ofstream(folder / "1/config.json") << R"({"pooling_mode_cls_token": true})";
    const auto opened = must(models::open_model(folder.path()));
    REQUIRE(models::kind_of(opened) == ModelKind::encoder);
    const auto& encoder = std::get<models::Opened<models::Encoder>>(opened);
    CHECK(encoder.path == folder.path());
    CHECK(encoder.files == folder / "0");
}

}  // namespace vkformer::tests
