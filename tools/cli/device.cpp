// SPDX-License-Identifier: MIT
#include "device.hpp"

#include <cstdio>
#include <memory>
#include <utility>
#include <variant>

#include "core/try.hpp"

namespace vkformer::cli {

Result<api::OpenOptions> open_options(const DeviceOptions& options) {
    api::OpenOptions open{.device = options.device, .plain = options.plain, .offload = options.offload()};
    VKFORMER_TRY(open.variants, options.variants_by_op());
    if (!options.quiet) open.progress = [](const tuning::Progress& p) { show_progress(to_string(p)); };
    return open;
}

Result<std::unique_ptr<graph::Backend>> open_backend(const DeviceOptions& options,
                                                     const api::MakeWorkloads& workloads) {
    VKFORMER_TRY(const auto open, open_options(options));
    VKFORMER_TRY(auto opened, api::open_backend(open, workloads));
    if (!options.quiet) std::fprintf(stderr, "vkformer: device: %s\n", opened.description.c_str());
    return std::move(opened.backend);
}

Result<models::OpenedModel> open_model(const DeviceOptions& options, const std::filesystem::path& path) {
    VKFORMER_TRY(models::OpenedModel model, models::open_model(path));
    const auto heed_once = [&](auto& opened) {
        opened.load = [load = std::move(opened.load), options,
                       is_told = std::make_shared<bool>()]() -> decltype(opened.load()) {
            VKFORMER_TRY(auto loaded, load());
            if (!std::exchange(*is_told, true)) VKFORMER_CHECK(options.heed(models::notes_of(loaded)));
            return loaded;
        };
    };
    std::visit(heed_once, model);
    return model;
}

}  // namespace vkformer::cli
