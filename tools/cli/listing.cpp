// SPDX-License-Identifier: MIT
#include "listing.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "cli.hpp"
#include "vectors.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxText = 120;  // characters of a text that are shown

struct Total {
    std::size_t tensors = 0;
    std::uint64_t elements = 0, bytes = 0;
};

std::map<std::string, Total> totals(const Listing& listing, Total& all) {
    std::map<std::string, Total> by_type;
    for (const Listing::Tensor& tensor : listing.tensors)
        for (Total* total : {&by_type[tensor.type], &all}) {
            ++total->tensors;
            total->elements += tensor.shape.element_count();
            total->bytes += tensor.bytes;
        }
    return by_type;
}

std::string dumped(const ordered_json& value) {
    return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string cut(const std::string& text, std::size_t max_elements) {
    if (max_elements == SIZE_MAX || text.size() <= kMaxText) return text;
    std::size_t end = kMaxText;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
    return text.substr(0, end) + "…";
}

std::string shown(const ordered_json& value, std::size_t max_elements) {
    if (!value.is_array()) return cut(dumped(value), max_elements);
    std::string text = "[";
    for (std::size_t i = 0; i < std::min(value.size(), max_elements); ++i)
        text += (i ? ", " : "") + cut(dumped(value[i]), max_elements);
    if (value.size() > max_elements) text += ", … (" + std::to_string(value.size()) + ")";
    return text + "]";
}

std::string padded(std::string text, std::size_t width) {
    if (text.size() < width) text.resize(width, ' ');
    return text;
}

std::string megabytes(std::uint64_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
    return text;
}

std::string total_line(const std::string& name, const Total& total) {
    return "  " + padded(name, 8) + " " + std::to_string(total.tensors) + " tensors, " +
           std::to_string(total.elements) + " elements, " + megabytes(total.bytes) + "\n";
}

template <class List>
std::size_t widest(const List& list, std::string List::value_type::*member) {
    std::size_t width = 0;
    for (const auto& each : list) width = std::max(width, on_one_line(each.*member).size());
    return width;
}

}  // namespace

std::string as_text(const Listing& listing, const std::string& path, std::size_t max_elements) {
    std::string text =
        printable(path) + ": " + listing.title + "\n\nmetadata: " + std::to_string(listing.values.size()) + "\n";
    const std::size_t key_width = widest(listing.values, &Listing::Value::key);
    for (const auto& [key, type, value] : listing.values)
        text += "  " + padded(on_one_line(key), key_width) + "  " + padded(type, 8) + "  " +
                printable(shown(value, max_elements)) + "\n";
    text += "\ntensors: " + std::to_string(listing.tensors.size()) + "\n";
    const std::size_t name_width = widest(listing.tensors, &Listing::Tensor::name);
    for (const auto& [name, type, shape, bytes] : listing.tensors)
        text += "  " + padded(on_one_line(name), name_width) + "  " + padded(type, 8) + "  " +
                padded(to_string(shape), 20) + "  " + std::to_string(bytes) + "\n";
    Total all;
    const auto by_type = totals(listing, all);
    text += "\ntotal\n";
    for (const auto& [type, total] : by_type) text += total_line(type, total);
    return text + total_line("all", all);
}

std::string as_json(const Listing& listing, const std::string& path, std::size_t max_elements) {
    ordered_json metadata = ordered_json::object(), tensors = ordered_json::array(), types = ordered_json::object();
    for (const auto& [key, type, value] : listing.values) {
        if (value.is_array() && value.size() > max_elements)
            metadata[key] = {{"length", value.size()},
                             {"first", std::vector<ordered_json>(
                                           value.begin(), value.begin() + static_cast<std::ptrdiff_t>(max_elements))}};
        else
            metadata[key] = value;
    }
    for (const auto& [name, type, shape, bytes] : listing.tensors) {
        ordered_json dims = ordered_json::array();
        for (const std::uint64_t dim : shape.dims()) dims.push_back(dim);
        tensors.push_back({{"name", name}, {"type", type}, {"shape", std::move(dims)}, {"bytes", bytes}});
    }
    Total all;
    for (const auto& [type, total] : totals(listing, all))
        types[type] = {{"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}};
    const ordered_json document = {{"path", path},
                                   {"format", listing.title},
                                   {"metadata", std::move(metadata)},
                                   {"tensors", std::move(tensors)},
                                   {"types", std::move(types)},
                                   {"elements", all.elements},
                                   {"bytes", all.bytes}};
    return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace vkformer::cli
