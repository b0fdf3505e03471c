// SPDX-License-Identifier: MIT
#include "inputs.hpp"

#include <cstdio>

namespace vkformer::cli {

Result<Inputs> Inputs::open(std::string what, std::vector<std::string> arguments, const std::string& path) {
    const bool has_arguments = !arguments.empty();
    Inputs inputs(has_arguments ? std::move(what) : "line", std::move(arguments));
    if (!has_arguments) {
        VKFORMER_TRY(auto lines, LineReader::open(path));
        inputs.lines_.emplace(std::move(lines));
    }
    return inputs;
}

Result<std::vector<Input<std::string>>> Inputs::next() {
    std::vector<Input<std::string>> inputs;
    for (std::string& argument : std::exchange(arguments_, {})) inputs.push_back({std::move(argument), ++given_});
    if (!lines_) return inputs;
    VKFORMER_TRY(auto lines, lines_->next());
    for (Line& line : lines) {
        Input<std::string> input{std::move(line.text), ++given_};
        if (line.is_too_long) input.error = "it is longer than " + std::to_string(kMostLineBytes) + " bytes";
        inputs.push_back(std::move(input));
    }
    return inputs;
}

void BadInputs::add(CLI::App& command) {
    command.add_flag("--skip-bad-lines", skips_,
                     "Go on after a line that cannot be used (no UTF-8, too long), which leaves an empty one");
}

void BadInputs::begin(const Inputs& inputs) {
    what_ = inputs.what();
    skips_ = skips_ || inputs.is_typed();
}

std::string BadInputs::json_of(std::size_t number, const std::string& error) const {
    const nlohmann::json object = {{what_, number}, {"error", error}};
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void BadInputs::leave_out(std::size_t number, const std::string& error) {
    constexpr std::size_t kMostShown = 10;
    if (++left_out_ <= kMostShown)
        std::fprintf(stderr, "vkformer: %s: %s\n", name_of(number).c_str(), printable(error).c_str());
}

Result<int> BadInputs::finish() const {
    if (left_out_ > 0) std::fprintf(stderr, "vkformer: %zu of %zu %ss skipped\n", left_out_, seen_, what_.c_str());
    if (error_) return *error_;
    return kOk;
}

}  // namespace vkformer::cli
