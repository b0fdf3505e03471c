#!/usr/bin/env python3
"""Writes vad/: a network of the layout of Silero VAD's file for 16 kHz with random weights, what it makes of a sound, and what
faster-whisper's get_speech_timestamps() makes of probabilities.

    python3 tests/goldens/make_vad.py --faster-whisper FOLDER [--out DIR]

FOLDER is an unpacked faster_whisper-1.2.1 wheel; of it nothing but vad.py is run. Weights are few multiples of a power of two, so that the
file packs well; only the last layer is fitted, so that noise is speech and near silence is none. The reference is plain PyTorch in float64.
See README.md.
"""

import argparse
import importlib.util
import json
import pathlib
import random
import sys
import types

import numpy as np
import torch
from safetensors.numpy import save_file
from torch.nn import functional as F

FRAME, CONTEXT, MIRRORED = 512, 64, 64
SHAPES = {
    "stft_conv.weight": [258, 1, 256],
    "conv1.weight": [128, 129, 3],
    "conv1.bias": [128],
    "conv2.weight": [64, 128, 3],
    "conv2.bias": [64],
    "conv3.weight": [64, 64, 3],
    "conv3.bias": [64],
    "conv4.weight": [128, 64, 3],
    "conv4.bias": [128],
    "lstm_cell.weight_ih": [512, 128],
    "lstm_cell.weight_hh": [512, 128],
    "lstm_cell.bias_ih": [512],
    "lstm_cell.bias_hh": [512],
    "final_conv.weight": [1, 128, 1],
    "final_conv.bias": [1],
}


def random_weights(generator):
    weights = {}
    for name, shape in SHAPES.items():
        inputs = int(np.prod(shape[1:])) if len(shape) > 1 else 64
        step = 2.0 ** np.round(np.log2(1.2 / np.sqrt(inputs)) - 1)
        weights[name] = torch.from_numpy(np.clip(np.round(generator.normal(size=shape) * 2), -6, 6) * step)
    # cosines and sines under a window, as a short-time Fourier transform has them, to a 32nd
    angle = 2 * np.pi * np.outer(np.arange(129), np.arange(256)) / 256
    hann = np.hanning(257)[:256]
    weights["stft_conv.weight"] = torch.from_numpy(np.round(32 * np.concatenate([np.cos(angle), -np.sin(angle)]) * hann) / 32)[:, None]
    weights["conv1.weight"] /= 8  # sums over a window are large
    return weights


