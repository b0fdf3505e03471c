"""Trains one model of the history of attention on one task and writes it as a folder that vkformer loads.

    python history.py --task copy --preset luong-general --out ../../samples/models/history/copy/luong-general

Presets: lstm (Sutskever et al. 2014), bahdanau (2015), luong-dot, luong-general, luong-concat, luong-local-m, luong-local-p (Luong
et al. 2015) and transformer (Vaswani et al. 2017, as MarianMT), all of about 150,000 weights. Tasks: `copy`, strings of
digits (copying.py), and `date`, written dates to ISO 8601 (dates.py); both are read and written by character
(characters.py). Samples are made on the fly from `--seed`. The weights are written, and scored, as float16.
"""

import argparse
import json
import random
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

import characters
import copying
import dates
from recurrent import Config, Seq2Seq

DIGITS = "0123456789"
DATE_CHARACTERS = " !\"#$%&'()*+,-./" + DIGITS + ":;<=>?@[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~ßàáâäçèéêëíîïñóôöùúûü"
MAX_LENGTH = 128  # tokens, of source and target each
BUCKETS = 8  # batches that are drawn together and sorted by length


def recurrent_fields(preset: str) -> dict:
    """What the presets differ in. The widths are chosen so that all models have about as many weights."""
    if preset == "lstm":
        return {
            "cell": "lstm",
            "embedding_dim": 48,
            "encoder_hidden_dim": 48,
            "encoder_layers": 4,
            "encoder_direction": "backward",
            "decoder_hidden_dim": 48,
            "decoder_layers": 4,
            "bridge": "copy",
        }
    if preset == "bahdanau":
        return {
            "cell": "gru",
            "embedding_dim": 48,
            "encoder_hidden_dim": 64,
            "encoder_layers": 1,
            "encoder_direction": "bidirectional",
            "decoder_hidden_dim": 80,
            "decoder_layers": 1,
            "bridge": "tanh",
            "attention": "additive",
            "attention_query": "previous",
            "attention_dim": 80,
        }
    fields = {
        "cell": "lstm",
        "embedding_dim": 48,
        "encoder_hidden_dim": 64,
        "encoder_layers": 2,
        "encoder_direction": "forward",
        "decoder_hidden_dim": 64,
        "decoder_layers": 2,
        "bridge": "copy",
        "attention": "general",
        "attention_query": "current",
        "input_feeding": True,
    }
    if preset == "luong-dot":
        fields["attention"] = "dot"
    if preset == "luong-concat":
        fields |= {"attention": "additive", "attention_dim": 60}
    if preset == "luong-local-m":
        fields |= {"attention_window": "monotonic", "attention_half_width": 5}
    if preset == "luong-local-p":
        fields |= {"attention_window": "predictive", "attention_half_width": 5}
    return fields


RECURRENT = ("lstm", "bahdanau", "luong-dot", "luong-general", "luong-concat", "luong-local-m", "luong-local-p")
PRESETS = (*RECURRENT, "transformer")


class Recurrent:
    """A model and what the loop below needs of it."""

    def __init__(self, preset: str, vocab_size: int):
        self.config = Config(vocab_size=vocab_size, max_length=MAX_LENGTH, **recurrent_fields(preset))
        self.model = Seq2Seq(self.config)

    def logits(self, source: Tensor, lengths: Tensor, read: Tensor) -> Tensor:
        return self.model(source, lengths, read)[0]

    def greedy(self, source: Tensor, lengths: Tensor) -> list[list[int]]:
        return self.model.greedy(source, lengths, characters.START, characters.END, MAX_LENGTH)

    def fields(self) -> dict:
        return self.config.fields()

    def tensors(self) -> dict[str, Tensor]:
        return self.model.state_dict()


