// SPDX-License-Identifier: MIT
/// What `embed`, `rerank` and `classify` share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "cli.hpp"
#include "vkformer/embedder.hpp"

namespace vkformer::cli {

struct EncoderCommand {
    DeviceOptions device;
    std::string folder;
    std::uint32_t batch = 32, max_length = 0;

    void add(CLI::App& command);
    /// Writes what was said into the library's options. Errors: InvalidArgument, FileNotFound.
    Result<std::filesystem::path> apply(EncoderOptions& options) const;
};

/// Counts the inputs that were cut, and says so at the end on standard error.
class CutReport {
public:
    void add(std::size_t cut) noexcept { texts_ += cut > 0; }
    /// `what`: "text", "pair".
    void show(const char* what, std::size_t max_length) const;

private:
    std::size_t texts_ = 0;
};

/// Shows on standard error how many inputs are done, where that is a terminal and there are many.
Embedder::Progress show_done(const char* what, std::size_t before, std::size_t count);

}  // namespace vkformer::cli
