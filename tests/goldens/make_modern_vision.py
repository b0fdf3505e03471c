#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes modern_vision/: tiny random DINOv2, DINOv3 and SigLIP models with their results, and what transformers' image processors for them
make of the pictures of vision/.

    python3 tests/goldens/make_modern_vision.py [--out DIR] [--compare DIR]

Weights are float32 in the file (or what the case says); the reference is what transformers loads from the folder, run in float64. With
--compare, the tensors are also held against those that another version wrote. Needs pillow, torchvision, sentencepiece and protobuf. See
README.md for the versions and the format.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import tempfile

import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers as t
from PIL import Image, ImageOps
from safetensors.numpy import load_file, save_file

HERE = pathlib.Path(__file__).parent
LABELS = {0: "tench", 1: "a cat, or two", 2: "Straße"}


@dataclasses.dataclass
class Case:
    """One tiny model, for `batch` images. DINO: also for images of `other_size`, height and width. SigLIP: and for `texts` of `length`
    tokens."""

    name: str
    seed: int
    model: str  # class in transformers
    config: dict
    batch: int = 2
    other_size: tuple = ()
    length: int = 0
    texts: int = 0
    dtype: torch.dtype = torch.float32


def tower(hidden, layers, heads, **others):
    return dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, **others)


def siglip(vision, text):
    return dict(vision_config=vision, text_config=text)


CASES = [
    Case("dinov2_odd", 1, "Dinov2Model", tower(21, 3, 3, mlp_ratio=3, image_size=28, patch_size=7, hidden_act="gelu_new", qkv_bias=False), other_size=(23, 36)),
    Case(
        "dinov2_gated_labels",
        2,
        "Dinov2ForImageClassification",
        tower(20, 2, 2, mlp_ratio=4, image_size=12, patch_size=4, use_swiglu_ffn=True, num_channels=1, layer_norm_eps=1e-3, id2label=LABELS),
        batch=3,
        other_size=(20, 8),
        dtype=torch.float16,
    ),
    Case(
        "dinov2_registers_labels",
        3,
        "Dinov2WithRegistersForImageClassification",
        tower(18, 2, 3, mlp_ratio=2, image_size=40, patch_size=4, num_register_tokens=3, num_labels=4, problem_type="multi_label_classification"),
        other_size=(30, 13),
    ),
    Case("dinov2_registers", 4, "Dinov2WithRegistersModel", tower(16, 1, 1, mlp_ratio=3, image_size=9, patch_size=3, num_register_tokens=1), other_size=(12, 21), dtype=torch.bfloat16),
    Case("dinov3_gated", 5, "DINOv3ViTModel", tower(24, 2, 3, intermediate_size=35, image_size=20, patch_size=5, num_register_tokens=4, use_gated_mlp=True, hidden_act="silu", key_bias=True), other_size=(11, 32)),
    Case(
        "dinov3_plain",
        6,
        "DINOv3ViTModel",
        tower(32, 3, 2, intermediate_size=41, image_size=12, patch_size=4, query_bias=False, value_bias=False, proj_bias=False, mlp_bias=False, rope_theta=7.0),
        batch=3,
        other_size=(16, 4),
        dtype=torch.bfloat16,
    ),
    Case(
        "siglip_odd",
        7,
        "SiglipModel",
        siglip(tower(24, 2, 3, intermediate_size=37, image_size=15, patch_size=5), tower(20, 3, 4, intermediate_size=33, vocab_size=61, max_position_embeddings=11, projection_size=24)),
        length=11,
        texts=3,
    ),
    Case(
        "siglip_short",  # fewer tokens than positions
        8,
        "SiglipModel",
        siglip(
            tower(18, 1, 1, intermediate_size=20, image_size=8, patch_size=4, hidden_act="gelu", layer_norm_eps=1e-3),
            tower(18, 2, 2, intermediate_size=27, vocab_size=47, max_position_embeddings=9, hidden_act="relu"),
        ),
        batch=3,
        length=6,
        texts=2,
        dtype=torch.float16,
    ),
]