class Transformer:
    """MarianMT: post-norm, sinusoidal positions, tied embeddings."""

    def __init__(self, vocab_size: int):
        self.config = MarianConfig(
            vocab_size=vocab_size,
            decoder_vocab_size=vocab_size,
            d_model=64,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=112,
            decoder_ffn_dim=112,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=MAX_LENGTH,
            dropout=0.0,
            attention_dropout=0.0,
            activation_dropout=0.0,
            share_encoder_decoder_embeddings=True,
            static_position_embeddings=True,
            pad_token_id=characters.PAD,
            bos_token_id=characters.START,
            eos_token_id=characters.END,
            decoder_start_token_id=characters.START,
            forced_eos_token_id=None,
        )
        self.model = MarianMTModel(self.config)
        for module in self.model.modules():
            if isinstance(module, nn.Linear) and module is not self.model.lm_head:
                nn.init.xavier_uniform_(module.weight)
        nn.init.normal_(self.model.model.shared.weight, std=self.config.d_model**-0.5)

    def logits(self, source: Tensor, lengths: Tensor, read: Tensor) -> Tensor:
        mask = (torch.arange(source.shape[1]) < lengths[:, None]).long()
        return self.model(input_ids=source, attention_mask=mask, decoder_input_ids=read).logits

    @torch.no_grad()
    def greedy(self, source: Tensor, lengths: Tensor) -> list[list[int]]:
        mask = (torch.arange(source.shape[1]) < lengths[:, None]).long()
        ids = self.model.generate(
            input_ids=source, attention_mask=mask, num_beams=1, do_sample=False, max_length=MAX_LENGTH
        )
        rows = [row[1:] for row in ids.tolist()]
        return [row[: row.index(characters.END)] if characters.END in row else row for row in rows]

    def fields(self) -> dict:
        names = (
            "d_model encoder_layers decoder_layers encoder_attention_heads decoder_attention_heads encoder_ffn_dim "
            "decoder_ffn_dim activation_function scale_embedding share_encoder_decoder_embeddings vocab_size "
            "decoder_vocab_size max_position_embeddings pad_token_id bos_token_id eos_token_id decoder_start_token_id"
        ).split()
        return {
            "model_type": "marian",
            "architectures": ["MarianMTModel"],
            "is_encoder_decoder": True,
            "static_position_embeddings": True,
            "tie_word_embeddings": True,
            "dtype": "float16",
        } | {name: getattr(self.config, name) for name in names}

    def tensors(self) -> dict[str, Tensor]:
        left_out = set(self.model._keys_to_ignore_on_save) | set(self.model._tied_weights_keys)
        return {name: value for name, value in self.model.state_dict().items() if name not in left_out}


def make_model(preset: str, vocab_size: int) -> Recurrent | Transformer:
    return Transformer(vocab_size) if preset == "transformer" else Recurrent(preset, vocab_size)


class CopyTask:
    tokenizer = characters.build(DIGITS, folded=False)

    def draw(self, rng: random.Random, progress: float) -> tuple[str, str]:
        text = copying.draw(rng, rng.randint(1, copying.longest(progress)))
        return text, text

    def probe(self) -> list[tuple[str, str]]:
        lines = copying.evaluation_lines()
        return [(line, line) for line in lines]


class DateTask:
    tokenizer = characters.build(DATE_CHARACTERS, folded=True)

    def __init__(self):
        self.days = dates.training_days()

    def draw(self, rng: random.Random, progress: float) -> tuple[str, str]:
        sample = dates.draw(rng, rng.choice(dates.FORMS), rng.choice(self.days))
        return sample.text, sample.iso

    def probe(self) -> list[tuple[str, str]]:
        return [(sample.text, sample.iso) for sample in dates.evaluation_samples(600)]


TASKS = {"copy": CopyTask, "date": DateTask}


def padded(rows: list[list[int]], fill: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows])


def batches(task: CopyTask | DateTask, size: int, rng: random.Random, progress: float):
    """(source, lengths, read, written) with tokens of like length together."""
    drawn = [task.draw(rng, progress) for _ in range(BUCKETS * size)]
    encode = task.tokenizer.encode_batch
    pairs = [
        (a.ids, b.ids) for a, b in zip(encode([source for source, _ in drawn]), encode([target for _, target in drawn]))
    ]
    pairs.sort(key=lambda pair: len(pair[0]))
    groups = [pairs[i : i + size] for i in range(0, len(pairs), size)]
    rng.shuffle(groups)
    for group in groups:
        sources, written = [pair[0] for pair in group], [pair[1] for pair in group]
        read = [[characters.START, *row[:-1]] for row in written]
        lengths = torch.tensor([len(row) for row in sources])
        yield padded(sources, characters.PAD), lengths, padded(read, characters.PAD), padded(written, -100)


