// SPDX-License-Identifier: MIT
/// What the commands of the program share.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include "api/weight_storage.hpp"
#include "core/dtype.hpp"
#include "graph/program.hpp"
#include "models/decoder.hpp"
#include "vkformer/adapter.hpp"
#include "vkformer/offload.hpp"
#include "vkformer/result.hpp"
#include "vkformer/weight_storage.hpp"

namespace vkformer::cli {

enum ExitCode : int { kOk = 0, kDivergence = 1, kBadInput = 2 };

/// What the chosen command does; an Error ends the program with kBadInput.
using Action = std::function<Result<int>()>;

/// Options that several commands have.
struct DeviceOptions {
    std::string device = "auto";
    std::string dtype = "f32";
    bool quiet = false;
    bool plain = false;
    bool strict = false;
    std::vector<std::string> variants;  ///< "op=name"
    std::uint64_t offloaded_bytes = 0;  ///< Offload::bytes

    void add_device(CLI::App& command);
    /// --device alone.
    CLI::Option* add_device_name(CLI::App& command);
    void add_dtype(CLI::App& command);
    void add_strict(CLI::App& command);
    /// Says on standard error what was passed over in a model's files, unless it is to be quiet. Errors: UnsupportedConfig (there is
    /// something, and it is to be strict).
    Result<void> heed(const std::vector<std::string>& notes) const;
    /// `variants` by op. Errors: InvalidArgument (no "=").
    Result<std::map<std::string, std::string>> variants_by_op() const;
    /// `offloaded_bytes`, told on standard error unless it is to be quiet.
    Offload offload() const;
    DType dtype_value() const { return dtype == "f16" ? DType::f16 : DType::f32; }
};

/// How matrices are kept.
struct WeightsOption {
    std::string dtype = "model";

    void add(CLI::App& command);
    WeightStorage storage() const { return dtype == "dtype" ? WeightStorage::precision : WeightStorage::model; }
    models::WeightFormat format() const { return api::format_of(storage()); }
};

/// How keys and values are kept.
struct CacheOption {
    std::string dtype = "dtype";

    void add(CLI::App& command);
    bool is_q8_0() const { return dtype == "q8_0"; }
    models::CacheFormat format() const {
        return is_q8_0() ? models::CacheFormat::q8_0 : models::CacheFormat::as_computed;
    }
};

/// Low-rank adapters that count, and how much.
struct LoraOption {
    std::vector<std::string> given;  ///< "PATH" or "PATH=SCALE"
    struct Counting {
        std::string name;  ///< its place, from 1
        std::filesystem::path path;
        float scale;
    };

    void add(CLI::App& command);
    /// Errors: InvalidArgument (what is behind = is no number).
    Result<std::vector<Counting>> adapters() const;
    /// The same, added to what is loaded, and how much each counts. Errors: likewise.
    Result<std::map<std::string, float>> ask(std::vector<Adapter>& loaded) const;
};

struct ModelOption {
    std::string folder;

    void add(CLI::App& command);
    /// The folder given, or the shipped model: beside the installed program or in the source tree. Errors: FileNotFound.
    Result<std::filesystem::path> find() const;
};

/// A file of the models that are shipped, named from their folder on: beside the installed program or in the source tree. Errors:
/// FileNotFound.
Result<std::filesystem::path> find_shipped(const std::filesystem::path& file);

// One function per command: describes it to the parser and, when the parser meets it, sets `action`.
void add_info(CLI::App& app, Action& action);
void add_translate(CLI::App& app, Action& action);
void add_transcribe(CLI::App& app, Action& action);
void add_embed(CLI::App& app, Action& action);
void add_rerank(CLI::App& app, Action& action);
void add_score(CLI::App& app, Action& action);
void add_classify(CLI::App& app, Action& action);
void add_forward(CLI::App& app, Action& action);
void add_validate(CLI::App& app, Action& action);
void add_attention(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_chat(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_imatrix(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);

/// Writes `text` to standard output: as it is into a pipe or a file, printable on a terminal, for what a model or a file says may
/// hold commands to terminals. Errors: InvalidArgument (a closed pipe, a full disk).
Result<void> print(const std::string& text);

/// The same of a document, with U+FFFD in place of bytes that are no UTF-8, as paths and names of devices may hold.
Result<void> print_json(const nlohmann::json& document);

/// Where nothing can be kept, every run compiles and measures anew, which looks like slowness: says so on standard error.
void warn_of_cache_folder();

/// "vkformer: error: …" on standard error, printable, as far as it is not too long to be read.
void print_error(const std::string& message);

/// `text` with \u001b in place of control characters but line feeds and tabs, and \xff in place of bytes that are no UTF-8.
std::string printable(std::string_view text);

/// One line on standard error that the next call overwrites; an empty text ends it. Nothing where that is no terminal.
void show_progress(const std::string& text);

/// How the program was called, for reports.
std::string command_line();

}  // namespace vkformer::cli
