// SPDX-License-Identifier: MIT
#include "decoding/image_session.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "core/try.hpp"

namespace vkformer::decoding {
namespace {

using models::VisionLayout;

/// Splits a tensor [batch, …] into what belongs to each image.
Result<std::vector<std::vector<float>>> read_rows(graph::Program& program, graph::Value tensor, std::size_t batch) {
    std::vector<float> values(program.plan().graph.shape(tensor).element_count());
    VKFORMER_CHECK(program.read(tensor, std::span<float>(values)));
    const std::size_t width = values.size() / batch;
    std::vector<std::vector<float>> rows;
    for (std::size_t row = 0; row < batch; ++row) {
        const auto part = std::span(values).subspan(row * width, width);
        rows.emplace_back(part.begin(), part.end());
    }
    return rows;
}

}  // namespace

Result<ImageGraph> image_graph(const models::VisionEncoder& encoder, const ImageHead& head,
                               const VisionLayout& layout) {
    ImageGraph g;
    VKFORMER_TRY(g.encoder, encoder.add_encoder(g.graph, layout));
    VKFORMER_TRY(g.result, head(g.graph, g.encoder.hidden));
    g.graph.mark_output(g.result);
    return g;
}

ImageSession::ImageSession(graph::Backend& backend, const models::VisionEncoder& encoder, ImageHead head,
                           const ImageSessionOptions& options, std::shared_ptr<graph::TensorStore> weights)
    : backend_(&backend),
      encoder_(&encoder),
      head_(std::move(head)),
      options_(options),
      weights_(std::move(weights)),
      states_(backend.make_store()) {}

std::size_t ImageSession::elements() const noexcept {
    const models::VisionConfig& c = encoder_->config();
    return std::size_t{c.channels} * c.image_height * c.image_width;
}

Result<void> ImageSession::check(std::span<const float> pixels) const {
    if (pixels.size() == elements()) return {};
    const models::VisionConfig& c = encoder_->config();
    return Error{ErrorCode::InvalidArgument,
                 "an image has " + std::to_string(pixels.size()) + " values, the model takes " +
                     to_string(Shape{c.channels, c.image_height, c.image_width}) + " = " + std::to_string(elements())};
}

Result<ImageSession::Prepared*> ImageSession::prepare(const VisionLayout& layout) {
    const auto is_same = [&](const Prepared& p) {
        return p.layout.batch == layout.batch && p.layout.layers == layout.layers;
    };
    const auto known = std::ranges::find_if(prepared_, is_same);
    if (known != prepared_.end()) {
        prepared_.splice(prepared_.begin(), prepared_, known);
        return &prepared_.front();
    }
    if (prepared_.size() == kKeptPrograms) prepared_.pop_back();
    Prepared made{.layout = layout, .tensors = {}, .program = nullptr};
    VKFORMER_TRY(made.tensors, image_graph(*encoder_, head_, layout));
    VKFORMER_TRY(made.program,
                 backend_->compile(graph::make_plan_for(*backend_, std::move(made.tensors.graph)), weights_, states_));
    prepared_.push_front(std::move(made));
    return &prepared_.front();
}

Result<std::vector<ImageResult>> ImageSession::run_batch(Prepared& prepared, std::span<const float> pixels) {
    graph::Program& program = *prepared.program;
    const ImageGraph& t = prepared.tensors;
    VKFORMER_CHECK(program.write(t.encoder.pixels, pixels));
    VKFORMER_CHECK(program.submit());
    VKFORMER_CHECK(program.wait());
    VKFORMER_TRY(auto rows, read_rows(program, t.result, prepared.layout.batch));
    std::vector<ImageResult> results;
    for (auto& row : rows) results.push_back({.values = std::move(row), .attention = {}});
    for (const graph::Value layer : t.encoder.layers.attention) {
        VKFORMER_TRY(auto weights, read_rows(program, layer, prepared.layout.batch));
        for (std::size_t i = 0; i < weights.size(); ++i) results[i].attention.push_back(std::move(weights[i]));
    }
    return results;
}

/// Places that no image needs are black.
Result<std::vector<ImageResult>> ImageSession::run(std::size_t count, const Pixels& pixels, const Progress& progress) {
    const std::uint32_t most = std::clamp(kTokensPerRun / encoder_->config().tokens(), 1u, options_.batch);
    std::vector<ImageResult> results;
    while (results.size() < count) {
        VKFORMER_CHECK(backend_->check_wanted());
        const auto rows = static_cast<std::uint32_t>(std::min<std::size_t>(most, count - results.size()));
        const std::uint32_t batch = std::min(std::bit_ceil(rows), most);
        std::vector<float> values;
        for (std::uint32_t row = 0; row < rows; ++row) {
            VKFORMER_TRY(const std::vector<float> image, pixels(results.size() + row));
            VKFORMER_CHECK(check(image));
            values.insert(values.end(), image.begin(), image.end());
        }
        values.resize(batch * elements());
        VKFORMER_TRY(Prepared* const prepared, prepare({.batch = batch, .dtype = options_.dtype}));
        VKFORMER_TRY(auto found, run_batch(*prepared, values));
        found.resize(rows);
        std::ranges::move(found, std::back_inserter(results));
        if (progress) progress(results.size(), count);
    }
    return results;
}

Result<ImageResult> ImageSession::run_with_attention(std::span<const float> pixels) {
    VKFORMER_CHECK(check(pixels));
    VKFORMER_TRY(Prepared* const prepared, prepare({.dtype = options_.dtype, .layers = {.attention = true}}));
    VKFORMER_TRY(auto results, run_batch(*prepared, pixels));
    return std::move(results.front());
}

}  // namespace vkformer::decoding