def translate(model: Recurrent | Transformer, tokenizer, texts: list[str], size: int = 100) -> list[str]:
    """Greedy, in the order given."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    results = [""] * len(texts)
    for first in range(0, len(order), size):
        chosen = order[first : first + size]
        rows = [encoding.ids for encoding in tokenizer.encode_batch([texts[i] for i in chosen])]
        lengths = torch.tensor([len(row) for row in rows])
        for i, row in zip(chosen, model.greedy(padded(rows, characters.PAD), lengths)):
            results[i] = tokenizer.decode(row, skip_special_tokens=True)
    return results


def exact_match(model, tokenizer, lines: list[tuple[str, str]]) -> dict[str, float]:
    """By source length in steps of five characters, and over all."""
    groups: dict[str, list[bool]] = {}
    for (source, target), found in zip(lines, translate(model, tokenizer, [source for source, _ in lines])):
        groups.setdefault(f"{(len(source) + 4) // 5 * 5}", []).append(found == target)
    hits = [hit for group in groups.values() for hit in group]
    result = {name: sum(group) / len(group) for name, group in sorted(groups.items(), key=lambda item: int(item[0]))}
    return result | {"all": sum(hits) / len(hits)}


def write_json(path: Path, value) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def export(model: Recurrent | Transformer, task: CopyTask | DateTask, out: Path) -> None:
    """Rounds the model's own weights to float16, too, so that what is scored afterwards is what was written."""
    out.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().half().contiguous() for name, value in model.tensors().items()}
    model.model.load_state_dict({name: value.float() for name, value in tensors.items()}, strict=False)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    write_json(out / "config.json", model.fields())
    write_json(
        out / "generation_config.json",
        {
            "decoder_start_token_id": characters.START,
            "eos_token_id": characters.END,
            "pad_token_id": characters.PAD,
            "num_beams": 1,
            "max_length": MAX_LENGTH,
        },
    )
    task.tokenizer.save(str(out / "tokenizer.json"))
    write_json(out / "tokenizer_config.json", characters.TOKENIZER_CONFIG)


def learning_rate(step: int, args: argparse.Namespace) -> float:
    falling = (args.steps - step) / (args.steps * 0.4)
    return args.lr * min(1.0, (step + 1) / args.warmup, max(falling, 0.0))


def train(args: argparse.Namespace) -> None:
    if args.lr is None:
        args.lr = 1.5e-3 if args.preset == "transformer" else 3e-3
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    task = TASKS[args.task]()
    model = make_model(args.preset, task.tokenizer.get_vocab_size())
    weights = sum(value.numel() for value in model.tensors().values())
    print(f"{args.task}/{args.preset}: {weights} weights", flush=True)
    rng = random.Random(args.seed)
    optimizer = torch.optim.AdamW(model.model.parameters(), lr=args.lr, betas=(0.9, 0.98), weight_decay=0.01)
    step, seen, total, began = 0, 0, 0.0, time.time()
    while step < args.steps:
        for source, lengths, read, written in batches(task, args.batch, rng, step / args.steps):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, args)
            logits = model.logits(source, lengths, read)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), written.flatten(), ignore_index=-100)
            loss.backward()
            nn.utils.clip_grad_norm_(model.model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            step, seen, total = step + 1, seen + 1, total + loss.item()
            if step % 100 == 0:
                rate = seen / (time.time() - began)
                print(
                    f"step {step:6}  loss {total / 100:.4f}  {rate:5.1f} steps/s  "
                    f"{(args.steps - step) / rate / 60:5.1f} min left",
                    flush=True,
                )
                total = 0.0
            if step == args.steps:
                break
    model.model.eval()
    export(model, task, args.out)
    scores = exact_match(model, task.tokenizer, task.probe())
    report = {"weights": weights, "steps": args.steps, "seconds": round(time.time() - began), "exact_match": scores}
    print(json.dumps(report), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--preset", choices=PRESETS, required=True)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, help="peak learning rate (default: 3e-3, of the transformer 1.5e-3)")
    parser.add_argument("--warmup", type=int, default=200, help="steps (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: %(default)s)")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
