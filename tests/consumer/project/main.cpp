// Uses the library as a program would: loading a model links all of it, and a folder that is not there is an error to read.
#include <vkformer/result.hpp>
#include <vkformer/translator.hpp>

#include <iostream>

int main() {
    const auto translator = vkformer::Translator::load("no-such-folder", {.device = "cpu"});
    if (translator) return 1;
    std::cout << vkformer::to_string(translator.error().code) << ": " << translator.error().message << "\n";
    return translator.error().code == vkformer::ErrorCode::FileNotFound ? 0 : 1;
}
