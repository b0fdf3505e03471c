// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>

#include "tuning/verdicts.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::tuning {

/// For a case that was not tried, by its case_key: what was taken in the case of its op that is nearest to it, if it is one of `kernels`;
/// of cases that differ in sizes alone also what was right there, the fastest first. But for variants that were wrong in such a case or ended
/// the process in its own, and for kernels for many rows where there are others for few. Empty: there is none.
/// `given_up`: cases like those of the file, some variants of which were tried.
std::string likely_variant(const VerdictFile& file, const std::map<std::string, Verdict>& given_up,
                           const std::string& key, const vulkan::KernelList& kernels);

}  // namespace vkformer::tuning
