// SPDX-License-Identifier: MIT
/// What Embedder and CrossEncoder share: a model and its tokenizer on a device.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/open_backend.hpp"
#include "api/padded_texts.hpp"
#include "api/yes_no_reranker.hpp"
#include "decoding/encoder_session.hpp"
#include "models/encoder.hpp"
#include "text/tokenizer.hpp"
#include "vkformer/embedder.hpp"

namespace vkformer::api {

/// One text, or two that are read together.
struct EncoderInput {
    std::string_view first;
    std::optional<std::string_view> second{};
};

/// What came out for one of them.
struct EncoderOutput {
    std::vector<float> values;
    std::size_t tokens = 0, cut = 0;
};

/// A few texts of 32 tokens: what the choice between two backends is measured with. Errors: the model's.
Result<std::vector<tuning::Workload>> encoder_workload(const models::Encoder& encoder,
                                                       const decoding::EncoderHead& head, DType dtype);

class EncoderRunner {
public:
    /// `max_length`: tokens of a text that the folder allows, 0 where it says nothing. `device`: one that is open already, to share.
    /// The encoder has the options' adapters already. Errors: as of Embedder::load.
    static Result<EncoderRunner> load(const std::filesystem::path& folder, models::Encoder encoder,
                                      decoding::EncoderHead head, std::uint32_t max_length,
                                      const EncoderOptions& options, std::shared_ptr<OpenedBackend> device = nullptr);

    /// Another one of the same model. `twin`: of its device.
    EncoderRunner twin(std::shared_ptr<OpenedBackend> twin) const;

    /// `what` names an input in messages: "text 3: …". Errors: as of Embedder::embed.
    Result<std::vector<EncoderOutput>> run(std::span<const EncoderInput> inputs, std::string_view what,
                                           const Embedder::Progress& progress,
                                           const std::map<std::string, float>& adapters = {});

    /// Pairs become one text by this from now on, where else the tokenizer joins them. Errors: InvalidArgument (no token of a pair is left
    /// of max_length), and the tokenizer's.
    Result<void> set_prompt(const PairPrompt& prompt);

    /// Texts are written and padded as SigLIP reads them from now on. Errors: as of PaddedTexts::read.
    Result<void> pad_texts(const std::filesystem::path& folder);

    /// Whether run() takes this input; nothing is run. Errors: InvalidArgument.
    Result<void> check(const EncoderInput& input) const;

    const models::Encoder& encoder() const noexcept { return *encoder_; }
    std::size_t max_length() const noexcept { return max_length_; }
    const std::shared_ptr<OpenedBackend>& device() const noexcept { return device_; }
    DeviceMemory memory() const { return device_->backend->memory(); }

private:
    /// A PairPrompt, its ends as tokens.
    struct EncodedPrompt {
        std::vector<std::int32_t> prefix, suffix;
        std::string before, between;
    };

    EncoderRunner() = default;

    Result<text::Encoding> encode(const EncoderInput& input) const;
    Result<text::Encoding> encode_prompted(const EncoderInput& input) const;

    std::shared_ptr<const models::Encoder> encoder_;  // what the session borrows stays where it is
    std::shared_ptr<const text::Tokenizer> tokenizer_;
    std::shared_ptr<OpenedBackend> device_;
    std::optional<decoding::EncoderSession> session_;
    std::optional<EncodedPrompt> prompt_;
    std::optional<PaddedTexts> padding_;
    std::size_t max_length_ = 0;
    std::vector<std::string> adapters_;  // names, in the model's order
};

}  // namespace vkformer::api