def random_weights(model, seed):
    """Arithmetic that shows: no weight near zero or one by convention, every bias in use."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            std, mean = (0.25 if name.endswith("weight") else 0.1), 0.0
            if name in ("logit_scale", "logit_bias"):
                p.fill_(2.3 if name == "logit_scale" else -1.7)
                continue
            if "norm" in name.lower():
                mean = 1.0 if name.endswith("weight") else 0.0
                std = 0.2
            elif "lambda1" in name:
                mean, std = 0.7, 0.3
            elif "patch_embedding" in name and name.endswith("weight"):
                std = 2.0 * (p.shape[1] * p.shape[2] * p.shape[3]) ** -0.5
            elif "embedding" in name or "token" in name or "probe" in name:
                std = 0.7
            elif any(part in name for part in ("query", "key", "q_proj", "k_proj", "in_proj")):
                std = 1.5 * p.shape[-1] ** -0.5 if name.endswith("weight") else 0.3
            p.copy_(mean + std * torch.randn(p.shape, generator=generator))


def saved(case, folder):
    """A random model's folder, and what transformers loads from it, in float64: goldens must not depend on how weights were rounded."""
    model_class = getattr(t, case.model)
    model = model_class(model_class.config_class(**case.config))
    random_weights(model, case.seed)
    model.to(case.dtype).eval().save_pretrained(folder)
    return model_class.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).double().eval()


def numpy_of(tensors):
    return {name: np.ascontiguousarray(v.float().numpy() if v.is_floating_point() else v.int().numpy()) for name, v in tensors.items()}


def pixels(case, config, size):
    rng = np.random.default_rng(case.seed + size[1])
    return torch.tensor(rng.normal(0, 1, (case.batch, config.num_channels, *size)).astype(np.float32))


def dino_tensors(case, model):
    tensors = {}
    trunk = getattr(model, "dinov2", getattr(model, "dinov2_with_registers", model))
    for suffix, size in (("", (model.config.image_size,) * 2), (".other", case.other_size)):
        images = pixels(case, model.config, size)
        result = model(images.double(), output_attentions=True)
        tensors |= {f"pixel_values{suffix}": images, f"last_hidden_state{suffix}": trunk(images.double()).last_hidden_state, f"attentions.0{suffix}": result.attentions[0]}
        if hasattr(result, "logits"):
            tensors[f"logits{suffix}"] = result.logits
    return tensors


def pooled(features):
    """The vector, which get_…_features of 5 has beside the hidden states."""
    return features if isinstance(features, torch.Tensor) else features.pooler_output


def siglip_tensors(case, model):
    size = (model.config.vision_config.image_size,) * 2
    images = pixels(case, model.config.vision_config, size)
    ids = torch.tensor(np.random.default_rng(case.seed).integers(0, model.config.text_config.vocab_size, (case.texts, case.length)))
    whole = model(ids, images.double(), output_attentions=True)
    return {
        "pixel_values": images,
        "input_ids": ids,
        "last_hidden_state": whole.vision_model_output.last_hidden_state,
        "text_last_hidden_state": whole.text_model_output.last_hidden_state,
        "image_features": pooled(model.get_image_features(images.double())),
        "text_features": pooled(model.get_text_features(ids)),
        "image_embeds": whole.image_embeds,
        "text_embeds": whole.text_embeds,
        "logits_per_image": whole.logits_per_image,
    }


def write_model(case, out):
    folder = out / case.name
    model = saved(case, folder)
    with torch.no_grad():
        tensors = siglip_tensors(case, model) if case.texts else dino_tensors(case, model)
    save_file(numpy_of(tensors), folder / "golden.safetensors")


# ---- pictures -----------------------------------------------------------------------------------------------------------


def upright(name):
    with Image.open(HERE / "vision/pictures" / name) as image:
        return ImageOps.exif_transpose(image).convert("RGB")


