// SPDX-License-Identifier: MIT
/// What was found out about the variants of ops on one device, kept on disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
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

/// The verdicts of a device, driver and build of the shaders. Each build's file has its own name, so that two that share a folder keep
/// theirs, and none reads or writes what it cannot use; the file of another version of the driver is ignored and replaced. Who changes a
/// kernel's plan and not its shader deletes the file: the build's hash is of the SPIR-V alone.
/// What is being tried is written down before it is tried: a variant that takes the process down with it is found there by the
/// next process. After the second time it is not tried again (the first may have been a user who lost patience). Not
/// thread-safe; processes that write at the same time keep what each of them has found.
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

    /// Writes the file, by way of a temporary one, joined with what others have saved there meanwhile: of what both have set, this one's if
    /// it was set since the last time. Failing to write is no error: it costs time only.
    void save();
    /// Why the last save() wrote nothing; empty: it did.
    const std::string& failure() const noexcept { return failure_; }
    const std::filesystem::path& path() const noexcept { return path_; }

private:
    /// A trial that is running, and the process that runs it: its number and when it began.
    struct Mark {
        std::string trial;
        int process;
        std::uint64_t started;
        bool operator==(const Mark&) const = default;
    };
    static Mark mark_of(const std::string& trial);
    static bool is_running(const Mark& mark);
    void read();
    Result<void> write();

    std::filesystem::path path_;
    std::string stamp_;  // driver version and shaders
    std::map<std::string, Verdict> verdicts_;
    std::map<std::string, std::map<std::string, double>> timings_;
    std::map<std::string, int> unfinished_;  // "key variant" → how often it was begun and not ended
    std::string trying_;                     // the same, of the trial that is running
    std::vector<Mark> others_;               // that the file has of others
    std::string failure_;
    // Since the file was written: the names of verdicts and timings that were set, the trials that came to their ends, and the one of this
    // that the file says is running.
    std::set<std::string> changed_, ended_;
    std::string marked_;
    std::uint64_t hash_ = 0;  // of the file as it was read or written last; 0: there was none
    bool may_lock_ = true;
};

/// A hash of all compiled shaders of this build, in hexadecimal digits.
const std::string& shader_hash();

}  // namespace vkformer::tuning
