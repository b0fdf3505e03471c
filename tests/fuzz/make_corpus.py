#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seeds of the fuzz targets: small, and each with something that the others have not. Needs gguf, numpy."""
import json
import struct
from pathlib import Path

import gguf
import numpy as np

HERE = Path(__file__).resolve().parent / "corpus"


def write_gguf(name, fill):
    writer = gguf.GGUFWriter(HERE / "gguf" / name, "llama")
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def values(writer):
    writer.add_uint8("u8", 1)
    writer.add_int16("i16", -1)
    writer.add_float32("f32", 0.5)
    writer.add_float64("f64", 0.5)
    writer.add_bool("b", True)
    writer.add_array("texts", ["a", ""])
    writer.add_array("floats", [1.0, 2.0])
    writer.add_tensor("m", np.ones((2, 32), np.float32))
    for name, kind in [("q", gguf.GGMLQuantizationType.Q8_0), ("x", gguf.GGMLQuantizationType.MXFP4)]:
        writer.add_tensor(name, gguf.quants.quantize(np.ones((1, 32), np.float32), kind), raw_dtype=kind)


def repacked(writer):
    """Types that become others when they are read."""
    for kind in ("IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0", "NVFP4", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_S", "IQ1_M"):
        kind = gguf.GGMLQuantizationType[kind]
        name = kind.name + (".weight" if kind == gguf.GGMLQuantizationType.NVFP4 else "")
        writer.add_tensor(name, np.full((2, gguf.GGML_QUANT_SIZES[kind][1]), 0x5A, np.uint8), raw_dtype=kind)
    writer.add_tensor("NVFP4.scale", np.ones(1, np.float32))


def tokenizer(model, pre="default"):
    byte_tokens = ["Ġ", "Ċ", "H", "e", "l", "o", "w", "r", "d", "1", "2", "3", "Ã", "¶", "el", "ll", "Ġw"]
    tokens = {"gpt2": ["<s>", "</s>", *byte_tokens],
              "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁hello", "lo", "▁h", "e", "l", "o"]}.get(
                  model, ["<unk>", "<s>", "</s>", "<0xC3>", "<0xB6>", "▁", "H", "e", "l", "o", "el", "lo", "▁H"])

    def fill(writer):
        writer.add_tokenizer_model(model)
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(tokens)
        writer.add_token_scores([float(-i) for i in range(len(tokens))])
        writer.add_token_types([3 if t.startswith(("<s", "</", "[")) else 6 if t.startswith("<0x") else 1 for t in tokens])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(1)
        writer.add_sep_token_id(3)
        if model == "gpt2":
            writer.add_token_merges(["e l", "l l", "Ġ w"])

    return fill


