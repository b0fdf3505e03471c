// SPDX-License-Identifier: MIT
/// What was found out about the variants of ops on one device, kept on disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "vkformer/result.hpp"
#include "vulkan/capabilities.hpp"

namespace vkformer::tuning {

/// One variant of one op in one case.
struct Trial {
    std::string variant;
    double error = 0;  ///< ‖y − ŷ‖ / ‖ŷ‖ of its worst result; meaningless where `fault` says that there is none
    double bound = 0;     ///< what is allowed
    double us = 0;        ///< the shortest device time of a run, in microseconds; 0: not timed
    std::string fault{};  ///< why it is never used: wrong, refused by the driver, crashed; empty: it is right
    bool lacked_memory = false;  ///< the fault is that there was none left, which says nothing of the variant
};

struct Verdict {
    std::string variant;  ///< the fastest of those that are right
    std::vector<Trial> trials{};
};

/// The verdicts of a device, driver and build of the shaders; any other's file is ignored and replaced. Who changes a kernel's plan and not
/// its shader deletes the file: the build's stamp is of the SPIR-V alone.
/// What is being tried is written down before it is tried: a variant that takes the process down with it is found there by the
/// next process. After the second time it is not tried again (the first may have been a user who lost patience). Not
/// thread-safe; processes that write at the same time keep the verdicts of one of them.
class VerdictFile {
public:
    /// `folder` empty: nothing is read or written. A file that cannot be read or is damaged counts as none.
    VerdictFile(std::filesystem::path folder, const vulkan::Capabilities& device);

    const std::map<std::string, Verdict>& verdicts() const noexcept { return verdicts_; }
    const Verdict* find(const std::string& key) const;
    void set(const std::string& key, Verdict verdict);

    /// To be called around whatever may crash. `begin` gives false where two earlier processes did not get to `end`.
    bool begin(const std::string& key, std::string_view variant);
    void end();
    /// What `begin` would say.
    bool may_try(const std::string& key, std::string_view variant) const;
    /// Whether a process has ended while something of this case was tried.
    bool has_unfinished(const std::string& key) const;

    /// What a model took on this device: microseconds by name ("cpu", "vulkan"); see tuning/workload.hpp.
    std::map<std::string, double> timings(const std::string& model) const;
    void set_timings(const std::string& model, const std::map<std::string, double>& us);

    /// Writes the file, by way of a temporary one. Failing to write is no error: it costs time only.
    void save();
    const std::filesystem::path& path() const noexcept { return path_; }

private:
    void read();

    std::filesystem::path path_;
    std::string stamp_;  // driver version and shaders
    std::map<std::string, Verdict> verdicts_;
    std::map<std::string, std::map<std::string, double>> timings_;
    std::map<std::string, int> unfinished_;  // "key variant" → how often it was begun and not ended
    std::string trying_;                     // the same, of the trial that is running
};

/// A hash of all compiled shaders of this build, in hexadecimal digits.
const std::string& shader_hash();

}  // namespace vkformer::tuning
