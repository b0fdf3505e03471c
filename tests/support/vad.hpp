// SPDX-License-Identifier: MIT
/// A network for voice activity, files like it, and speech models that hear 16 kHz.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "formats/safetensors.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {

inline std::filesystem::path vad_file() { return goldens_dir() / "vad" / "network.safetensors"; }

/// vad_file() with tensors that were changed.
struct ChangedVad {
    TemporaryFolder folder;
    std::filesystem::path path = folder / "changed.safetensors";

    explicit ChangedVad(const std::function<void(std::vector<formats::NamedTensor>&)>& change) {
        const auto file = must(formats::Safetensors::open(vad_file()));
        std::vector<formats::NamedTensor> tensors;
        for (const auto name : file.names()) tensors.push_back({std::string(name), *file.find(name)});
        change(tensors);
        must(formats::write_safetensors(path, tensors));
    }
};

/// A copy of a golden's folder whose model takes its samples for those of 16 kHz.
struct SpeechModelAt16Khz {
    TemporaryFolder folder;

    explicit SpeechModelAt16Khz(const std::string& name) {
        std::filesystem::copy(speech_folder(name), folder.path(), std::filesystem::copy_options::recursive);
        auto sound = read_json(folder / "preprocessor_config.json");
        sound["sampling_rate"] = 16000;
        folder.write("preprocessor_config.json", sound.dump());
    }
};

/// Half a second of silence, speech, three seconds of silence, speech, silence: of `clip`, twice.
inline std::vector<float> speech_between_silence(const std::vector<float>& clip) {
    std::vector<float> sound(8000);
    sound.insert(sound.end(), clip.begin(), clip.end());
    sound.insert(sound.end(), 48000, 0);
    sound.insert(sound.end(), clip.rbegin(), clip.rend());
    sound.insert(sound.end(), 20000, 0);
    return sound;
}

}  // namespace vkformer::tests