def tensor_file(tensors):
    """A file of tensors (dtype, shape, bytes)."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def packed(config, **tensors):
    """What fuzz_packed takes, of one layer."""
    return json.dumps(config).encode() + b"\0" + tensor_file({f"a.{name}": tensor for name, tensor in tensors.items()})


def write_packed():
    def words(*shape):
        return "I32", list(shape), (np.arange(np.prod(shape), dtype=np.uint64) * 0x9E3779B1 & 0xFFFFFFFF).astype(np.uint32).tobytes()

    def halves(*shape):
        return "F16", list(shape), np.full(shape, 0.25, np.float16).tobytes()

    def group(**weights):
        return {"quant_method": "compressed-tensors", "format": "dense", "config_groups": {"g": {"weights": weights}}}

    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    ordered = "I32", [64], (np.arange(64, dtype=np.int32) % 2).tobytes()
    write("packed", "gptq", packed(gptq, qweight=words(8, 8), qzeros=words(2, 1), scales=halves(2, 8)))
    write("packed", "gptq-ordered", packed({**gptq, "checkpoint_format": "gptq_v2", "desc_act": True}, qweight=words(8, 8),
                                           qzeros=words(2, 1), scales=halves(2, 8), g_idx=ordered))  # fmt: skip
    write("packed", "gptq-bytes", packed({**gptq, "bits": 8, "group_size": -1}, qweight=words(8, 4), qzeros=words(1, 1), scales=halves(1, 4)))
    write("packed", "awq", packed({"quant_method": "awq", "bits": 4, "group_size": 32}, qweight=words(32, 1), qzeros=words(1, 1),
                                  scales=halves(1, 8)))  # fmt: skip
    fp8 = "F8_E4M3", [5, 6], bytes(range(0x30, 0x30 + 30))
    scale = "F32", [3, 2], np.full((3, 2), 0.5, np.float32).tobytes()
    write("packed", "fp8", packed({"quant_method": "fp8", "weight_block_size": [2, 4]}, weight=fp8, weight_scale_inv=scale))
    write("packed", "fp8-rows", packed(group(num_bits=8, type="float", strategy="channel"), weight=fp8, weight_scale=halves(5, 1)))
    shape = "I64", [2], np.array([8, 32], np.int64).tobytes()
    write("packed", "int4", packed({**group(num_bits=4, strategy="group", group_size=32, symmetric=False), "format": "pack-quantized"},
                                   weight_packed=words(8, 4), weight_scale=halves(8, 1), weight_shape=shape,
                                   weight_zero_point=words(1, 1)))  # fmt: skip
    integers = "I8", [2, 32], bytes(range(64))
    write("packed", "int8", packed(group(num_bits=8, strategy="tensor"), weight=integers, weight_scale=halves(1)))


def write(folder, name, text):
    (HERE / folder / name).write_bytes(text.encode() if isinstance(text, str) else text)


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tokenizer_json(model, **parts):
    return json.dumps({"version": "1.0", "added_tokens": [
        {"id": 0, "content": "<s>", "special": True, "normalized": False, "lstrip": True, "rstrip": False,
         "single_word": False}], **parts, "model": model}, ensure_ascii=False)


def charsmap():
    """The rules a -> x, ab -> yz: a unit has its label, whether a value hangs below (bit 8), and the distance to the children."""
    units = [0] * 768
    children_of_root, below_a, below_ab = 0, 256, 512
    a, b = children_of_root ^ ord("a"), below_a ^ ord("b")
    units[0] = children_of_root << 10
    units[a] = (a ^ below_a) << 10 | 1 << 8 | ord("a")
    units[b] = (b ^ below_ab) << 10 | 1 << 8 | ord("b")
    units[below_a], units[below_ab] = 1 << 31 | 0, 1 << 31 | 2
    return struct.pack("<I768I", 4 * len(units), *units) + b"x\0yz\0"


def write_requests():
    """Bodies of the server's routes, and answers with calls; the first bytes say how they are to be read."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    write("form", "chat", "0" + json.dumps({"model": "m", "q": ["a", "é"], "temperature": 0.5, "n": 2, "stream": True, "response_format": {
          "type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}}))
    write("form", "guided", "0" + json.dumps({"q": "a", "guided_choice": ["a", "b"], "guided_regex": None,
          "structured_outputs": {"json": {}}}))
    write("form", "url_encoded", "1q=a+b%21&to=%C3%A9&q=c&&flag&guided_regex=a%2B")
    head = 'Content-Disposition: form-data; name="'
    write("form", "multipart", f'2x\nbefore\r\n--x\r\n{head}a\\"b"\r\n\r\none\r\n--x \r\n{head}file"; filename=f\r\n'
          "Content-Type: audio/wav\r\n\r\n\0\r\n--x--\r\nafter")
    calls = {"tagged": '1\x04Yes. <tool_call>\n{"name": "a", "arguments": {"b": [1, "}"]}}\n</tool_call> <tool_call>{"name": "no"}',
             "listed": '2\x02[TOOL_CALLS][{"name": "a", "arguments": {}}, {"arguments": {"x": {}}, "name": "get_weather"}]',
             "numbered": '2\x05[TOOL_CALLS]a[CALL_ID]a1B2c3D4e[ARGS]{"b": 1} [TOOL_CALLS]get_weather[CALL_ID]x[ARGS]',
             "named": '2\x07[TOOL_CALLS]a[ARGS]{"b": "\\"{"}[TOOL_CALLS]get_weather[ARGS]{}',
             "bare": '3\x01<|python_tag|>{"name": "a", "parameters": {"b": null}}; {"name": "a", "parameters": {}}'}
    for name, text in calls.items():
        write("tool_calls", name, text)