def states(weights, samples):
    """relu(hidden state) of every frame: [frames, 128]."""
    frames = -(-len(samples) // FRAME)
    padded = torch.zeros(CONTEXT + frames * FRAME, dtype=torch.float64)
    padded[CONTEXT : CONTEXT + len(samples)] = torch.from_numpy(samples.astype(np.float64))
    x = F.pad(torch.stack([padded[i * FRAME : i * FRAME + CONTEXT + FRAME] for i in range(frames)])[:, None], (0, MIRRORED), mode="reflect")
    waves = F.conv1d(x, weights["stft_conv.weight"], stride=128)
    x = (waves[:, :129] ** 2 + waves[:, 129:] ** 2).sqrt()
    for layer, stride in ((1, 1), (2, 2), (3, 2), (4, 1)):
        x = F.conv1d(x, weights[f"conv{layer}.weight"], weights[f"conv{layer}.bias"], stride=stride, padding=1).relu()
    cell = torch.nn.LSTMCell(128, 128, dtype=torch.float64)
    cell.load_state_dict({name.removeprefix("lstm_cell."): value for name, value in weights.items() if name.startswith("lstm_cell.")})
    found, state = [], None
    with torch.no_grad():
        for frame in x[:, :, 0]:
            state = cell(frame[None], state)
            found.append(state[0][0].relu())
    return torch.stack(found)


def coloured(generator, count):
    """Noise of some colour, or three tones; of loudness one."""
    if generator.integers(2):
        width = int(generator.integers(1, 16))
        found = np.convolve(generator.normal(size=count + width - 1), np.ones(width), mode="valid")
    else:
        found = sum(np.sin(2 * np.pi * generator.uniform(0.01, 0.3) * np.arange(count) + generator.uniform(0, 6)) for _ in range(3))
    return found / found.std()


def fit(weights, generator):
    """The last layer: sound of any loudness above 0.03 is speech, below 0.001 none."""
    rows, wanted = [], []
    for _ in range(120):
        levels = [generator.uniform(0.03, 0.4) if generator.integers(2) else generator.uniform(0, 0.001) for _ in range(8)]
        sound = np.concatenate([level * coloured(generator, 6 * FRAME) for level in levels])
        rows.append(states(weights, sound))
        wanted += [6.0 if level > 0.01 else -6.0 for level in levels for _ in range(6)]
    matrix = torch.cat([torch.cat(rows), torch.ones(len(wanted), 1)], dim=1)
    ridge = 0.05 * len(wanted) * torch.eye(129, dtype=torch.float64)
    solved = torch.linalg.solve(matrix.T @ matrix + ridge * 0.01, matrix.T @ torch.tensor(wanted, dtype=torch.float64)[:, None])[:, 0]
    solved = torch.round(solved * 64) / 64
    weights["final_conv.weight"], weights["final_conv.bias"] = solved[:128].reshape(1, 128, 1), solved[128:]


def probabilities(weights, samples):
    return torch.sigmoid(states(weights, samples) @ weights["final_conv.weight"][0, :, 0] + weights["final_conv.bias"])


def sound(generator):
    """Silence, speech and what lies between; no whole number of frames."""
    levels = [(0.0, 9000), (0.2, 14000), (0.0003, 12000), (0.05, 5000), (0.01, 3000), (0.0, 8000), (0.4, 6000), (0.004, 5177)]
    parts = [level * generator.normal(size=count) for level, count in levels]
    return (np.round(np.concatenate(parts).clip(-1, 1) * 2048) / 2048).astype(np.float32)


def load_vad(folder):
    """vad.py alone: what it imports of its package, and the network, are not needed."""
    package, utils = types.ModuleType("faster_whisper"), types.ModuleType("faster_whisper.utils")
    utils.get_assets_path = None
    sys.modules.update({"faster_whisper": package, "faster_whisper.utils": utils})
    spec = importlib.util.spec_from_file_location("faster_whisper.vad", folder / "faster_whisper" / "vad.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["faster_whisper.vad"] = module
    spec.loader.exec_module(module)
    return module


def random_case(random_, vad):
    """Probabilities that stay high or low for a while, of one digit, so that some equal the thresholds; and options."""
    frames = random_.randint(1, 260)
    values = []
    while len(values) < frames:
        level = random_.choice([0.05, 0.2, 0.4, 0.6, 0.9])
        values += [round(min(1, max(0, random_.gauss(level, 0.12))), 2) for _ in range(random_.randint(1, 40))]
    values = values[:frames]
    options = {}
    for name, choices in (
        ("threshold", (0.3, 0.7)),
        ("neg_threshold", (0.1, 0.25)),
        ("min_speech_duration_ms", (100, 250, 1000)),
        ("max_speech_duration_s", (1.0, 2.5)),
        ("min_silence_duration_ms", (0, 100, 500)),
        ("speech_pad_ms", (0, 30, 33)),
    ):
        if random_.random() < 0.5:
            options[name] = random_.choice(choices)
    if "max_speech_duration_s" in options:
        options.setdefault("speech_pad_ms", 30)
    samples = frames * FRAME - random_.randint(0, FRAME - 1)
    vad.get_vad_model = lambda: lambda audio: np.array(values, np.float64)
    regions = vad.get_speech_timestamps(np.zeros(samples, np.float32), vad.VadOptions(**options))
    return {"samples": samples, "options": options, "probabilities": values, "regions": [[r["start"], r["end"]] for r in regions]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "vad")
    parser.add_argument("--faster-whisper", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    generator = np.random.default_rng(7)
    torch.set_num_threads(1)
    weights = random_weights(generator)
    fit(weights, generator)
    save_file({name: weights[name].numpy().astype(np.float32).reshape(shape) for name, shape in SHAPES.items()}, arguments.out / "network.safetensors")
    samples = sound(generator)
    found = probabilities(weights, samples)
    print(np.round(found.numpy(), 2))
    save_file({"samples": samples, "probabilities": found.numpy()}, arguments.out / "golden.safetensors")
    vad, random_ = load_vad(arguments.faster_whisper), random.Random(7)
    cases = ",\n".join(json.dumps(random_case(random_, vad)) for _ in range(48))
    (arguments.out / "timestamps.json").write_text(f"[\n{cases}\n]\n")


main()
