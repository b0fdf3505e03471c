// SPDX-License-Identifier: MIT
/// config.json: every getter on every field, nested objects too.
#include "formats/config.hpp"
#include "fuzz.hpp"

using namespace vkformer;

namespace {

void read_fields(const formats::Config& config) {
    for (const std::string& name : config.names()) {
        fuzz::require(config.has(name));
        fuzz::require_message(config.unsigned_integer(name, {.min = 1, .max = 1000}));
        fuzz::require_message(config.integer(name));
        fuzz::require_message(config.real(name, {.min = 0}));
        fuzz::require_message(config.boolean(name));
        fuzz::require_message(config.string(name));
        fuzz::require_message(config.strings(name));
        fuzz::require_message(config.token_ids(name));
        fuzz::require_message(config.token_id_lists(name));
        fuzz::require(!config.unsupported(name, "nothing").message.empty());
        const auto object = config.object(name);
        fuzz::require_message(object);
        if (object) read_fields(*object);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto config = formats::Config::parse(fuzz::text_of(data, size), "config.json");
    fuzz::require_message(config);
    if (config) read_fields(*config);
    return 0;
}
