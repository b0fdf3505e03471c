#!/usr/bin/env python3
"""Writes vision/: tiny random ViT, DeiT and CLIP models with their results, pictures, and what Pillow and transformers' image
processors make of them.

    python3 tests/goldens/make_vision.py [--out DIR]

Weights are float32 in the file (or what the case says), and the reference runs them in float64. See README.md for the versions
and the format.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil

import numpy as np
import tokenizers
import torch
import transformers
from PIL import Image, ImageOps
from safetensors.numpy import save_file


@dataclasses.dataclass
class Case:
    """One tiny model, for `batch` images; of texts: `lengths`, the end token included."""

    name: str
    seed: int
    model: str  # class in transformers
    config: dict
    batch: int = 2
    lengths: tuple = ()
    dtype: torch.dtype = torch.float32


def vit(hidden, layers, heads, inner, image, patch, **others):
    return dict(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        image_size=image,
        patch_size=patch,
        **others,
    )


def clip(vision, text, projection):
    return dict(vision_config=vision, text_config=text, projection_dim=projection)


LABELS = {0: "tench", 1: "a cat, or two", 2: "Straße", 3: "猫", 4: "none"}

CASES = [
    Case("vit_h20", 1, "ViTModel", vit(20, 2, 4, 37, 12, 4)),
    Case(
        "vit_labels",
        2,
        "ViTForImageClassification",
        vit(21, 3, 3, 33, [15, 22], [4, 5], num_channels=1, qkv_bias=False, hidden_act="relu", layer_norm_eps=1e-3, id2label=LABELS),
        batch=3,
    ),
    Case(
        "vit_many_labels",
        3,
        "ViTForImageClassification",
        vit(16, 1, 1, 19, 16, 16, hidden_act="gelu_new", num_labels=3, problem_type="multi_label_classification"),
        dtype=torch.float16,
    ),
    Case("deit_teacher", 4, "DeiTForImageClassificationWithTeacher", vit(24, 2, 2, 41, 20, 6, num_labels=4)),
    Case("deit_labels", 5, "DeiTForImageClassification", vit(18, 2, 3, 25, 8, 2, num_labels=2, qkv_bias=False), dtype=torch.bfloat16),
    Case(
        "clip_old_end",  # eos_token_id 2, as files of before 2023 say: the largest id is the end token
        6,
        "CLIPModel",
        clip(vit(24, 2, 3, 40, 14, 5), dict(hidden_size=20, num_hidden_layers=3, num_attention_heads=4, intermediate_size=35, vocab_size=61, max_position_embeddings=13, eos_token_id=2, bos_token_id=0), 11),
        lengths=(5, 13, 2),
    ),
    Case(
        "clip_gelu",
        7,
        "CLIPModel",
        clip(
            vit(21, 1, 1, 30, 9, 3, hidden_act="gelu", layer_norm_eps=1e-4),
            dict(hidden_size=18, num_hidden_layers=2, num_attention_heads=2, intermediate_size=27, vocab_size=47, max_position_embeddings=9, hidden_act="gelu", eos_token_id=44, bos_token_id=45),
            16,
        ),
        batch=3,
        lengths=(9, 4),
    ),
]


def random_weights(model, seed):
    """Arithmetic that shows: no weight near zero or one by convention, every bias in use."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            std, mean = (0.25 if name.endswith("weight") else 0.1), 0.0
            if name == "logit_scale":
                p.fill_(2.3)
                continue
            if "norm" in name.lower() or "layrnorm" in name:
                mean = 1.0 if name.endswith("weight") else 0.0
                std = 0.2
            elif "patch_embedding" in name and name.endswith("weight"):
                std = 2.0 * (p.shape[1] * p.shape[2] * p.shape[3]) ** -0.5
            elif "embedding" in name or "token" in name:
                std = 0.7
            elif any(part in name for part in ("query", "key", "q_proj", "k_proj")):
                std = 1.5 * p.shape[-1] ** -0.5 if name.endswith("weight") else 0.3
            p.copy_(mean + std * torch.randn(p.shape, generator=generator))


def random_model(case):
    model_class = getattr(transformers, case.model)
    config = model_class.config_class(**case.config)
    model = model_class(config)
    random_weights(model, case.seed)
    return model.to(case.dtype).eval()


