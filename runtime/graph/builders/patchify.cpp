// SPDX-License-Identifier: MIT
#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {

Result<Value> patchify(Graph& graph, Value pixels, const PatchifyOptions& options) {
    const OperandCheck check(graph, Patchify::kName);
    VKFORMER_CHECK(check.dtype("pixels", pixels, DType::f32));
    VKFORMER_CHECK(check.rank("pixels", pixels, "[batch, channels, height, width]"));
    const Shape& shape = graph.shape(pixels);
    const std::uint64_t channels = shape[1], height = shape[2], width = shape[3];
    VKFORMER_CHECK(check.range("patch_height", options.patch_height, 1, height));
    VKFORMER_CHECK(check.range("patch_width", options.patch_width, 1, width));
    VKFORMER_CHECK(check.range("prefix", options.prefix, 0, Graph::kMaxElements));
    if (options.result != DType::f32 && options.result != DType::f16)
        return check.error(ErrorCode::UnsupportedDtype,
                           "result is " + std::string(to_string(options.result)) + ", expected f32 or f16");

    const std::uint64_t patches = (height / options.patch_height) * (width / options.patch_width);
    const std::uint64_t patch = channels * options.patch_height * options.patch_width;
    VKFORMER_TRY(const Value y,
                 graph.activation(Patchify::kName, options.result, {shape[0], options.prefix + patches, patch}));
    graph.add_node(Patchify{.pixels = pixels,
                            .y = y,
                            .patch_height = options.patch_height,
                            .patch_width = options.patch_width,
                            .prefix = options.prefix});
    return y;
}

}  // namespace vkformer::graph