def slow(name):
    """The processor that resizes with Pillow, which 4 calls by the plain name and 5 by that with Pil."""
    return getattr(t, name + "Pil", None) or getattr(t, name)


def dinov3_processor(**options):
    made = getattr(t, "DINOv3ViTImageProcessorFast", None) or t.DINOv3ViTImageProcessor
    return made(**options)


def processors():
    return {
        "bit": (slow("BitImageProcessor")(size={"shortest_edge": 18}, crop_size={"height": 14, "width": 14}), "BitImageProcessor"),
        "siglip": (slow("SiglipImageProcessor")(size={"height": 12, "width": 15}), "SiglipImageProcessor"),
        "dinov3": (dinov3_processor(size={"height": 12, "width": 15}), "DINOv3ViTImageProcessorFast"),
        "dinov3_larger": (dinov3_processor(size={"height": 40, "width": 33}, resample=3, image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.4]), "DINOv3ViTImageProcessorFast"),
    }


def processed(processor, name):
    return processor(upright(name), return_tensors="pt")["pixel_values"][0].numpy()


def config_of(processor, type_name):
    """As files have it, whatever the version that wrote it."""
    fields = json.loads(processor.to_json_string())
    wanted = ("do_resize", "size", "resample", "do_center_crop", "crop_size", "do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std", "do_convert_rgb")
    config = {name: fields[name] for name in wanted if fields.get(name) is not None} | {"image_processor_type": type_name}
    for field in config.keys() & {"size", "crop_size"}:
        config[field] = {name: value for name, value in dict(config[field]).items() if value is not None}
    return config


def write_processed(folder):
    folder.mkdir()
    tensors = {}
    for name, (processor, type_name) in processors().items():
        config = config_of(processor, type_name)
        (folder / f"{name}.json").write_text(json.dumps(config, indent=2) + "\n")
        for picture in ("colour.png", "turned6.jpg"):
            tensors[f"{name}.{picture}"] = processed(processor, picture)
    save_file({name: np.ascontiguousarray(v.astype(np.float32)) for name, v in tensors.items()}, folder / "golden.safetensors")


# ---- whole folders ------------------------------------------------------------------------------------------------------

PICTURES = ["colour.png", "progressive.jpg"]
TEXTS = ["a photo of a cat", "A  DOG, on the beach!", "zwei Katzen", "", "it's 12 o'clock in a town far, far away from all that there is", "naïve café_猫 (1.5)"]


def write_processor(folder, processor, type_name):
    config = config_of(processor, type_name)
    (folder / "preprocessor_config.json").write_text(json.dumps(config, indent=2) + "\n")


def write_dino_folder(folder):
    """Images that are smaller than those the positions are for."""
    case = Case("dino", 21, "Dinov2ForImageClassification", tower(20, 2, 4, mlp_ratio=3, image_size=28, patch_size=4, id2label=LABELS))
    model = saved(case, folder)
    processor = slow("BitImageProcessor")(size={"shortest_edge": 18}, crop_size={"height": 16, "width": 16})
    write_processor(folder, processor, "BitImageProcessor")
    images = torch.tensor(np.stack([processed(processor, name) for name in PICTURES])).double()
    with torch.no_grad():
        result = model(images, output_attentions=True)
        hidden = model.dinov2(images).last_hidden_state[:, 0]
    golden = {
        "images": PICTURES,
        "logits": result.logits.tolist(),
        "probabilities": result.logits.softmax(-1).tolist(),
        "class_token": hidden.tolist(),
        "attention.1": result.attentions[1][0].tolist(),
    }
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


def sentencepiece_model(path):
    lines = ["a photo of a cat", "a dog on the beach", "zwei katzen", "its 12 oclock in a town far far away from all that there is", "naïve café"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines * 4))
        file.flush()
        sentencepiece.SentencePieceTrainer.train(
            input=file.name, model_prefix=str(path / "spiece"), vocab_size=60, hard_vocab_limit=False, model_type="unigram", pad_id=-1, bos_id=-1, eos_id=1, unk_id=2, control_symbols=["<pad>"], character_coverage=1.0, minloglevel=2
        )
    (path / "spiece.vocab").unlink()
    return sentencepiece.SentencePieceProcessor(model_file=str(path / "spiece.model"))


