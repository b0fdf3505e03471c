// SPDX-License-Identifier: MIT
/// How large the inputs of a decoder's products are on a text, as llama.cpp's importance matrices have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli.hpp"
#include "formats/importance.hpp"
#include "graph/program.hpp"
#include "models/open_model.hpp"
#include "vkformer/result.hpp"

namespace vkformer::cli {

/// Of a matrix [out, in], or of each of a stack of them.
struct InputSums {
    std::vector<double>
        squares;  ///< [matrices, in]: each input's square, summed over the tokens that came to the matrix
    std::vector<double> counts;  ///< [matrices]: those tokens
};

/// By the matrices' names in GGUF files.
using ImportanceSums = std::map<std::string, InputSums>;

/// Which matrices of GGUF files a decoder's weights are.
class MatrixNames {
public:
    struct Matrix {
        std::string name;
        std::uint64_t matrices = 1;                    ///< of the tensor, where it is a stack
        std::span<const std::byte> bytes;              ///< of it, or of a part of it
        std::vector<std::uint64_t> column_order = {};  ///< as of formats::OutputTensor
    };

    /// The names of the model's own file or, of a folder, those that `convert` gives. The decoder, of the same model, outlives this. Errors:
    /// UnsupportedConfig (an architecture or a tensor that has no place in GGUF files).
    static Result<MatrixNames> of(const models::Opened<models::Decoder>& opened, const models::Decoder& decoder);

    /// Those that have bytes there.
    std::vector<const Matrix*> find(std::span<const std::byte> bytes) const;

private:
    std::multimap<const std::byte*, Matrix> by_begin_;  // their bytes do not overlap
};

struct ImportanceOptions {
    std::uint32_t chunk = 512;  ///< tokens that are read together, one at least
    DType dtype = DType::f32;   ///< of activations: f32 or f16
    bool has_head = false;      ///< also of output.weight
    /// Of the inputs that a run gives to the host: it has as few tokens of a chunk as that takes, one at least.
    std::uint64_t most_bytes = std::uint64_t{256} << 20;
};

/// Chunks that have been read.
using ImportanceProgress = std::function<void(std::size_t done, std::size_t total)>;

/// Of tokens that are whole chunks, one behind the other, each read without what came before it. Sums are taken in double precision.
/// Errors: InvalidArgument (a chunk longer than the model's positions, tokens that are no whole chunks or that it does not know),
/// NotANumber, those of the backend.
Result<ImportanceSums> measure_importance(graph::Backend& backend, const models::Decoder& decoder,
                                          const MatrixNames& names, std::span<const std::int32_t> tokens,
                                          const ImportanceOptions& options, const ImportanceProgress& progress = {});

/// What is asked of a text.
struct ImportanceRequest {
    std::filesystem::path model;  ///< a folder or a GGUF file
    std::string text;
    std::string name;           ///< of the text, in messages
    std::uint32_t context = 0;  ///< tokens of a chunk; 0: 512, or the model's positions where these are fewer
    std::uint32_t chunks = 0;   ///< at most; 0: all that the text has
    bool has_head = false;      ///< as of ImportanceOptions
};

struct MeasuredImportance {
    ImportanceSums sums;
    std::string device;
    std::size_t text_tokens = 0;  ///< that the text has
    std::uint32_t chunk = 0, chunks = 0;
};

/// As llama-imatrix does: the text's tokens in chunks, what is left behind the last left out; a chunk's first token becomes the one that
/// texts begin with, where the model has one. Says on standard error which device is used and how far it is, unless quiet. Errors: those of
/// loading and of measure_importance; FileNotFound (no tokenizer); InvalidArgument (a text shorter than a chunk).
Result<MeasuredImportance> importance_of_text(const DeviceOptions& device, const ImportanceRequest& request);

/// "3 experts of 2 stacks": those that no token came to; empty: there are none.
std::string unmet_experts(const ImportanceSums& sums);

/// The means, as reading the file that they make gives them.
formats::Importance means_of(const ImportanceSums& sums);

/// A GGUF file as llama-imatrix writes it, with the name of the text. Errors: those of formats::write_gguf.
Result<void> write_importance(const std::filesystem::path& path, const MeasuredImportance& measured,
                              const std::string& text);

}  // namespace vkformer::cli