def main():
    for folder in ("gguf", "safetensors", "config", "tokenizer", "chat_template", "charsmap",
                   "constraint", "packed", "form", "tool_calls"):
        (HERE / folder).mkdir(parents=True, exist_ok=True)
    write_packed()
    write_gguf("values", values)
    write_gguf("repacked", repacked)
    for model, pre in (("gpt2", "llama-bpe"), ("llama", "default"), ("t5", "default"), ("bert", "default")):
        write_gguf(f"tokenizer-{model}", tokenizer(model, pre))
    write("safetensors", "two", safetensors({"__metadata__": {"format": "pt"},
          "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
          "b": {"dtype": "I64", "shape": [], "data_offsets": [8, 16]}}, bytes(16)))
    write("safetensors", "empty", safetensors({}, b""))
    write("config", "llama", json.dumps({"model_type": "llama", "hidden_size": 64, "rms_norm_eps": 1e-6, "tie": True,
          "eos_token_id": [1, 2], "bad_words_ids": [[1], [2, 3]], "rope_scaling": {"type": "linear", "factor": 2.0},
          "architectures": ["LlamaForCausalLM"], "none": None}))
    write("charsmap", "two", charsmap())
    words = {"<s>": 0, "a": 1, "b": 2, "ab": 3, "Ġ": 4, "H": 5, "e": 6}
    write("tokenizer", "bpe", tokenizer_json({"type": "BPE", "vocab": words, "merges": ["a b"]},
          pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}, decoder={"type": "ByteLevel"}))
    write("tokenizer", "unigram", tokenizer_json({"type": "Unigram", "unk_id": 0, "vocab": [["<s>", 0], ["▁", -1], ["H", -2]]},
          normalizer={"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "StripAccents"},
          {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, {"type": "Strip", "strip_left": True,
          "strip_right": False}]}, pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first",
          "split": True}, decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}))
    write("tokenizer", "words", tokenizer_json({"type": "WordLevel", "unk_token": "<s>", "vocab": words},
          pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "Punctuation"}, {"type":
          "Digits", "individual_digits": True}, {"type": "Split", "pattern": {"Regex": "(?i:ab)|\\p{N}{2}"}, "behavior":
          "Isolated", "invert": False}]}, post_processor={"type": "BertProcessing", "sep": ["<s>", 0], "cls": ["a", 1]}))
    write("tokenizer", "word-piece", tokenizer_json({"type": "WordPiece", "unk_token": "<s>", "vocab": {**words, "##b": 7},
          "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}, normalizer={"type": "BertNormalizer",
          "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
          pre_tokenizer={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True}))
    write("tokenizer", "pieces", tokenizer_json({"type": "BPE", "byte_fallback": True, "fuse_unk": True, "unk_token": "<s>",
          "vocab": {**words, "<0xC3>": 7}, "merges": [["a", "b"]]}, normalizer={"type": "Prepend", "prepend": "▁"},
          decoder={"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
          {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}))
    schema = {"$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer", "minimum": -7, "maximum": 42}, "next":
              {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["v"]}}, "allOf": [{"$ref": "#/$defs/n"}],
              "description": "d"}
    write("constraint", "recursive", "0" + json.dumps(schema))
    write("constraint", "strings", "0" + json.dumps({"type": "array", "prefixItems": [{"type": "string", "pattern":
          "^[a-f]{2,4}\\d*$"}, {"type": ["string", "null"], "minLength": 1, "maxLength": 3}, {"format": "date"}, {"enum": ["é", 1]}],
          "items": {"type": "number", "exclusiveMinimum": 0.5, "maximum": 1.25}, "minItems": 2, "maxItems": 6}))
    write("constraint", "objects", "0" + json.dumps({"oneOf": [{"properties": {"k": {"const": "a"}}, "required": ["k"],
          "additionalProperties": {"type": "boolean"}}, {"properties": {"k": {"const": "b"}}, "required": ["k"]}]}))
    write("constraint", "regex", "1^(?:a|b+?|[^\\w\\s]{2,3}|(x(y)?){4})*\\u00e9.\\x41|\\d{1,8}$")
    write_requests()
    write("chat_template", "chatml", "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + "
          "m.content | trim + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'a' }}{% endif %}")
    write("chat_template", "tests", "{%- set ns = namespace(x=false) -%}{%- for m in messages[1:] if not loop.first -%}"
          "{%- if m.role is string and m.role not in ['a', 'b'] -%}{%- set ns.x = loop.index0 % 2 == 0 -%}{%- endif -%}"
          "{{ m | tojson }}{{ m.content.split('\\n')[-1] ~ ns.x }}{%- endfor -%}")
    write("chat_template", "macro", "{% macro f(a, b=1) %}{{ a * b }}{% endmacro %}{{ f(2) }}{{ f(3, b=4) | int + 1 }}"
          "{{ {'a': [1, 2.5, none, true]}['a'] | length }}{{ raise_exception('no') if false else messages | map("
          "attribute='role') | join(', ') }}")


if __name__ == "__main__":
    main()
