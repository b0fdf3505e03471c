// SPDX-License-Identifier: MIT
// The smallest use of vkformer: a model folder, a few texts, their translations.
//     translate samples/models/date-normalizer "4. März 2021" "the 1st of May 1999"
#include <cstdio>
#include <string>
#include <vector>

#include <vkformer/translator.hpp>

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s MODEL_FOLDER TEXT...\n", argv[0]);
        return 2;
    }
    auto translator = vkformer::Translator::load(argv[1], {.device = "auto"});
    if (!translator) {
        std::fprintf(stderr, "%s\n", translator.error().message.c_str());
        return 1;
    }
    const std::vector<std::string> texts(argv + 2, argv + argc);
    const auto results = translator->translate(texts);
    if (!results) {
        std::fprintf(stderr, "%s\n", results.error().message.c_str());
        return 1;
    }
    for (const vkformer::Translation& result : *results) std::printf("%s\n", result.text.c_str());
}
