# SPDX-License-Identifier: MIT
"""Models that say what they are told to: each token has one successor, so that texts of all forms can be had without a download."""

import json
import math
from pathlib import Path
from typing import Any

HIDDEN = 512
UNKNOWN, END = 0, 1

#: Says what it was given where the system asks for it; else the last message's last token is the plan that is followed.
TEMPLATE = """\
{#- MARKER #}
{%- if messages[0].content == 'show' %}{{ raise_exception({'messages': messages, 'tools': tools} | tojson) }}{% endif %}
{%- if tools %}{{ '<|tools|>' }}{% endif %}
{%- for message in messages %}{{ message.content }}{% endfor %}
{%- if add_generation_prompt and messages[-1].role == 'assistant' %}{{ '<|again|>' }}{% endif %}"""


def _pieces(text: str, special: list[str], used: set[str]) -> list[str]:
    """The text as tokens that no other text has."""
    pieces: list[str] = []
    rest, least = text, 1
    while rest:
        found = next((token for token in special if rest.startswith(token)), None)
        sizes = [len(found)] if found else [size for size in range(least, len(rest) + 1) if rest[:size] not in used]
        if not sizes:  # the piece before takes it along
            assert pieces, f"{text!r} has no piece of its own"
            last = pieces.pop()
            used.remove(last)
            rest, least = last + rest, len(last) + 1
            continue
        pieces.append(rest[: sizes[0]])
        used.add(pieces[-1])
        rest, least = rest[sizes[0] :], 1
    return pieces


class Scripted:
    """A folder with a model that follows "<|name|>" by the text of that name."""

    def __init__(self, folder: Path, texts: dict[str, str], marker: str, special: tuple[str, ...] = (), decoder: Any = None) -> None:
        self.folder = folder
        self.decoder = decoder or {"type": "Fuse"}
        starts = ["<|tools|>", "<|again|>", *(f"<|{name}|>" for name in texts if name != "again")]
        used: set[str] = set()
        plans = {name: _pieces(text, list(special), used) for name, text in texts.items()}
        plain = [piece for plan in plans.values() for piece in plan if piece not in special]
        self.vocabulary = {token: i for i, token in enumerate(["<unk>", "</s>", *starts, *special, *plain])}
        assert len(self.vocabulary) <= HIDDEN
        self.successors = [END] * len(self.vocabulary)
        for name, plan in plans.items():
            before = self.vocabulary[f"<|{name}|>"]
            for piece in plan:
                self.successors[before] = self.vocabulary[piece]
                before = self.vocabulary[piece]
        self._write_text(["<unk>", "</s>", *starts, *special], marker)
        self._write_weights()

    def logits(self, token: int) -> list[float]:
        """Of what follows the token."""
        scale = math.sqrt(1 / (1 / HIDDEN + 1e-6))
        return [scale * self.weight(token, other) for other in range(len(self.vocabulary))]

    def weight(self, token: int, other: int) -> float:
        """The successor is likely, its neighbours less so."""
        distance = abs(self.successors[token] - other)
        return 1.0 if distance == 0 else 0.75 if distance == 1 else 0.5 if distance == 2 else 0.0

    def _write(self, name: str, value: Any) -> None:
        (self.folder / name).write_text(json.dumps(value, ensure_ascii=False))

    def _write_text(self, special: list[str], marker: str) -> None:
        plain = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        added = [{"id": i, "content": token, **plain} for i, token in enumerate(special)]
        model = {"type": "WordLevel", "vocab": self.vocabulary, "unk_token": "<unk>"}
        self._write("tokenizer.json", {"version": "1.0", "added_tokens": added, "decoder": self.decoder, "model": model})
        self._write("tokenizer_config.json", {"eos_token": "</s>", "unk_token": "<unk>"})
        self._write("generation_config.json", {"eos_token_id": END})
        (self.folder / "chat_template.jinja").write_text(TEMPLATE.replace("MARKER", marker))
        self._write(
            "config.json",
            {
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "hidden_size": HIDDEN,
                "intermediate_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 8,
                "num_key_value_heads": 1,
                "head_dim": 64,
                "hidden_act": "silu",
                "rms_norm_eps": 1e-6,
                "rope_theta": 10000.0,
                "max_position_embeddings": 1024,
                "vocab_size": len(self.vocabulary),
                "tie_word_embeddings": False,
            },
        )

    def _write_weights(self) -> None:
        """Attention and feed-forward add nothing: a token's embedding is a direction of its own, and the head reads its successor."""
        size = len(self.vocabulary)
        floats = {0.5: b"\x00\x38", 0.75: b"\x00\x3a", 1.0: b"\x00\x3c"}  # as float16
        embedding, head = bytearray(2 * size * HIDDEN), bytearray(2 * size * HIDDEN)
        for token in range(size):
            at = 2 * (token * HIDDEN + token)
            embedding[at : at + 2] = floats[1.0]
            for other in range(size):
                if weight := self.weight(token, other):
                    at = 2 * (other * HIDDEN + token)
                    head[at : at + 2] = floats[weight]
        layer = "model.layers.0."
        ones = floats[1.0] * HIDDEN
        tensors = {
            "model.embed_tokens.weight": ([size, HIDDEN], bytes(embedding)),
            "lm_head.weight": ([size, HIDDEN], bytes(head)),
            "model.norm.weight": ([HIDDEN], ones),
            layer + "input_layernorm.weight": ([HIDDEN], ones),
            layer + "post_attention_layernorm.weight": ([HIDDEN], ones),
            **{
                layer + name: (shape, bytes(2 * shape[0] * shape[1]))
                for name, shape in {
                    "self_attn.q_proj.weight": [HIDDEN, HIDDEN],
                    "self_attn.k_proj.weight": [64, HIDDEN],
                    "self_attn.v_proj.weight": [64, HIDDEN],
                    "self_attn.o_proj.weight": [HIDDEN, HIDDEN],
                    "mlp.gate_proj.weight": [32, HIDDEN],
                    "mlp.up_proj.weight": [32, HIDDEN],
                    "mlp.down_proj.weight": [HIDDEN, 32],
                }.items()
            },
        }
        header, data = {}, b""
        for name, (shape, content) in tensors.items():
            header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (self.folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
