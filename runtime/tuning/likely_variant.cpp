// SPDX-License-Identifier: MIT
#include "tuning/likely_variant.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/stable_order.hpp"

namespace vkformer::tuning {
namespace {

/// A case's key without the sizes of its operands, and these.
struct KeyParts {
    explicit KeyParts(std::string_view key) {
        bool is_shape = false;
        for (std::size_t i = 0; i < key.size(); ++i) {
            is_shape = key[i] == '[' || (is_shape && key[i] != ']');
            double number = 0;
            const std::size_t begin = i;
            for (; is_shape && i < key.size() && key[i] >= '0' && key[i] <= '9'; ++i)
                number = 10 * number + (key[i] - '0');
            if (i > begin) sizes.push_back(number);
            is_shape = is_shape && i < key.size() && key[i] != ']';
            if (i < key.size()) text += key[i];
        }
    }
    std::string_view op() const { return std::string_view(text).substr(0, text.find(' ')); }

    std::string text;
    std::vector<double> sizes;
};

/// How far the sizes of two cases of an op are from each other, by factors of two; and whether they differ in more than sizes, which is far.
std::pair<bool, double> distance(const KeyParts& a, const KeyParts& b) {
    const auto log2 = [](double size) { return std::log2(std::max(size, 1.0)); };
    double sum = 0;
    if (a.text != b.text) {
        for (const double size : a.sizes) sum += log2(size);
        for (const double size : b.sizes) sum -= log2(size);
        return {true, std::abs(sum)};
    }
    for (std::size_t i = 0; i < std::min(a.sizes.size(), b.sizes.size()); ++i)
        sum += std::abs(log2(a.sizes[i]) - log2(b.sizes[i]));
    return {false, sum};
}

/// What was taken, and what else was right, the fastest first: a kernel for many rows may be none for few.
std::vector<std::string_view> by_time(const Verdict& verdict) {
    std::vector<const Trial*> right;
    for (const Trial& trial : verdict.trials)
        if (trial.fault.empty() && trial.us > 0) right.push_back(&trial);
    sort_stably(right, [](const Trial* a, const Trial* b) { return a->us < b->us; });
    std::vector<std::string_view> variants{verdict.variant};
    for (const Trial* const trial : right) variants.push_back(trial->variant);
    return variants;
}

}  // namespace

std::string likely_variant(const VerdictFile& file, const std::map<std::string, Verdict>& given_up,
                           const std::string& key, const vulkan::KernelList& kernels) {
    const KeyParts parts(key);
    std::set<std::string, std::less<>> wrong;
    std::multimap<std::pair<bool, double>, const Verdict*> found;  // by distance(): the nearest first
    for (const auto* const verdicts : {&file.verdicts(), &given_up})
        for (const auto& [other_key, verdict] : *verdicts) {
            const KeyParts other(other_key);
            if (other.op() != parts.op()) continue;
            if (other.text == parts.text)
                for (const Trial& trial : verdict.trials)
                    if (!trial.fault.empty()) wrong.insert(trial.variant);
            found.emplace(distance(parts, other), &verdict);
        }
    const auto may_be = [&](std::string_view variant) {
        return !wrong.contains(variant) && file.may_try(key, variant);
    };
    using Rows = vulkan::KernelTraits::Rows;
    const bool are_for_few_rows = std::ranges::any_of(
        kernels, [&](const auto* kernel) { return kernel->rows == Rows::few && may_be(kernel->name); });
    for (const auto& [distance, verdict] : found) {
        // What was not the fastest says little of cases that differ in more than sizes, or of few rows, for which kernels plan otherwise.
        auto variants = by_time(*verdict);
        if (distance.first || are_for_few_rows) variants.resize(1);
        for (const std::string_view variant : variants) {
            const vulkan::KernelTraits* const kernel = vulkan::find_kernel(kernels, variant);
            if (!kernel || (are_for_few_rows && kernel->rows == Rows::many)) continue;
            if (may_be(variant)) return std::string(variant);
        }
    }
    return {};
}

}  // namespace vkformer::tuning
