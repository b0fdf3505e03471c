#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes ctc/: tiny random Wav2Vec2ForCTC and HubertForCTC, what they make of sounds, and the texts of these.

    python3 tests/goldens/make_ctc.py [--out DIR]

Made with transformers 5.12.1, forward passes in float64.
"""

import argparse
import dataclasses
import json
import pathlib
import tempfile
import warnings

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

RATE = 1000  # of the processors' configs: sounds of some windows are then short
WINDOW, MARGINS = 20, 6  # as runtime/api/ctc_hearing.cpp has them
LETTERS = "|ETAOINSHRDLUMWCFGYPBVK'XJQZ"


@dataclasses.dataclass
class Case:
    name: str
    seed: int
    config: dict
    vocab: dict
    tokenizer: dict = dataclasses.field(default_factory=dict)
    added: dict = dataclasses.field(default_factory=dict)
    normalizes: bool = True
    old_names: bool = False
    seconds: float = 3.1


def plain_vocab():
    return {piece: i for i, piece in enumerate(["<pad>", "<s>", "</s>", "<unk>", *LETTERS])}


def sizes(hidden, layers, heads, inner, convolutions, taps, groups, **others):
    dims, kernels, strides = zip(*convolutions)
    return dict(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner, conv_dim=dims,
        conv_kernel=kernels, conv_stride=strides, num_conv_pos_embeddings=taps, num_conv_pos_embedding_groups=groups, **others,
    )  # fmt: skip


CASES = [
    # As facebook/wav2vec2-base-960h.
    Case(
        "wav2vec2_base",
        301,
        dict(model_type="wav2vec2", vocab_size=32)
        | sizes(12, 2, 3, 32, [(9, 10, 5), (7, 3, 2), (11, 2, 2)], 16, 3, feat_extract_norm="group"),
        plain_vocab(),
        old_names=True,
    ),
    # As facebook/wav2vec2-large-960h-lv60-self, but for an odd number of taps.
    Case(
        "wav2vec2_large",
        306,
        dict(model_type="wav2vec2", vocab_size=36)
        | sizes(15, 2, 3, 19, [(11, 10, 5), (14, 3, 2), (13, 3, 2)], 7, 5, feat_extract_norm="layer", do_stable_layer_norm=True,
                conv_bias=True),
        {"|": 1, **{letter: i for i, letter in enumerate("äöüßéabcdefghijklmnopqrstuvwxyz", 2)}, "[UNK]": 0, "[PAD]": 33},
        dict(pad_token="[PAD]", unk_token="[UNK]", do_lower_case=True),
        added={"<s>": 34, "</s>": 35},
        normalizes=False,
    ),
    # More taps than are gathered at a time, one group, a group norm before layers that norm first, tokens with spaces before marks.
    Case(
        "wav2vec2_taps",
        303,
        dict(model_type="wav2vec2", vocab_size=12)
        | sizes(8, 1, 2, 13, [(6, 11, 5), (4, 4, 4)], 131, 1, feat_extract_norm="group", do_stable_layer_norm=True, conv_bias=True,
                feat_extract_activation="relu", hidden_act="gelu_new"),
        {"<pad>": 11, "<unk>": 4, "|": 0, ".": 1, "A": 2, "B": 3, ",": 5, "E": 6, "F": 7, "'": 8, "S": 9, "H": 10},
        dict(clean_up_tokenization_spaces=True, word_delimiter_token="|"),
        seconds=1.7,
    ),
    # As facebook/hubert-large-ls960-ft.
    Case(
        "hubert_large",
        304,
        dict(model_type="hubert", vocab_size=32)
        | sizes(12, 2, 2, 21, [(11, 10, 5), (14, 2, 2), (15, 3, 2)], 10, 4, feat_extract_norm="layer", do_stable_layer_norm=True,
                conv_bias=True, feat_proj_layer_norm=True),
        plain_vocab(),
    ),
    # As distilhubert and other small ones.
    Case(
        "hubert_plain",
        305,
        dict(model_type="hubert", vocab_size=32)
        | sizes(14, 1, 7, 22, [(7, 8, 4), (5, 3, 3), (9, 2, 1)], 12, 7, feat_extract_norm="group", feat_proj_layer_norm=False),
        plain_vocab(),
        dict(replace_word_delimiter_char="_"),
        old_names=True,
    ),
]  # fmt: skip


def noise(count, seed):
    """What tests make, too: 16-bit samples, now louder, now softer."""
    state, samples = seed, np.zeros(count, np.float32)
    for i in range(count):
        state = (1664525 * state + 1013904223) % 2**32
        loud = (i // 300) % 4
        samples[i] = ((state >> 16) - 32768) // (1 << (loud * 2)) / 32768
    return samples


def random_model(case):
    torch.manual_seed(case.seed)
    kind = transformers.Wav2Vec2ForCTC if case.config["model_type"] == "wav2vec2" else transformers.HubertForCTC
    config = kind.config_class(**{k: v for k, v in case.config.items() if k != "model_type"})
    config.pad_token_id = case.vocab.get("<pad>", case.vocab.get("[PAD]"))
    model = kind(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "original0" in name:
                weight.copy_(0.5 + torch.rand(weight.shape))
            elif weight.dim() > 1:
                weight.copy_(torch.randn(weight.shape) * 1.3 / weight[0].numel() ** 0.5)
            elif name.endswith("norm.weight"):
                weight.copy_(1 + 0.3 * torch.randn(weight.shape))
            else:
                weight.copy_(0.1 * torch.randn(weight.shape))
        model.lm_head.weight.mul_(2)
        # Tokens that would come always, or never, come sometimes, and bounds of words and blanks more often.
        sound = torch.tensor(noise(int(case.seconds * RATE), 9)[None])
        model.lm_head.bias.sub_(model(sound).logits[0].mean(0))
        for piece in ("|", "<pad>", "[PAD]"):
            if piece in case.vocab:
                model.lm_head.bias[case.vocab[piece]] += 1
    return model


def save(case, model, folder):
    with tempfile.TemporaryDirectory() as made:
        model.save_pretrained(made)
        tensors = load_file(f"{made}/model.safetensors")
        config = json.loads(pathlib.Path(made, "config.json").read_text())
    if case.old_names:
        names = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
        tensors = {
            next((k.replace(new, old) for new, old in names.items() if new in k), k): v for k, v in tensors.items()
        }
    save_file({k: v.clone() for k, v in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def processor_of(case, folder):
    (folder / "vocab.json").write_text(json.dumps(case.vocab) + "\n")
    if case.added:
        (folder / "added_tokens.json").write_text(json.dumps(case.added) + "\n")
    fields = {"tokenizer_class": "Wav2Vec2CTCTokenizer", **case.tokenizer}
    (folder / "tokenizer_config.json").write_text(json.dumps(fields) + "\n")
    extractor = transformers.Wav2Vec2FeatureExtractor(
        sampling_rate=RATE, do_normalize=case.normalizes, return_attention_mask=case.config["feat_extract_norm"] == "layer"
    )
    if case.name == "hubert_large":  # as transformers 5 writes processors
        whole = {"feature_extractor": extractor.to_dict(), "processor_class": "Wav2Vec2Processor"}
        (folder / "processor_config.json").write_text(json.dumps(whole, indent=1, default=str) + "\n")
    else:
        extractor.save_pretrained(folder)
    tokenizer = transformers.Wav2Vec2CTCTokenizer(folder / "vocab.json", **case.tokenizer)
    assert all(tokenizer.convert_ids_to_tokens(id) == token for token, id in {**case.vocab, **case.added}.items()), case.name
    assert len(tokenizer) == case.config["vocab_size"] or not case.added
    return extractor, tokenizer


def logits_of(model, extractor, sound):
    values = extractor(sound, sampling_rate=RATE, return_tensors="pt").input_values
    with torch.no_grad():
        return model(values).logits[0]


def in_windows(model, extractor, sound):
    """The frames of windows that reach over one another, each from within its window."""
    ratio = model.config.inputs_to_logits_ratio
    longest = WINDOW * RATE // ratio
    margin = longest // MARGINS
    parts, first = [], 0
    while True:
        begin = first * ratio
        is_last = begin + longest * ratio >= len(sound)
        logits = logits_of(model, extractor, sound[begin : begin + longest * ratio])
        parts.append(logits[0 if first == 0 else margin : None if is_last else longest - margin])
        if is_last:
            return torch.cat(parts)
        first += longest - 2 * margin


def text_of(case, tokenizer, logits, ratio):
    ids = logits.argmax(-1).tolist()
    out = tokenizer.decode(ids, output_word_offsets=True)
    words = [{"word": w["word"], "start": w["start_offset"] * ratio / RATE, "end": w["end_offset"] * ratio / RATE}
             for w in out.word_offsets]  # fmt: skip
    return {"text": out.text, "words": words}


def write(case, out):
    folder = out / "ctc" / case.name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    model = random_model(case)
    save(case, model, folder)
    extractor, tokenizer = processor_of(case, folder)
    ratio = model.config.inputs_to_logits_ratio

    # Two sounds, the second of which is shorter.
    length = {"wav2vec2_taps": 1690}.get(case.name, 411)
    values = torch.tensor(np.stack([noise(length, 5), noise(length, 6)]))
    mask = torch.ones(values.shape, dtype=torch.long)
    mask[1, length * 2 // 3 :] = 0
    values = (values / values.std() + 0.1) * mask
    golden = {"input_values": values, "sample_mask": mask.to(torch.int32)}
    model.double()
    values = values.double()
    with torch.no_grad():
        base = getattr(model, model.base_model_prefix)
        golden["last_hidden_state"] = base(values).last_hidden_state
        golden["logits"] = model(values).logits
        golden["masked_logits"] = model(values, attention_mask=mask).logits[1]
    golden["frames"] = torch.tensor([model._get_feat_extract_output_lengths(n).item() for n in mask.sum(-1)], dtype=torch.int32)
    save_file({k: v.float().contiguous() if v.is_floating_point() else v for k, v in golden.items()}, folder / "golden.safetensors")

    model.float()
    sound = noise(int(case.seconds * RATE), 7)
    result = {"samples": len(sound), **text_of(case, tokenizer, logits_of(model, extractor, sound), ratio)}
    if case.name in ("wav2vec2_base", "wav2vec2_large"):
        long = noise(47123, 8)
        result["long"] = {"samples": len(long), "text": text_of(case, tokenizer, in_windows(model, extractor, long), ratio)["text"]}
    (folder / "text.json").write_text(json.dumps(result, ensure_ascii=False) + "\n")
    top = golden["logits"].topk(2).values
    print(case.name, golden["logits"].shape, golden["logits"].std().item(), (top[..., 0] - top[..., 1]).min().item(),
          len(result["words"]), repr(result["text"][:60]), folder_size(folder))  # fmt: skip


def folder_size(folder):
    return sum(file.stat().st_size for file in folder.iterdir())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    for case in CASES:
        if not arguments.cases or case.name in arguments.cases:
            write(case, arguments.out)


main()