def reload(model, folder):
    """The weights as the file has them, in float64: goldens must not depend on how they were rounded."""
    model.save_pretrained(folder, safe_serialization=True)
    return type(model).from_pretrained(folder, attn_implementation="eager").double().eval()


def in_float64(run):
    """transformers makes the causal mask in PyTorch's default type, which must hold the lowest float64."""
    torch.set_default_dtype(torch.float64)
    result = run()
    torch.set_default_dtype(torch.float32)
    return result


def random_pixels(case, config):
    size = config.image_size if isinstance(config.image_size, (list, tuple)) else (config.image_size,) * 2
    rng = np.random.default_rng(case.seed)
    return torch.tensor(rng.normal(0, 1, (case.batch, config.num_channels, *size)).astype(np.float32))


def random_texts(case, config):
    rng = np.random.default_rng(case.seed + 100)
    end = config.vocab_size - 1 if config.eos_token_id == 2 else config.eos_token_id
    ids = rng.integers(3, min(end, config.vocab_size - 1), (len(case.lengths), max(case.lengths)))
    for row, length in enumerate(case.lengths):
        ids[row, length - 1] = end
        ids[row, length:] = 1
    return torch.tensor(ids)


def numpy_of(tensors):
    return {name: np.ascontiguousarray(t.float().numpy() if t.is_floating_point() else t.int().numpy()) for name, t in tensors.items()}


def write_model(case, out):
    folder = out / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = reload(random_model(case), folder)
    is_clip = case.model == "CLIPModel"
    pixels = random_pixels(case, model.config.vision_config if is_clip else model.config)
    tensors = {"pixel_values": pixels}
    with torch.no_grad():
        if is_clip:
            ids = random_texts(case, model.config.text_config)
            vision = model.vision_model(pixels.double(), output_attentions=True)
            text = in_float64(lambda: model.text_model(ids))
            whole = in_float64(lambda: model(ids, pixels.double()))
            tensors |= {
                "input_ids": ids,
                "lengths": torch.tensor(case.lengths),
                "last_hidden_state": vision.last_hidden_state,
                "attentions.0": vision.attentions[0],
                "text_last_hidden_state": text.last_hidden_state,
                "image_features": model.get_image_features(pixels.double()),
                "text_features": in_float64(lambda: model.get_text_features(ids)),
                "image_embeds": whole.image_embeds,
                "text_embeds": whole.text_embeds,
                "logits_per_image": whole.logits_per_image,
            }
        else:
            result = model(pixels.double(), output_hidden_states=True, output_attentions=True)
            trunk = getattr(model, model.config.model_type, model)
            tensors["last_hidden_state"] = trunk(pixels.double()).last_hidden_state
            tensors["attentions.0"] = result.attentions[0]
            if case.model != "ViTModel":
                tensors["logits"] = result.logits
    save_file(numpy_of(tensors), folder / "golden.safetensors")


# ---- pictures ---------------------------------------------------------------------------------------------------------


