// SPDX-License-Identifier: MIT
#include "cpu/backend.hpp"
#include "models/decoder_case.hpp"
#include "models/model_case.hpp"
#include "models/run_in_pieces.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"

namespace vkformer::tests {

TEST_CASE("a decoder's forward pass is that of Hugging Face, in one go, in chunks and token by token",
          "[models][decoder][golden]") {
    const auto floats_on_cpu = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    graph::Backend* const tested = GENERATE(from_range(test_backends()));
    graph::Backend& backend = tested == test_backends()[0] ? *floats_on_cpu : *tested;
    const std::string name = GENERATE(from_range(decoder_cases()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    if (!takes_case(*tested, 3)) return;
    CAPTURE(backend.name(), name, to_string(dtype));

    const models::Decoder model = load_decoder_case(name);
    const Golden golden("decoders/" + name + "/golden.safetensors");
    const auto len = static_cast<std::uint32_t>(golden.shape("input_ids")[1]);
    const double bound = rotary_bound(backend, dtype);
    for (const auto& pieces : {std::vector{len}, std::vector{3u, 1u, len - 4}, std::vector(len, 1u)}) {
        CAPTURE(pieces);
        const PiecewiseRun run = run_in_pieces(model, backend, golden, dtype, pieces);
        check_golden(run.logits, golden, "logits", bound);
        check_golden(run.hidden, golden, "last_hidden_state", bound);
        if (dtype == DType::f16) break;  // the caches' rounding is in all of them
    }
}

}  // namespace vkformer::tests
