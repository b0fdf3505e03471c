// SPDX-License-Identifier: MIT
/// GGUF files, every getter on every value, and the tokenizer inside.
#include <string>

#include "formats/gguf.hpp"
#include "fuzz.hpp"
#include "text/gguf_tokenizer.hpp"

using namespace vkformer;

namespace {

void read_values(const formats::Gguf& file) {
    for (const formats::GgufValue& value : file.values()) {
        fuzz::require(file.find(value.key) == &value);
        fuzz::require_message(file.unsigned_integer(value.key));
        fuzz::require_message(file.integer(value.key));
        fuzz::require_message(file.real(value.key));
        fuzz::require_message(file.boolean(value.key));
        fuzz::require_message(file.string(value.key));
        fuzz::require_message(file.strings(value.key));
        fuzz::require_message(file.integers(value.key));
        fuzz::require_message(file.floats(value.key));
        fuzz::require(!file.shown(value, 3).empty());
    }
}

void use(const text::Tokenizer& tokenizer) {
    const auto ids = tokenizer.encode("Hello  wörld 123\n<s>▁");
    fuzz::require_message(ids);
    if (!ids) return;
    for (const std::int32_t id : *ids) fuzz::require(id >= 0 && static_cast<std::size_t>(id) < tokenizer.vocab_size());
    (void)tokenizer.decode(*ids, false);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = fuzz::copy_of(data, size);
    const auto file = formats::Gguf::parse(*bytes, bytes, "x.gguf");
    fuzz::require_message(file);
    if (!file) return 0;
    read_values(*file);
    for (const formats::GgufTensor& tensor : file->tensors()) {
        fuzz::touch(tensor.bytes);
        fuzz::require(file->weights().has(tensor.name) || tensor.name.ends_with("scale"));  // it may be in another
        if (const TensorData* const read = file->weights().find(tensor.name)) fuzz::touch(read->bytes);
    }
    const auto tokenizer = text::load_gguf_tokenizer(*file);
    fuzz::require_message(tokenizer);
    if (tokenizer) use(*tokenizer->tokenizer);
    return 0;
}