def scene(width, height, seed):
    """Soft waves with a hard edge and some noise: something that resampling can go wrong at."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 90 * np.sin(x / (3 + c) + y / (5 - c) + c) for c in range(3)]
    picture = np.stack(waves, -1) + rng.normal(0, 6, (height, width, 3))
    picture[height // 3 : height // 2, width // 4 : width // 2] = (255, 0, 20)
    return np.clip(picture, 0, 255).astype(np.uint8)


def write_pictures(folder):
    folder.mkdir(parents=True)
    colour = Image.fromarray(scene(37, 29, 1))
    alpha = colour.copy().convert("RGBA")
    alpha.putalpha(Image.fromarray(scene(37, 29, 2)[..., 0]))
    grey = colour.convert("L")
    exif = Image.Exif()

    def save(name, image, **options):
        image.save(folder / name, **options)

    save("colour.png", colour)
    save("alpha.png", alpha)
    save("grey.png", grey)
    save("palette.png", colour.quantize(13))
    save("bits.png", grey.convert("1"))
    save("colour.jpg", colour, quality=88)
    save("progressive.jpg", colour, quality=75, progressive=True, subsampling=0)
    save("grey.jpg", grey)
    save("inks.jpg", colour.convert("CMYK"), quality=90)
    for orientation in range(2, 9):
        exif[0x0112] = orientation
        small = Image.fromarray(scene(11, 7, 3))
        save(f"turned{orientation}.jpg", small, quality=95, exif=exif)
    expected = {}
    for path in sorted(folder.iterdir()):
        with Image.open(path) as image:
            upright = ImageOps.exif_transpose(image).convert("RGB")
        expected[path.name] = {"width": upright.width, "height": upright.height, "rgb": upright.tobytes().hex()}
    (folder / "pixels.json").write_text(json.dumps(expected, indent=0) + "\n")


def write_resized(path):
    picture = Image.fromarray(scene(23, 17, 4))
    results = []
    for number in (1, 2, 3, 4):
        for size in ((7, 5), (23, 17), (40, 9), (1, 1), (30, 31), (22, 17), (23, 18)):
            resized = picture.resize(size, resample=number)
            results.append({"resample": number, "width": size[0], "height": size[1], "rgb": resized.tobytes().hex()})
    golden = {"width": 23, "height": 17, "rgb": picture.tobytes().hex(), "results": results}
    path.write_text(json.dumps(golden, indent=0) + "\n")


PROCESSORS = {
    "clip": transformers.CLIPImageProcessor(size={"shortest_edge": 18}, crop_size={"height": 16, "width": 16}),
    "clip_small_crop": transformers.CLIPImageProcessor(size={"shortest_edge": 9}, crop_size={"height": 16, "width": 13}),
    "clip_no_resize": transformers.CLIPImageProcessor(do_resize=False, crop_size={"height": 40, "width": 21}, do_normalize=False),
    "vit": transformers.ViTImageProcessor(size={"height": 12, "width": 15}),
    "vit_lanczos": transformers.ViTImageProcessor(size={"height": 33, "width": 10}, resample=1, do_rescale=False, image_mean=[100, 110, 120], image_std=[50, 60, 70]),
    "deit": transformers.DeiTImageProcessor(size={"height": 20, "width": 20}, crop_size={"height": 18, "width": 18}),
}
# What files of before 2022 look like, and the processor that they are now.
OLD = {
    "old_clip": (
        dict(crop_size=14, do_center_crop=True, do_normalize=True, do_resize=True, feature_extractor_type="CLIPFeatureExtractor", image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.4], resample=3, size=16),
        lambda c: transformers.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 14, "width": 14}, image_mean=c["image_mean"], image_std=c["image_std"]),
    ),
    "old_vit": (
        dict(do_normalize=True, do_resize=True, feature_extractor_type="ViTFeatureExtractor", image_mean=[0.5] * 3, image_std=[0.5] * 3, resample=2, size=13),
        lambda c: transformers.ViTImageProcessor(size={"height": 13, "width": 13}),
    ),
}


def write_processed(folder, pictures):
    folder.mkdir()
    tensors = {}
    cases = {name: (json.loads(p.to_json_string()), p) for name, p in PROCESSORS.items()}
    cases |= {name: (config, make(config)) for name, (config, make) in OLD.items()}
    fast = transformers.CLIPImageProcessorFast(size={"shortest_edge": 18}, crop_size={"height": 16, "width": 16})
    for name, (config, processor) in cases.items():
        (folder / f"{name}.json").write_text(json.dumps(config, indent=2) + "\n")
        for picture in ("colour.png", "turned6.jpg"):
            with Image.open(pictures / picture) as image:
                upright = ImageOps.exif_transpose(image).convert("RGB")
            tensors[f"{name}.{picture}"] = processor(upright, return_tensors="np")["pixel_values"][0]
            if name == "clip":
                tensors[f"fast.{picture}"] = fast(upright, return_tensors="pt")["pixel_values"][0].numpy()
    save_file({name: np.ascontiguousarray(t.astype(np.float32)) for name, t in tensors.items()}, folder / "golden.safetensors")


# ---- whole folders ----------------------------------------------------------------------------------------------------

TEXTS = ["a photo of a cat", "A  DOG, on the beach!", "zwei Katzen", "", "it's 12 o'clock in a town far, far away from all that there is", "naïve café 猫 🙂"]


def clip_tokenizer(folder):
    """Byte-level BPE with ends of words marked, as CLIP's; trained on the spot."""
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE(continuing_subword_prefix="", end_of_word_suffix="</w>", unk_token="<|endoftext|>"))
    bpe.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.NFC(), tokenizers.normalizers.Replace(tokenizers.Regex(r"\s+"), " "), tokenizers.normalizers.Lowercase()]
    )
    pattern = r"""'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="removed", invert=True), tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    bpe.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=560, initial_alphabet=sorted(alphabet), end_of_word_suffix="</w>", show_progress=False, special_tokens=[])
    bpe.train_from_iterator(TEXTS + ["a photo of a dog and a cat in the town, on a beach far away", "clock clocks catty dogs"], trainer)
    bpe.add_special_tokens(["<|startoftext|>", "<|endoftext|>"])
    start, end = bpe.token_to_id("<|startoftext|>"), bpe.token_to_id("<|endoftext|>")
    bpe.post_processor = tokenizers.processors.RobertaProcessing(("<|endoftext|>", end), ("<|startoftext|>", start), trim_offsets=False, add_prefix_space=False)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<|startoftext|>", eos_token="<|endoftext|>", pad_token="<|endoftext|>", unk_token="<|endoftext|>", model_max_length=12)
    fast.save_pretrained(folder)
    for extra in ("special_tokens_map.json",):
        (folder / extra).unlink(missing_ok=True)
    return fast


def write_clip_folder(folder, pictures):
    folder.mkdir()
    tokenizer = clip_tokenizer(folder)
    text = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, vocab_size=len(tokenizer), max_position_embeddings=12, eos_token_id=tokenizer.eos_token_id, bos_token_id=tokenizer.bos_token_id)
    case = Case("clip_folder", 11, "CLIPModel", clip(vit(18, 2, 3, 27, 16, 8), text, 10))
    model = reload(random_model(case), folder)
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    processor.save_pretrained(folder)
    images = [Image.open(pictures / name).convert("RGB") for name in ("colour.png", "progressive.jpg")]
    pixels = torch.tensor(np.stack(processor(images)["pixel_values"])).double()
    encoded = tokenizer(TEXTS, padding=True, truncation=True, max_length=12, return_tensors="pt")
    with torch.no_grad():
        whole = in_float64(lambda: model(encoded["input_ids"], pixels, attention_mask=encoded["attention_mask"]))
    golden = {
        "texts": TEXTS,
        "images": ["colour.png", "progressive.jpg"],
        "tokens": [int(n) for n in encoded["attention_mask"].sum(1)],
        "image_embeds": whole.image_embeds.tolist(),
        "text_embeds": whole.text_embeds.tolist(),
        "image_features": model.get_image_features(pixels).tolist(),
        "logits_per_image": whole.logits_per_image.tolist(),
    }
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


def write_vit_folder(folder, pictures):
    folder.mkdir()
    case = Case("vit_folder", 12, "ViTForImageClassification", vit(20, 2, 4, 30, 16, 4, id2label=LABELS))
    model = reload(random_model(case), folder)
    processor = transformers.ViTImageProcessor(size={"height": 16, "width": 16})
    processor.save_pretrained(folder)
    names = ["colour.png", "grey.jpg", "palette.png"]
    pixels = torch.tensor(np.stack(processor([Image.open(pictures / n).convert("RGB") for n in names])["pixel_values"])).double()
    with torch.no_grad():
        result = model(pixels, output_attentions=True)
        hidden = model.vit(pixels).last_hidden_state[:, 0]
    golden = {
        "images": names,
        "logits": result.logits.tolist(),
        "probabilities": result.logits.softmax(-1).tolist(),
        "class_token": hidden.tolist(),
        "attention.1": result.attentions[1][0].tolist(),
    }
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "vision")
    out = parser.parse_args().out
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shutil.rmtree(out, ignore_errors=True)
    for case in CASES:
        write_model(case, out / "models")
    write_pictures(out / "pictures")
    write_resized(out / "resized.json")
    write_processed(out / "processed", out / "pictures")
    write_clip_folder(out / "clip", out / "pictures")
    write_vit_folder(out / "vit", out / "pictures")


if __name__ == "__main__":
    main()
