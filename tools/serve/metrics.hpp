// SPDX-License-Identifier: MIT
/// Counts, gauges and histograms, told in Prometheus' text format.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vkformer::serve {

/// Label names and values: {{"route", "/health"}}.
using Labels = std::vector<std::pair<std::string, std::string>>;

/// Thread-safe.
class Metrics {
public:
    struct Family {
        std::string_view name, help;
        enum Kind : std::uint8_t { counter, gauge, histogram } kind;
        std::vector<double> bounds = {};  ///< of a histogram's buckets, rising
    };

    explicit Metrics(std::vector<Family> families);

    // The name is one of a family of that kind.
    void add(std::string_view name, const Labels& labels, double amount = 1);
    void set(std::string_view name, const Labels& labels, double value);
    /// Forgets a gauge's values: of what is no more.
    void clear(std::string_view name);
    void observe(std::string_view name, const Labels& labels, double value);

    /// https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.
    std::string text() const;

private:
    struct Series {
        double value = 0;  // of a histogram, the sum
        std::uint64_t count = 0;
        std::vector<std::uint64_t> buckets;
    };
    struct Entry {
        Family family;
        std::map<std::string, Series> series;  // by its labels as they are written
    };
    Series& at(std::string_view name, const Labels& labels);

    mutable std::mutex mutex_;
    std::vector<Entry> entries_;
};

}  // namespace vkformer::serve
