// SPDX-License-Identifier: MIT
#include "models/load.hpp"

#include <array>
#include <string>
#include <string_view>

#include "core/try.hpp"
#include "models/marian.hpp"
#include "models/recurrent_seq2seq.hpp"

namespace vkformer::models {
namespace {

template <class Model>
Result<std::unique_ptr<EncoderDecoder>> load(const std::filesystem::path& folder) {
    VKFORMER_TRY(Model model, Model::load(folder));
    return std::unique_ptr<EncoderDecoder>(std::make_unique<Model>(std::move(model)));
}

struct Architecture {
    std::string_view model_type;
    Result<std::unique_ptr<EncoderDecoder>> (*load)(const std::filesystem::path&);
};
constexpr std::array<Architecture, 2> kArchitectures = {{
    {"marian", &load<Marian>},
    {"recurrent_seq2seq", &load<RecurrentSeq2Seq>},
}};

}  // namespace

Result<std::unique_ptr<EncoderDecoder>> load_encoder_decoder(const std::filesystem::path& folder) {
    VKFORMER_TRY(const formats::Config config, formats::Config::open(folder / "config.json"));
    // Old opus-mt folders lack the field.
    VKFORMER_TRY(const std::string type, config.string("model_type", "marian"));
    std::string supported;
    for (const Architecture& architecture : kArchitectures) {
        if (architecture.model_type == type) return architecture.load(folder);
        supported += (supported.empty() ? "" : ", ") + std::string(architecture.model_type);
    }
    return config.unsupported("model_type", supported);
}

}  // namespace vkformer::models
