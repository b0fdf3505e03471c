"""Trains shape-classifier, a small ViT (Dosovitskiy et al. 2021), on drawn scenes (scenes.py) and writes it as a folder
of the Hugging Face layout, with float16 weights.

    python vision.py --out first
    python vision.py --out ../../samples/models/shape-classifier --start first --seed 2 --steps 1000 --lr 1e-3 --warmup 50

Pictures are made on the fly from `--seed`. A second course starts with the weights of the first, and with hard
pictures.
"""

import argparse
import copy
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification

import scenes
from tokens import write_json

MEAN = DEVIATION = 0.5
HARD_FROM = 0.3  # of the steps: then the pictures are as hard as those of the evaluation


def make_config() -> ViTConfig:
    return ViTConfig(
        image_size=scenes.SIZE,
        patch_size=8,
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=96,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        id2label=dict(enumerate(scenes.LABELS)),
        label2id={name: label for label, name in enumerate(scenes.LABELS)},
        attn_implementation="sdpa",
    )


def pixel_values(pixels: np.ndarray) -> Tensor:
    """[count, height, width, 3] → [count, 3, height, width], as preprocessor_config.json says."""
    return (torch.from_numpy(pixels).permute(0, 3, 1, 2) - MEAN) / DEVIATION


def export(model: ViTForImageClassification, out: Path) -> None:
    """Rounds the model's own weights to float16, too, so that what is scored afterwards is what was written."""
    out.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().half().contiguous() for name, value in model.state_dict().items()}
    model.load_state_dict({name: value.float() for name, value in tensors.items()})
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    fields = model.config.to_diff_dict() | {"architectures": ["ViTForImageClassification"], "dtype": "float16"}
    for key in ("num_channels", "hidden_act", "layer_norm_eps", "qkv_bias"):
        fields[key] = getattr(model.config, key)
    fields.pop("transformers_version", None)
    write_json(out / "config.json", dict(sorted(fields.items())))
    write_json(
        out / "preprocessor_config.json",
        {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": scenes.SIZE, "width": scenes.SIZE},
            "resample": 2,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": [MEAN] * 3,
            "image_std": [DEVIATION] * 3,
        },
    )


@torch.no_grad()
def predict(model: ViTForImageClassification, pictures: scenes.Pictures, batch: int = 100) -> np.ndarray:
    """The likeliest labels of pictures that went through bytes, as those of a file do."""
    pixels = scenes.to_bytes(pictures.pixels).astype(np.float32) / 255
    parts = [pixel_values(pixels[i : i + batch]) for i in range(0, len(pixels), batch)]
    return np.concatenate([model(part).logits.argmax(-1).numpy() for part in parts])


def batches(rng: np.random.Generator, size: int, steps: int, lessons: int):
    """Easier pictures first, for so many steps. Every drawing serves twice: as it is, and mirrored with its colour
    channels rotated.
    """
    for step in range(0, steps, 2):
        pictures = scenes.draw(rng, size, min(1.0, step / lessons) if lessons else 1.0)
        yield pictures
        yield scenes.Pictures(np.ascontiguousarray(pictures.pixels[:, :, ::-1, [1, 2, 0]]), pictures.labels)


def learning_rate(step: int, args: argparse.Namespace) -> float:
    return args.lr * min(1.0, (step + 1) / args.warmup, (args.steps - step) / (args.steps * 0.65))


def train(args: argparse.Namespace) -> None:
    if args.seed in (scenes.EVALUATION_SEED, scenes.SECOND_SEED):
        raise SystemExit(f"seed {args.seed} belongs to the evaluation")
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng(args.seed)
    model = ViTForImageClassification(make_config())
    if args.start:
        model.load_state_dict(load_file(args.start / "model.safetensors"))
    print(f"{sum(p.numel() for p in model.parameters())} weights", flush=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98), weight_decay=0.02)
    began, total, right = time.time(), 0.0, 0
    lessons = 0 if args.start else int(HARD_FROM * args.steps)
    for step, pictures in enumerate(batches(rng, args.batch, args.steps, lessons)):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        labels = torch.from_numpy(pictures.labels)
        logits = model(pixel_values(pictures.pixels)).logits
        loss = nn.functional.cross_entropy(logits, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total += loss.item()
        right += (logits.argmax(-1) == labels).sum().item()
        if (step + 1) % 100 == 0:
            rate = (step + 1) / (time.time() - began)
            print(
                f"step {step + 1:5}  loss {total / 100:.4f}  right {right / args.batch:.1f} %  {rate:.2f} steps/s  "
                f"{(args.steps - step - 1) / rate / 60:.1f} min left",
                flush=True,
            )
            total, right = 0.0, 0
            export(copy.deepcopy(model), args.out)
    model.eval()
    export(model, args.out)
    pictures = scenes.draw(np.random.default_rng(args.seed + 1), 2000)
    print(f"right: {(predict(model, pictures) == pictures.labels).mean():.2%} of 2000", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--start", type=Path, help="a folder whose weights to begin with")
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3, help="peak learning rate (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=100, help="steps (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: %(default)s)")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
