"""Trains the date normaliser, a small MarianMT Transformer, and writes it as a Hugging Face folder.

    python train.py --out ../../samples/models/date-normalizer

Samples are made on the fly from `--seed`, so a run needs no data set and never sees a sample twice. The learning rate
warms up, stays, and falls linearly to zero over the last `--decay` share of the steps; the exported weights are an
exponential average. Every `--eval-every` steps held-out days are scored (greedy, exact match), the state is saved in
`--work`, and the folder is written again; `--resume` goes on from the saved state.
"""

import argparse
import random
import time
from pathlib import Path

import sentencepiece
import torch
from torch import nn
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

import dates
import folder
import tokens

MEGABATCH = 16  # batches that are drawn, sorted by length and cut together


def make_config(tokenizer: MarianTokenizer, args: argparse.Namespace) -> MarianConfig:
    """opus-mt's layout, small; post-norm, SiLU, static sinusoids, scaled shared embeddings; <pad> starts decoding."""
    return MarianConfig(
        vocab_size=len(tokenizer),
        decoder_vocab_size=len(tokenizer),
        d_model=args.width,
        scale_embedding=True,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.heads,
        decoder_attention_heads=args.heads,
        encoder_ffn_dim=args.ffn,
        decoder_ffn_dim=args.ffn,
        activation_function="swish",
        max_position_embeddings=128,
        dropout=args.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        share_encoder_decoder_embeddings=True,
        normalize_before=False,
        normalize_embedding=False,
        add_final_layer_norm=False,
        static_position_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
        forced_eos_token_id=tokenizer.eos_token_id,
    )


def make_model(config: MarianConfig) -> MarianMTModel:
    """Glorot weights, embeddings of unit size after scaling, a `final_logits_bias` that learns (not a buffer)."""
    model = MarianMTModel(config)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module is not model.lm_head:
            nn.init.xavier_uniform_(module.weight)
    nn.init.normal_(model.model.shared.weight, std=config.d_model**-0.5)
    bias = model.final_logits_bias
    del model.final_logits_bias
    model.final_logits_bias = nn.Parameter(bias)
    return model


class Sampler:
    """Batches of (input_ids, labels): a pure function of the seed and the index of the megabatch."""

    def __init__(self, tokenizer: MarianTokenizer, batch: int, seed: int):
        self.tokenizer, self.batch, self.seed = tokenizer, batch, seed
        self.days = dates.training_days()
        vocabulary = tokenizer.get_vocab()
        self.source = self._table(tokenizer.spm_source, vocabulary)
        self.target = self._table(tokenizer.spm_target, vocabulary)

    def _table(self, model, vocabulary: dict[str, int]) -> list[int]:
        return [
            vocabulary.get(model.id_to_piece(i), self.tokenizer.unk_token_id) for i in range(model.get_piece_size())
        ]

    def _encode(self, rng: random.Random) -> tuple[list[int], list[int]]:
        sample = dates.draw(rng, rng.choice(dates.FORMS), rng.choice(self.days))
        resample = rng.random() < 0.1  # another segmentation now and then, so that single letters are known too
        pieces = self.tokenizer.spm_source.encode(sample.text, enable_sampling=resample, alpha=0.2, nbest_size=-1)
        source = [self.source[i] for i in pieces] + [self.tokenizer.eos_token_id]
        target = [self.target[i] for i in self.tokenizer.spm_target.encode(sample.iso)] + [self.tokenizer.eos_token_id]
        return source, target

    def megabatch(self, index: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        rng = random.Random(f"{self.seed}/{index}")
        sentencepiece.set_random_generator_seed(rng.getrandbits(31))
        pairs = sorted((self._encode(rng) for _ in range(MEGABATCH * self.batch)), key=lambda pair: len(pair[0]))
        batches = [pairs[i : i + self.batch] for i in range(0, len(pairs), self.batch)]
        rng.shuffle(batches)
        pad = self.tokenizer.pad_token_id
        return [(_padded([s for s, _ in batch], pad), _padded([t for _, t in batch], -100)) for batch in batches]


def _padded(rows: list[list[int]], fill: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows])


def learning_rate(step: int, args: argparse.Namespace) -> float:
    """The peak times the warm-up and the linear end."""
    falling = (args.steps - step) / (args.steps * args.decay)
    return args.lr * min(1.0, (step + 1) / args.warmup, max(falling, 0.0))


def average_into(average: dict[str, torch.Tensor], model: nn.Module, step: int) -> None:
    keep = min(0.998, (step + 1) / (step + 20))
    for name, value in model.state_dict().items():
        average[name].lerp_(value, 1 - keep)


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    state_file = args.work / "state.pt"
    resume = args.resume and state_file.exists()
    if not resume:
        tokens.build(args.work / "tokenizer")
    tokenizer = MarianTokenizer.from_pretrained(args.work / "tokenizer")
    model = make_model(make_config(tokenizer, args))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=args.lr, betas=(0.9, 0.98), eps=1e-9, weight_decay=args.weight_decay
    )
    average = {name: value.detach().clone() for name, value in model.state_dict().items()}
    step = 0
    if resume:
        state = torch.load(state_file)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        average, step = state["average"], state["step"]
    print(
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(tokenizer)} pieces, "
        f"from step {step} to {args.steps}",
        flush=True,
    )

    sampler = Sampler(tokenizer, args.batch, args.seed)
    probe = dates.evaluation_samples(args.eval_count, seed=5)  # other draws than eval.tsv
    began, seen, total_loss = time.time(), 0, 0.0
    while step < args.steps:
        for inputs, labels in sampler.megabatch(step // MEGABATCH)[step % MEGABATCH :]:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, args)
            loss = model(input_ids=inputs, attention_mask=(inputs != tokenizer.pad_token_id).long(), labels=labels).loss
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            average_into(average, model, step)
            step, seen, total_loss = step + 1, seen + 1, total_loss + loss.item()
            if step % 50 == 0:
                seconds = time.time() - began
                left = (args.steps - step) * seconds / seen
                print(
                    f"step {step:6}  loss {total_loss / 50:.4f}  {seen / seconds:5.2f} steps/s  "
                    f"{left / 60:5.1f} min left",
                    flush=True,
                )
                total_loss = 0.0
            if step % args.eval_every == 0 or step == args.steps:
                exact = folder.export(args.out, tokenizer, model.config, average, probe)
                print(f"step {step:6}  held-out exact match {exact:.4f}", flush=True)
                torch.save(
                    {
                        "model": model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "average": average,
                        "step": step,
                    },
                    state_file,
                )
                model.train()
            if step >= args.steps:
                break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the Hugging Face folder to write")
    parser.add_argument(
        "--work", type=Path, default=Path("train-state"), help="where the resumable state lives (default: %(default)s)"
    )
    parser.add_argument("--resume", action="store_true", help="go on from --work")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3, help="peak learning rate (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=500, help="steps (default: %(default)s)")
    parser.add_argument(
        "--decay", type=float, default=0.4, help="share of the steps that the rate falls over (default: %(default)s)"
    )
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--width", type=int, default=128, help="d_model")
    parser.add_argument("--layers", type=int, default=2, help="of the encoder, and of the decoder")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--ffn", type=int, default=512)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--eval-every", type=int, default=500)
    parser.add_argument("--eval-count", type=int, default=340)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