def siglip_tokenizer(folder):
    """SiglipTokenizer over a model of SentencePiece, and the same pieces as tokenizer.json, which is all that the folder keeps."""
    model = sentencepiece_model(folder)
    pieces = [(model.id_to_piece(i), model.get_score(i)) for i in range(model.get_piece_size())]
    fast = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=model.unk_id()))
    fast.normalizer = tokenizers.normalizers.Sequence([tokenizers.normalizers.NFKC(), tokenizers.normalizers.Replace(tokenizers.Regex(" {2,}"), " ")])
    fast.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="always")
    fast.decoder = tokenizers.decoders.Metaspace(prepend_scheme="always")
    fast.post_processor = tokenizers.processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", model.eos_id())])
    fast.add_special_tokens(["<pad>", "</s>", "<unk>"])
    slow_tokenizer = t.SiglipTokenizer(str(folder / "spiece.model"), model_max_length=12)
    (folder / "spiece.model").unlink()
    fast.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "SiglipTokenizer", "do_lower_case": True, "eos_token": "</s>", "pad_token": "</s>", "unk_token": "<unk>", "model_max_length": 12}, indent=1) + "\n")
    return slow_tokenizer


def write_siglip_folder(folder):
    folder.mkdir()
    tokenizer = siglip_tokenizer(folder)
    text = tower(16, 2, 2, intermediate_size=24, vocab_size=tokenizer.vocab_size, max_position_embeddings=12, projection_size=20)
    case = Case("siglip", 22, "SiglipModel", siglip(tower(20, 2, 4, intermediate_size=27, image_size=16, patch_size=8), text))
    model = saved(case, folder)
    processor = slow("SiglipImageProcessor")(size={"height": 16, "width": 16})
    write_processor(folder, processor, "SiglipImageProcessor")
    images = torch.tensor(np.stack([processed(processor, name) for name in PICTURES])).double()
    encoded = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=12)["input_ids"]
    with torch.no_grad():
        whole = model(torch.tensor(encoded), images)
    golden = {
        "texts": TEXTS,
        "images": PICTURES,
        "input_ids": encoded,
        "image_embeds": whole.image_embeds.tolist(),
        "text_embeds": whole.text_embeds.tolist(),
        "image_features": pooled(model.get_image_features(images)).tolist(),
        "logits_per_image": whole.logits_per_image.tolist(),
        "probabilities": whole.logits_per_image.sigmoid().tolist(),
    }
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


def compare(out, other):
    """By how much the versions' results differ at most, beside the largest number of each tensor."""
    worst = 0.0
    for path in sorted(out.rglob("golden.safetensors")):
        ours, theirs = load_file(path), load_file(other / path.relative_to(out))
        assert ours.keys() == theirs.keys(), path
        for name, values in ours.items():
            worst = max(worst, float(np.abs(values - theirs[name]).max() / max(np.abs(values).max(), 1e-30)))
    for path in sorted(out.rglob("golden.json")):
        ours, theirs = json.loads(path.read_text()), json.loads((other / path.relative_to(out)).read_text())
        for name, values in ours.items():
            if name in ("texts", "images", "input_ids"):
                assert values == theirs[name], (path, name)
            else:
                worst = max(worst, float(np.abs(np.array(values) - np.array(theirs[name])).max()))
    print(f"the versions' results differ by {worst:.1e} at most")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "modern_vision")
    parser.add_argument("--compare", type=pathlib.Path, help="what another version of transformers wrote")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shutil.rmtree(options.out, ignore_errors=True)
    for case in CASES:
        write_model(case, options.out / "models")
    write_processed(options.out / "processed")
    write_dino_folder(options.out / "dino")
    write_siglip_folder(options.out / "siglip")
    if options.compare:
        compare(options.out, options.compare)


if __name__ == "__main__":
    main()
