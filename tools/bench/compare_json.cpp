// SPDX-License-Identifier: MIT
#include <nlohmann/json.hpp>

#include "bench/compare.hpp"

namespace vkformer::bench {

nlohmann::json as_json(const ComparisonReport& report) {
    using nlohmann::json;
    json cases = json::array();
    for (const Comparison& c : report.cases) {
        json object = {{"case", c.name},
                       {"variant_before", c.variant_before},
                       {"variant_after", c.variant_after},
                       {"change", to_string(c.change)}};
        if (c.ratio > 0) {
            object["before_ns"] = c.before_ns;
            object["after_ns"] = c.after_ns;
            object["ratio"] = c.ratio;
            object["ratio_low"] = c.interval.low;
            object["ratio_high"] = c.interval.high;
        }
        cases.push_back(std::move(object));
    }
    return {{"schema", "vkformer-bench-compare/1"},
            {"cases", cases},
            {"only_before", report.only_before},
            {"only_after", report.only_after}};
}

}  // namespace vkformer::bench
