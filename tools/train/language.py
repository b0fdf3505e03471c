"""Trains verse-writer, a small language model of Llama's layout, on the text of verses.py, and writes it as a Hugging
Face folder (float32), from which `vkformer convert --dtype q8_0` makes the GGUF file.

    python language.py --out ../../build/verse-writer

A row of a batch is the start token and what follows from the beginning of some verse, drawn from `--seed` and the
number of the step. The learning rate warms up, stays, and falls linearly to zero over the last `--decay` share of the
steps. Products are bfloat16, weights and sums float32. Every `--eval-every` steps the held-out chapters are scored, the
state is saved in `--work`, and the folder is written again; `--resume` goes on from the saved state.
"""

import argparse
import math
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from torch.nn import functional as F

import verses
from tokens import write_json

END = "<|endoftext|>"  # between chapters, and in front of every prompt
PIECES = (  # the pre-tokenizer that GGUF files call llama-bpe
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
EPSILON, BASE = 1e-5, 10000.0


# ---- tokens ---------------------------------------------------------------------------------------------------------


def make_tokenizer(texts: list[str], size: int) -> Tokenizer:
    """Byte-level BPE of `size` tokens, <|endoftext|> the first of them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PIECES), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, chapters: list[verses.Chapter]) -> list[list[int]]:
    """Each chapter's tokens, and the end."""
    end = tokenizer.token_to_id(END)
    return [[*tokenizer.encode(chapter.text, add_special_tokens=False).ids, end] for chapter in chapters]


class Sampler:
    """Batches of (input, target), each [batch, length]: a pure function of the seed and the step."""

    def __init__(self, tokenizer: Tokenizer, chapters: list[list[int]], args: argparse.Namespace):
        self.batch, self.length, self.seed = args.batch, args.length, args.seed
        self.end = tokenizer.token_to_id(END)
        stream = [token for chapter in chapters for token in chapter]
        breaks = {id for id in range(tokenizer.get_vocab_size()) if tokenizer.decode([id]).endswith("\n")} | {self.end}
        starts = [0] + [place + 1 for place, token in enumerate(stream) if token in breaks][:-1]
        self.starts = torch.tensor([start for start in starts if start + self.length <= len(stream)])
        self.stream = torch.tensor(stream)

    def draw(self, step: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        starts = self.starts[torch.randint(len(self.starts), (self.batch,), generator=generator)]
        targets = self.stream[starts[:, None] + torch.arange(self.length)]
        return F.pad(targets[:, :-1], (1, 0), value=self.end), targets


# ---- the model ------------------------------------------------------------------------------------------------------


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions, halves together as in the library: x is [batch, heads, length, width]."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Layer(nn.Module):
    def __init__(self, args: argparse.Namespace):
        super().__init__()
        self.heads, self.key_heads, self.dropout = args.heads, args.key_heads, args.dropout
        head = args.width // args.heads
        self.attention_norm = nn.RMSNorm(args.width, eps=EPSILON)
        self.query_key_value = nn.Linear(args.width, (args.heads + 2 * args.key_heads) * head, bias=False)
        self.output = nn.Linear(args.width, args.width, bias=False)
        self.ffn_norm = nn.RMSNorm(args.width, eps=EPSILON)
        self.gate_up = nn.Linear(args.width, 2 * args.ffn, bias=False)
        self.down = nn.Linear(args.ffn, args.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.query_key_value(self.attention_norm(x)).view(batch, length, -1, width // self.heads).transpose(1, 2)
        query, key, value = qkv.split((self.heads, self.key_heads, self.key_heads), dim=1)
        query, key = turned(query, cos, sin), turned(key, cos, sin)
        mixed = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=self.key_heads != self.heads
        )
        x = x + F.dropout(self.output(mixed.transpose(1, 2).reshape(batch, length, width)), self.dropout, self.training)
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, dim=-1)
        return x + F.dropout(self.down(F.silu(gate) * up), self.dropout, self.training)


class LanguageModel(nn.Module):
    """Llama with a tied output; its names and fused products are this file's own, see `hugging_face`."""

    def __init__(self, args: argparse.Namespace):
        super().__init__()
        self.dropout = args.dropout
        self.table = nn.Embedding(args.vocabulary, args.width)
        self.layers = nn.ModuleList(Layer(args) for _ in range(args.layers))
        self.norm = nn.RMSNorm(args.width, eps=EPSILON)
        half = args.width // args.heads // 2
        angles = torch.arange(args.length)[:, None] * BASE ** (-torch.arange(half) / half)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        nn.init.normal_(self.table.weight, std=0.02)
        for layer in self.layers:
            for linear in (layer.query_key_value, layer.gate_up):
                nn.init.normal_(linear.weight, std=args.width**-0.5)
            for linear in (layer.output, layer.down):  # those that add to the stream
                nn.init.normal_(linear.weight, std=(linear.in_features * 2 * args.layers) ** -0.5)

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
        cos, sin = self.cos[:length].to(dtype), self.sin[:length].to(dtype)
        x = F.dropout(self.table(ids), self.dropout, self.training)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.linear(self.norm(x), self.table.weight)


def loss_of(model: LanguageModel, inputs: Tensor, targets: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(inputs)
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


@torch.no_grad()
def nats(model: nn.Module, chapters: list[list[int]], end: int, length: int) -> float:
    """−log p of all tokens of the chapters, each from its start token on. Longer ones than `length` are read in windows
    that overlap by a half, so that all tokens but the first have that much before them.
    """
    total = 0.0
    for chapter in chapters:
        inputs, targets = torch.tensor([[end, *chapter[:-1]]]), torch.tensor(chapter)
        done = 0
        while done < len(chapter):
            start = max(0, done - length // 2)
            stop = min(start + length, len(chapter))
            logits = model(inputs[:, start:stop])[0, done - start :]
            total += F.cross_entropy(logits.double(), targets[done:stop], reduction="sum").item()
            done = stop
    return total


# ---- the folder -----------------------------------------------------------------------------------------------------


def hugging_face(model: LanguageModel, args: argparse.Namespace) -> dict[str, Tensor]:
    """The weights by the names of the library."""
    head = args.width // args.heads
    rows = [args.heads * head, args.key_heads * head, args.key_heads * head]
    tensors = {"model.embed_tokens.weight": model.table.weight, "model.norm.weight": model.norm.weight}
    for number, layer in enumerate(model.layers):
        query, key, value = layer.query_key_value.weight.split(rows)
        gate, up = layer.gate_up.weight.chunk(2)
        parts = {
            "input_layernorm": layer.attention_norm.weight,
            "self_attn.q_proj": query,
            "self_attn.k_proj": key,
            "self_attn.v_proj": value,
            "self_attn.o_proj": layer.output.weight,
            "post_attention_layernorm": layer.ffn_norm.weight,
            "mlp.gate_proj": gate,
            "mlp.up_proj": up,
            "mlp.down_proj": layer.down.weight,
        }
        tensors |= {f"model.layers.{number}.{name}.weight": value for name, value in parts.items()}
    return {name: value.detach().float().clone().contiguous() for name, value in tensors.items()}


def export(model: LanguageModel, tokenizer: Tokenizer, args: argparse.Namespace) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    end = tokenizer.token_to_id(END)
    save_file(hugging_face(model, args), args.out / "model.safetensors", metadata={"format": "pt"})
    write_json(
        args.out / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": False,
            "bos_token_id": end,
            "dtype": "float32",
            "eos_token_id": end,
            "head_dim": args.width // args.heads,
            "hidden_act": "silu",
            "hidden_size": args.width,
            "intermediate_size": args.ffn,
            "max_position_embeddings": args.length,
            "mlp_bias": False,
            "model_type": "llama",
            "num_attention_heads": args.heads,
            "num_hidden_layers": args.layers,
            "num_key_value_heads": args.key_heads,
            "rms_norm_eps": EPSILON,
            "rope_theta": BASE,
            "tie_word_embeddings": True,
            "vocab_size": args.vocabulary,
        },
    )
    written = Tokenizer.from_str(tokenizer.to_str())
    written.post_processor = processors.TemplateProcessing(
        single=f"{END} $A", pair=f"{END} $A {END} $B", special_tokens=[(END, end)]
    )
    written.save(str(args.out / "tokenizer.json"))
    write_json(
        args.out / "tokenizer_config.json",
        {
            "bos_token": END,
            "clean_up_tokenization_spaces": False,
            "eos_token": END,
            "model_max_length": args.length,
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )


# ---- the loop -------------------------------------------------------------------------------------------------------


def learning_rate(step: int, args: argparse.Namespace) -> float:
    """The peak times the warm-up and the linear end."""
    return args.lr * min(1.0, (step + 1) / args.warmup, (args.steps - step) / (args.steps * args.decay))


def make_optimizer(model: LanguageModel, args: argparse.Namespace) -> torch.optim.Optimizer:
    """Matrices decay, gains do not."""
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": args.weight_decay},
        {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), eps=1e-8, fused=True)


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    state_file = args.work / "state.pt"
    learnt, held_out = verses.split(verses.read(args.bible))
    tokenizer = make_tokenizer([chapter.text for chapter in learnt], args.vocabulary)
    end, characters = tokenizer.token_to_id(END), sum(len(chapter.text) for chapter in held_out)
    learnt, held_out = encode(tokenizer, learnt), encode(tokenizer, held_out)
    tokens, probe = sum(map(len, learnt)), sum(map(len, held_out))
    model = LanguageModel(args)
    optimizer = make_optimizer(model, args)
    step = 0
    if args.resume and state_file.exists():
        state = torch.load(state_file)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        step = state["step"]
    print(
        f"{sum(p.numel() for p in model.parameters()):,} weights, {tokens:,} tokens to learn from ("
        f"{args.steps * args.batch * args.length / tokens:.1f} times), {probe:,} held out, step {step} of {args.steps}",
        flush=True,
    )

    sampler = Sampler(tokenizer, learnt, args)
    began, seen, total = time.time(), 0, 0.0
    while step < args.steps:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        loss = loss_of(model, *sampler.draw(step))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step, seen, total = step + 1, seen + 1, total + loss.item()
        if step % 50 == 0:
            seconds = time.time() - began
            print(
                f"step {step:6}  loss {total / 50:.4f}  {seen * args.batch * args.length / seconds:5.0f} tokens/s  "
                f"{(args.steps - step) * seconds / seen / 60:5.1f} min left",
                flush=True,
            )
            total = 0.0
        if step % args.eval_every == 0 or step == args.steps:
            model.eval()
            found = nats(model, held_out, end, args.length)
            model.train()
            print(
                f"step {step:6}  held out: perplexity {math.exp(found / probe):.2f}, "
                f"{found / math.log(2) / characters:.4f} bits a character",
                flush=True,
            )
            export(model, tokenizer, args)
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "random": torch.get_rng_state(),
                    "step": step,
                },
                state_file,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the Hugging Face folder to write")
    parser.add_argument(
        "--work", type=Path, default=Path("train-state"), help="where the resumable state lives (default: %(default)s)"
    )
    parser.add_argument("--resume", action="store_true", help="go on from --work")
    parser.add_argument("--bible", default="bible", help="the program of verses.py (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=3600)
    parser.add_argument("--batch", type=int, default=4, help="rows (default: %(default)s)")
    parser.add_argument("--length", type=int, default=512, help="tokens of a row, the context (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=1.5e-3, help="peak learning rate (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=200, help="steps (default: %(default)s)")
    parser.add_argument(
        "--decay", type=float, default=0.5, help="share of the steps that the rate falls over (default: %(default)s)"
    )
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--vocabulary", type=int, default=2048, help="tokens (default: %(default)s)")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--key-heads", type=int, default=4)
    parser.add_argument("--ffn", type=int, default=704)
    parser.add_argument("--eval-every", type=int, default=500)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
