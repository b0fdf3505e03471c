// SPDX-License-Identifier: MIT
#include "limit_options.hpp"

#include <cstdio>

namespace vkformer::cli {

bench::LimitOptions limit_options(bool quiet) {
    bench::LimitOptions options;
    if (!quiet)
        options.progress = [](std::string_view name) {
            std::fprintf(stderr, "vkformer: limit: %s\n", std::string(name).c_str());
        };
    return options;
}

}  // namespace vkformer::cli
