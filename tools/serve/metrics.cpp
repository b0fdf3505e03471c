// SPDX-License-Identifier: MIT
#include "serve/metrics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>

namespace vkformer::serve {
namespace {

/// `{route="/health"}`, or nothing.
std::string written(const Labels& labels) {
    std::string text;
    for (const auto& [name, value] : labels) {
        text += (text.empty() ? "{" : ",") + name + "=\"";
        for (const char c : value) {
            if (c == '\\' || c == '"') text += '\\';
            text += c == '\n' ? ' ' : c;
        }
        text += '"';
    }
    return text.empty() ? text : text + "}";
}

std::string sample(double value) {
    char text[40];
    const bool is_whole = std::floor(value) == value && std::abs(value) < 1e15;
    std::snprintf(text, sizeof text, is_whole ? "%.0f" : "%.9g", value);
    return text;
}

std::string with_bound(const std::string& labels, const std::string& bound) {
    const std::string label = "le=\"" + bound + "\"}";
    return labels.empty() ? "{" + label : labels.substr(0, labels.size() - 1) + "," + label;
}

}  // namespace

Metrics::Metrics(std::vector<Family> families) {
    for (Family& family : families) entries_.push_back({std::move(family), {}});
}

Metrics::Series& Metrics::at(std::string_view name, const Labels& labels) {
    const auto entry = std::ranges::find(entries_, name, [](const Entry& e) { return e.family.name; });
    assert(entry != entries_.end());
    Series& series = entry->series[written(labels)];
    series.buckets.resize(entry->family.bounds.size());
    return series;
}

void Metrics::add(std::string_view name, const Labels& labels, double amount) {
    const std::lock_guard lock(mutex_);
    at(name, labels).value += amount;
}

void Metrics::set(std::string_view name, const Labels& labels, double value) {
    const std::lock_guard lock(mutex_);
    at(name, labels).value = value;
}

void Metrics::clear(std::string_view name) {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_)
        if (entry.family.name == name) entry.series.clear();
}

void Metrics::observe(std::string_view name, const Labels& labels, double value) {
    const std::lock_guard lock(mutex_);
    Series& series = at(name, labels);
    const auto entry = std::ranges::find(entries_, name, [](const Entry& e) { return e.family.name; });
    const auto& bounds = entry->family.bounds;
    const auto bucket = static_cast<std::size_t>(std::ranges::lower_bound(bounds, value) - bounds.begin());
    if (bucket < bounds.size()) ++series.buckets[bucket];
    ++series.count;
    series.value += value;
}

std::string Metrics::text() const {
    static constexpr const char* kKinds[] = {"counter", "gauge", "histogram"};
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const auto& [family, all] : entries_) {
        if (all.empty()) continue;
        const std::string name(family.name);
        text +=
            "# HELP " + name + " " + std::string(family.help) + "\n# TYPE " + name + " " + kKinds[family.kind] + "\n";
        for (const auto& [labels, series] : all) {
            if (family.kind != Family::histogram) {
                text += name + labels + " " + sample(series.value) + "\n";
                continue;
            }
            std::uint64_t below = 0;
            for (std::size_t i = 0; i < family.bounds.size(); ++i) {
                below += series.buckets[i];
                text += name + "_bucket" + with_bound(labels, sample(family.bounds[i])) + " " + std::to_string(below) +
                        "\n";
            }
            text += name + "_bucket" + with_bound(labels, "+Inf") + " " + std::to_string(series.count) + "\n";
            text += name + "_sum" + labels + " " + sample(series.value) + "\n";
            text += name + "_count" + labels + " " + std::to_string(series.count) + "\n";
        }
    }
    return text;
}

}  // namespace vkformer::serve
