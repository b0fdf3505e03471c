#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes multi_token/*/: tiny random models with a head that guesses the token after the next one (multi-token prediction: DeepSeek-AI 2024,
arXiv 2412.19437, section 2.2), and multi_token/*.gguf, the same as GGUF files.

    python3 tests/goldens/make_multi_token.py [--out DIR] [case ...]

Made with transformers 5.12.1, which has the layers and passes over the heads, and gguf 0.19.0. A head is trained for some seconds to choose as
its model does, so that it is right at times. golden.safetensors has the model's hidden states and, of the tokens but for the first, the head's
logits and what it hands on: its hidden state behind its last norm, as it is handed the model's (vLLM and SGLang do so, too). "second_logits" are
of its own choice behind the last token, by its own hidden state; "right", of the tokens that generate() gives but for the first, is 1 where it
would have guessed them.
"""

import argparse
import json
import pathlib
import shutil
import warnings

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek
from transformers.models.glm4_moe import modeling_glm4_moe as glm
from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen35
from transformers.models.qwen3_next import modeling_qwen3_next as next3

import make_decoders
import make_deepseek
import make_gguf_decoders
import make_gguf_newer_decoders
import make_hybrids
from make_decoders import Case, llama_like
from make_granite import make_double

MODULES = {"deepseek_v3": (deepseek, "DeepseekV3"), "glm4_moe": (glm, "Glm4Moe"), "qwen3_5_text": (qwen35, "Qwen3_5"), "qwen3_next": (next3, "Qwen3Next")}
NAMES = {  # of the head's parts, and where its layer is
    "deepseek": {"token_norm": "enorm", "hidden_norm": "hnorm", "projection": "eh_proj", "layer": "", "norm": "shared_head.norm"},
    "qwen": {"token_norm": "pre_fc_norm_embedding", "hidden_norm": "pre_fc_norm_hidden", "projection": "fc", "layer": "layers.0", "norm": "norm"},
}
ARCHITECTURES = {"deepseek_v3": "deepseek2", "qwen3_5": "qwen35", "qwen3_next": "qwen3next"}
QWEN_TO_GGUF = {"pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "fc": "eh_proj", "norm": "shared_head.norm"}
NEXTN = {name: "nextn." + name for name in ("enorm", "hnorm", "eh_proj", "embed_tokens")}
NEXTN |= {"shared_head.norm": "nextn.shared_head_norm", "shared_head.head": "nextn.shared_head_head"}


def cases():
    t = transformers
    yarn = dict(rope_type="yarn", rope_theta=150.0, factor=4.0, beta_fast=4, beta_slow=1, original_max_position_embeddings=32)
    yield Case("deepseek_v3", 7, make_deepseek.config(t.DeepseekV3Config, 3, 22, 2, 10, 13, 6, 4, 5, 5, 2, 9, 1, n_group=1, topk_group=1,
                                                      first_k_dense_replace=1, rope_parameters=yarn | dict(mscale=1.0, mscale_all_dim=1.0)),
               torch.bfloat16, std=0.25)  # fmt: skip
    yield Case("glm4_moe", 11, llama_like(t.Glm4MoeConfig, 4, 2, 8, 24, 20, 2, use_qk_norm=True, attention_bias=True, partial_rotary_factor=0.5,
                                          n_routed_experts=5, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=9, n_group=1,
                                          topk_group=1, first_k_dense_replace=1), torch.float32, std=0.25)  # fmt: skip
    delta = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=6)
    types = dict(layer_types=["linear_attention", "full_attention"])
    turned = dict(rope_parameters=make_hybrids.rope(1e5, partial_rotary_factor=0.5))
    yield Case("qwen3_5", 21, llama_like(t.Qwen3_5TextConfig, 2, 1, 8, 26, 31, 2, tie_word_embeddings=True, **turned, **types, **delta),
               torch.float32, std=0.25)  # fmt: skip
    experts = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=9, shared_expert_intermediate_size=10, mlp_only_layers=[0])
    yield Case("qwen3_next", 31, llama_like(t.Qwen3NextConfig, 2, 2, 8, 24, 20, 2, **turned, **types, **delta, **experts),
               torch.float32, std=0.25)  # fmt: skip


class Head(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        config = model.config
        module, prefix = MODULES[config.model_type]
        is_third = module in (deepseek, glm)
        norm = getattr(module, prefix + "RMSNorm")
        self.token_norm, self.hidden_norm, self.norm = (norm(config.hidden_size, eps=config.rms_norm_eps) for _ in range(3))
        self.projection = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        index = config.num_hidden_layers if is_third else config.layer_types.index("full_attention")
        self.layer = getattr(module, prefix + "DecoderLayer")(config, index)
        self.rotary = model.model.rotary_emb
        self.tables = [model.get_input_embeddings(), model.get_output_embeddings()]  # the model's, no parameters of the head

    def forward(self, hidden, tokens):
        """What is handed on of tokens [batch, len], with the hidden states of those before them."""
        x = self.projection(torch.cat([self.token_norm(self.tables[0](tokens)), self.hidden_norm(hidden)], dim=-1))
        len = x.shape[1]
        positions = torch.arange(len)[None].expand(x.shape[0], len)
        mask = torch.full((len, len), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)[None, None]
        x = self.layer(x, attention_mask=mask, position_ids=positions, position_embeddings=self.rotary(x, positions))
        return self.norm(x[0] if isinstance(x, tuple) else x)

    def logits(self, handed):
        return self.tables[1](handed)


def hidden_of(model, tokens):
    output = model.model(tokens)
    return output.last_hidden_state, model.get_output_embeddings()(output.last_hidden_state)


def train(model, head, case, folder, steps=200):
    """On what the model says itself, and on half of what it says in the golden."""
    torch.manual_seed(case.seed)
    tokens = torch.randint(0, case.config.vocab_size, (24, 3))
    with torch.no_grad():
        while tokens.shape[1] < 40:
            tokens = torch.cat([tokens, model(tokens).logits[:, -1:].argmax(-1)], dim=1)
        golden = json.loads((folder / "greedy.json").read_text())
        text = torch.tensor([golden["prompt"] + golden["continuation"][: len(golden["continuation"]) // 2]])
        texts = [(t, *hidden_of(model, t)) for t in (tokens, text)]
    for name, p in head.layer.named_parameters():
        with torch.no_grad():
            p.normal_(1.0 if p.dim() == 1 and isinstance(head.norm, (deepseek.DeepseekV3RMSNorm, glm.Glm4MoeRMSNorm)) else 0.0, case.std / 2)
    optimizer = torch.optim.AdamW(head.parameters(), lr=0.01, weight_decay=0.5)
    for _ in range(steps):
        loss = 0
        for tokens, hidden, logits in texts:
            guesses = head.logits(head(hidden[:, :-1], tokens[:, 1:]))
            loss = loss + F.cross_entropy(guesses.flatten(0, 1), logits[:, 1:].argmax(-1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def route_margins(*roots):
    """By how much routers choose as they do, of all that is computed afterwards."""
    margins = []
    for root in roots:
        for module in root.modules():
            if hasattr(module, "gate") and hasattr(module, "experts"):
                def look(gate, inputs, mlp=module):
                    x = inputs[0].flatten(0, -2) @ gate.weight.T
                    if hasattr(gate, "e_score_correction_bias"):
                        margins.append(make_deepseek.choice_margin(mlp, x))
                    else:
                        margins.append(make_deepseek.gaps(x.softmax(-1), gate.top_k))
                module.gate.register_forward_pre_hook(look)
    return margins


def parts_of(head, names):
    """The head's tensors by the names that files have, experts one by one."""
    for name, p in [*head.named_parameters(), *head.named_buffers()]:
        part, _, rest = name.partition(".")
        if part == "rotary":
            continue
        stem = ".".join(filter(None, [names[part], rest]))
        if stem.endswith("experts.gate_up_proj"):
            for e, both in enumerate(p):
                for which, rows in zip(("gate_proj", "up_proj"), both.chunk(2)):
                    yield stem.replace("gate_up_proj", f"{e}.{which}.weight"), rows
        elif stem.endswith("experts.down_proj"):
            for e, rows in enumerate(p):
                yield stem.replace("down_proj", f"{e}.down_proj.weight"), rows
        else:
            yield stem, p


def add_to_folder(folder, case, head):
    is_third = case.config.model_type in ("deepseek_v3", "glm4_moe")
    layer = f"model.layers.{case.config.num_hidden_layers}."
    tensors = load_file(folder / "model.safetensors")
    for name, p in parts_of(head, NAMES["deepseek" if is_third else "qwen"]):
        tensors[(layer if is_third else "mtp.") + name] = p.detach().to(case.dtype).contiguous().clone()
    if is_third:  # the model's own tables, as files of DeepSeek have them again
        tensors[layer + "embed_tokens.weight"] = tensors["model.embed_tokens.weight"].clone()
        tensors[layer + "shared_head.head.weight"] = tensors["lm_head.weight"].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["num_nextn_predict_layers" if is_third else "mtp_num_hidden_layers"] = 1
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def write_golden(folder, case, head):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                                              experts_implementation="eager").eval()  # fmt: skip
    stored = head.state_dict()
    head = Head(model).double().eval()
    head.load_state_dict({name: p.to(case.dtype).double() for name, p in stored.items()}, strict=False)
    margins = route_margins(model, head)
    ids = torch.randint(0, case.config.vocab_size, (1, case.len), generator=torch.Generator().manual_seed(case.seed))
    with torch.no_grad():
        states = hidden = hidden_of(model, ids)[0]
        handed = head(hidden[:, :-1], ids[:, 1:])
        logits = head.logits(handed)
        chosen = logits[:, -1:].argmax(-1)
        # The hidden state that it hands on itself is that of the last token.
        second = head.logits(head(torch.cat([hidden[:, :-1], handed[:, -1:]], dim=1), torch.cat([ids[:, 1:], chosen], dim=1))[:, -1:])
    least = min(margins, default=1.0)
    greedy = json.loads((folder / "greedy.json").read_text())
    text = torch.tensor([greedy["prompt"] + greedy["continuation"]])
    with torch.no_grad():
        hidden, _ = hidden_of(model, text)
        guesses = head.logits(head(hidden[:, :-2], text[:, 1:-1])).argmax(-1)
    right = (guesses == text[:, 2:])[0, len(greedy["prompt"]) - 1 :].long()
    share = right.double().mean().item()
    print(f"{case.name}: margin {least:.4f}, right of what generate() says: {share:.2f}")
    assert least > 0.002 and 0.3 < share < 0.9
    tensors = {"input_ids": ids, "hidden": states, "logits": logits, "handed": handed, "second_logits": second, "right": right}
    save_file(tensors, folder / "golden.safetensors")


def write_gguf(folder, case, out):
    """Tensors of Qwen's heads are renamed as DeepSeek's, which the converter does. What it makes of GLM's is taken as it is."""
    if case.name not in ARCHITECTURES:
        return make_gguf_newer_decoders.convert(folder, out / f"{case.name}.gguf")
    layers = case.config.num_hidden_layers

    def as_file(config, weights):
        renamed = {}
        for name, tensor in weights.items():
            if name.startswith("mtp.layers.0."):
                name = name.replace("mtp.layers.0", f"model.layers.{layers}")
            elif name.startswith("mtp."):
                stem, kind = name.removeprefix("mtp.").rsplit(".", 1)
                name = f"model.layers.{layers}.{QWEN_TO_GGUF[stem]}.{kind}"
            renamed[name] = tensor
        return config | {"num_hidden_layers": layers + 1, "nextn": 1}, renamed

    make_gguf_decoders.LLAMA_NAMES.update(NEXTN)
    make_gguf_decoders.write(case.name, ARCHITECTURES[case.name], out, folder, as_file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "multi_token")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    make_double(deepseek, "DeepseekV3TopkRouter", "forward")
    make_double(glm, "Glm4MoeTopkRouter", "forward")
    for module in (qwen35, next3):
        make_hybrids.make_double(module)
    make_deepseek.published_attention(deepseek.DeepseekV3Attention)
    for case in cases():
        if args.cases and case.name not in args.cases:
            continue
        folder = args.out / case.name
        make = make_hybrids.make_model if case.name.startswith("qwen") else make_deepseek.make_model
        shutil.rmtree(folder, ignore_errors=True)
        make_decoders.write(case, folder, make, experts_implementation="eager")
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                                                  experts_implementation="eager").eval().requires_grad_(False)  # fmt: skip
        torch.manual_seed(case.seed)
        head = Head(model).double()
        train(model, head, case, folder)
        add_to_folder(folder, case, head)
        write_golden(folder, case, head)
        write_gguf(folder, case, args.out)


if __name__ == "__main__":
    main()
