#!/usr/bin/env python3
"""Writes marian/<case>/: tiny random MarianMTModel folders, their forward passes and what generate() makes of them.

    python3 tests/goldens/make_marian.py [--out DIR] [case ...]

The weights are drawn large and then trained for a moment, so that outputs vary and end at different lengths; they are float32 in
the file, and the reference runs them in float64. See README.md for the versions and the format.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import warnings

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file
from transformers import LogitsProcessor, LogitsProcessorList, MarianConfig, MarianMTModel

MAX_LENGTH = 12
TRAINING_STEPS = 400
INPUT_TRIES = 5  # input batches tried per beam count; the one whose options lead to the most different results is kept
NOISE_LEVELS = (1e-3, 3e-3, 1e-2)  # half widths of the uniform noise that a recorded result must (first) or may survive
NOISE_TRIALS = 3


@dataclasses.dataclass
class Case:
    """One tiny model. `config` goes to MarianConfig as it is; `lengths` are the source lengths of the padded batch."""

    name: str
    seed: int
    config: dict
    lengths: tuple
    decoder_length: int
    weight_std: float = 0.25
    holes: bool = False  # the attention mask has left padding and holes instead of right padding
    generation: dict = dataclasses.field(default_factory=dict)  # extra fields of generation_config.json


def sizes(d_model, encoder, decoder, vocab, activation, **others):
    """encoder and decoder are (layers, heads, ffn_dim)."""
    return dict(
        d_model=d_model,
        encoder_layers=encoder[0],
        encoder_attention_heads=encoder[1],
        encoder_ffn_dim=encoder[2],
        decoder_layers=decoder[0],
        decoder_attention_heads=decoder[1],
        decoder_ffn_dim=decoder[2],
        vocab_size=vocab,
        activation_function=activation,
        max_position_embeddings=32,
        forced_eos_token_id=None,
        **{"eos_token_id": 0, "pad_token_id": vocab - 1, "decoder_start_token_id": vocab - 1} | others,
    )


CASES = [
    Case("relu_d30_h5_h3", 101, sizes(30, (2, 5, 37), (1, 3, 41), 53, "relu", scale_embedding=True), (7, 4, 1), 6),
    Case(
        "gelu_d21_h3_h7_untied",
        102,
        sizes(21, (1, 3, 29), (2, 7, 23), 53, "gelu", scale_embedding=False, tie_word_embeddings=False),
        (5, 9),
        7,
    ),
    Case(
        "swish_d64_h4_opus",
        103,
        sizes(64, (2, 4, 48), (1, 4, 40), 101, "swish", scale_embedding=True),
        (11, 6, 3, 8),
        5,
        generation={
            "bad_words_ids": [[100]],
            "renormalize_logits": True,
            "num_beams": 4,
            "max_length": MAX_LENGTH,
            "forced_eos_token_id": 0,
            "bos_token_id": 0,
        },
    ),
    Case(
        "gelu_new_d24_h2_h8_unshared",
        104,
        sizes(
            24,
            (1, 2, 33),
            (3, 8, 17),
            61,
            "gelu_new",
            scale_embedding=True,
            share_encoder_decoder_embeddings=False,
            decoder_vocab_size=61,
        ),
        (3, 8, 5),
        1,
    ),
    Case(
        "silu_d20_h4_h2_two_vocabularies",
        105,
        sizes(
            20,
            (3, 4, 31),
            (1, 2, 45),
            53,
            "silu",
            scale_embedding=False,
            share_encoder_decoder_embeddings=False,
            decoder_vocab_size=47,
            tie_word_embeddings=False,
            pad_token_id=46,
            decoder_start_token_id=46,
        ),
        (2, 6),
        9,
    ),
    Case(
        "relu_d16_h1_h2_holes",
        106,
        sizes(
            16,
            (1, 1, 19),
            (2, 2, 27),
            37,
            "relu",
            scale_embedding=True,
            pad_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=3,
            bos_token_id=5,
        ),
        (9, 9, 9),
        8,
        holes=True,
    ),
]


def random_model(case):
    """A model whose arithmetic shows: no weight near zero or one by convention, every bias in use."""
    config = MarianConfig(**case.config)
    model = MarianMTModel(config)
    generator = torch.Generator().manual_seed(case.seed)

    def normal(tensor, std, mean=0.0):
        tensor.copy_(mean + std * torch.randn(tensor.shape, generator=generator))

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:
                continue
            elif "layer_norm" in name:
                normal(parameter, *((0.2, 1.0) if name.endswith("weight") else (0.1,)))
            elif name.endswith(("q_proj.weight", "k_proj.weight")):
                normal(parameter, config.d_model**-0.5)  # scores of deviation 1: neither uniform nor one-hot weights
            elif "shared" in name or "embed_tokens" in name:
                normal(parameter, 0.35 if config.scale_embedding else 0.7)
            else:
                normal(parameter, case.weight_std if name.endswith("weight") else 0.1)
        normal(model.final_logits_bias, 0.5)
    for field, value in case.generation.items():
        setattr(model.generation_config, field, value)
    return model


def padded_batch(rng, case, lengths):
    """Ids of [batch, max(lengths)] and their mask: pad after each row, or (holes) pad before and gaps inside."""
    pad = case.config["pad_token_id"]
    ids = rng.integers(4, case.config["vocab_size"] - 1, (len(lengths), max(lengths)))
    mask = np.zeros_like(ids)
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
        ids[row, length - 1] = case.config["eos_token_id"]
    if case.holes:
        mask[0, :3] = 0
        mask[1, [1, 4, 5]] = 0
        mask[2, [0, 8]] = 0
    ids[mask == 0] = pad
    return torch.from_numpy(ids), torch.from_numpy(mask)


def train(model, case):
    """A moment of training on a noisy word-for-word mapping. Untrained models repeat one token for ever; this one answers to its
    source, doubts (a quarter of the targets are random) and is unsure where to stop (a quarter of the targets are cut short).
    """
    rng = np.random.default_rng([case.seed, 1])
    source_vocab, target_vocab = case.config["vocab_size"], model.final_logits_bias.shape[1]
    mapping = rng.integers(4, target_vocab - 1, source_vocab)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for _ in range(TRAINING_STEPS):
        lengths = rng.integers(1, 9, 32)
        ids, mask = padded_batch(rng, dataclasses.replace(case, holes=False), lengths)
        labels = np.full(ids.shape, -100)
        for row, length in enumerate(lengths):
            target = mapping[ids[row, : length - 1].numpy()]
            target = np.where(rng.random(length - 1) < 0.25, rng.integers(4, target_vocab - 1, length - 1), target)
            if rng.random() < 0.25:
                target = target[: rng.integers(0, length)]
            labels[row, : len(target)] = target
            labels[row, len(target)] = case.config["eos_token_id"]
        labels = torch.from_numpy(labels)
        start = torch.full((len(lengths), 1), case.config["decoder_start_token_id"])
        logits = model(
            input_ids=ids, attention_mask=mask, decoder_input_ids=torch.cat([start, labels[:, :-1].clamp(min=0)], 1)
        ).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def forward_golden(model, case, out):
    rng = np.random.default_rng(case.seed)
    ids, mask = padded_batch(rng, case, case.lengths)
    target_vocab = model.final_logits_bias.shape[1]
    decoder_ids = torch.from_numpy(rng.integers(4, target_vocab, (len(case.lengths), case.decoder_length)))
    decoder_ids[:, 0] = case.config["decoder_start_token_id"]
    if case.decoder_length > 3:
        decoder_ids[-1, -2:] = case.config["pad_token_id"]  # an ordinary token to the decoder: nothing masks it
    with torch.no_grad():
        result = model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids, output_attentions=True)
    tensors = {
        "input_ids": ids,
        "attention_mask": mask,
        "decoder_input_ids": decoder_ids,
        "logits": result.logits,
        "encoder_last_hidden_state": result.encoder_last_hidden_state,
        "cross_attentions.0": result.cross_attentions[0],
        "encoder_attentions.0": result.encoder_attentions[0],
        "decoder_attentions.0": result.decoder_attentions[0],
    }
    assert result.logits.dtype == torch.float64
    save_file({name: tensor.contiguous().numpy() for name, tensor in tensors.items()}, out / "golden.safetensors")


class Noise(LogitsProcessor):
    def __init__(self, half_width, seed):
        self.half_width, self.generator = half_width, torch.Generator().manual_seed(seed)

    def __call__(self, input_ids, scores):
        return scores + self.half_width * (2 * torch.rand(scores.shape, generator=self.generator) - 1)


def run_generate(model, ids, mask, options, noise=None):
    result = model.generate(
        input_ids=ids,
        attention_mask=mask,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        logits_processor=LogitsProcessorList([noise] if noise else []),
        **options,
    )
    scores = result.sequences_scores.tolist() if options.get("num_beams", 1) > 1 else None
    return result.sequences.tolist(), scores


def margin(model, ids, mask, options, sequences):
    """The largest noise on the scores, of those tried, that leaves the result as it is; 0 if none does."""
    survived = 0.0
    for level in NOISE_LEVELS:
        for trial in range(NOISE_TRIALS):
            if run_generate(model, ids, mask, options, Noise(level, trial))[0] != sequences:
                return survived
        survived = level
    return survived


def option_sets(case, beams, target_vocab):
    """What is asked of one beam count: penalties and early stopping crossed sparsely, forced and banned tokens on top."""
    eos, free = case.config["eos_token_id"], 7
    length = {"max_length": MAX_LENGTH}
    plain = {"forced_bos_token_id": None, "forced_eos_token_id": None, "bad_words_ids": None}
    if case.generation.get("renormalize_logits"):
        plain["renormalize_logits"] = True
    if beams == 1:
        base = {"num_beams": 1} | length | plain
        yield base
        yield base | {"forced_eos_token_id": eos}
        yield base | {"forced_bos_token_id": free, "bad_words_ids": [[9], [free], [target_vocab - 1]]}
        new_tokens = {k: v for k, v in base.items() if k != "max_length"} | {"max_new_tokens": 5}
        yield new_tokens
        yield new_tokens | {"max_new_tokens": 1, "forced_eos_token_id": eos, "forced_bos_token_id": free}
        return
    penalties = [0.0, 0.6, 1.0, 2.0, -1.0]
    stops = [True, False, "never"]
    pairs = [(p, s) for i, p in enumerate(penalties) for j, s in enumerate(stops) if (i + j + beams) % 2 == 0]
    for penalty, stop in pairs:
        yield {"num_beams": beams, "length_penalty": penalty, "early_stopping": stop} | length | plain
    base = {"num_beams": beams, "length_penalty": 1.0, "early_stopping": beams % 2 == 0} | length | plain
    yield base | {"forced_eos_token_id": eos, "max_length": 8}
    yield base | {
        "forced_bos_token_id": free,
        "forced_eos_token_id": eos,
        "bad_words_ids": [[free], [11], [target_vocab - 1]],
    }
    yield base | {"bad_words_ids": [[eos]], "max_length": 6}  # a ban of eos alone is dropped by generate()
    yield {k: v for k, v in base.items() if k != "max_length"} | {"max_new_tokens": 4, "length_penalty": 0.6}


def generate_golden(model, case, out):
    target_vocab = model.final_logits_bias.shape[1]
    model.config.vocab_size = target_vocab  # the beam search reads its row width here, wrong for two vocabularies
    entries = []
    for beams in (1, 2, 3, 4, 5):
        best = None
        for attempt in range(INPUT_TRIES):
            rng = np.random.default_rng([case.seed, beams, attempt])
            lengths = (9, 9, 9) if case.holes else tuple(rng.permutation([9, 6, 2])[: 2 + beams % 2])
            ids, mask = padded_batch(rng, case, lengths)
            results = [(o, *run_generate(model, ids, mask, o)) for o in option_sets(case, beams, target_vocab)]
            rows = [row for _, sequences, _ in results for row in sequences]
            variety = len({tuple(row) for row in rows}) + len({end(row, case) for row in rows})
            if best is None or variety > best[0]:
                best = (variety, ids, mask, results)
        _, ids, mask, results = best
        for options, sequences, scores in results:
            robust_to = margin(model, ids, mask, options, sequences)
            if robust_to == 0.0:
                continue  # two hypotheses lie within 1e-3: float32 need not agree
            entry = {
                "input_ids": ids.tolist(),
                "attention_mask": mask.tolist(),
                "options": options,
                "sequences": sequences,
            }
            if scores is not None:
                entry["sequences_scores"] = scores
            entries.append(entry | {"robust_to": robust_to})
    if case.generation:
        sequences, _ = run_generate(model, ids, mask, {})
        scores = run_generate(model, ids, mask, {"num_beams": case.generation["num_beams"]})[1]
        robust_to = margin(model, ids, mask, {}, sequences)
        assert robust_to > 0
        entries.append(
            {
                "input_ids": ids.tolist(),
                "attention_mask": mask.tolist(),
                "options": {},
                "sequences": sequences,
                "sequences_scores": scores,
                "robust_to": robust_to,
            }
        )
    summary(case, entries)
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    (out / "generate.json").write_text(f"[\n{lines}\n]\n")


def end(row, case):
    """Where a sequence ends by eos; 0 if it does not."""
    eos = case.config["eos_token_id"]
    return row.index(eos, 1) if eos in row[1:] else 0


def summary(case, entries):
    ends = [end(row, case) for entry in entries for row in entry["sequences"]]
    different = len({tuple(row) for entry in entries for row in entry["sequences"]})
    print(
        f"{case.name}: {len(entries)} generate entries, {different} different rows of {len(ends)}, eos at "
        f"{ {position: ends.count(position) for position in sorted(set(ends))} } (0: never); robust to "
        f"{ {level: sum(e['robust_to'] == level for e in entries) for level in NOISE_LEVELS} }",
        flush=True,
    )
    assert 0 in ends and len(set(ends)) > 3, "eos should come early, late and never"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "marian")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for case in CASES:
        if arguments.cases and case.name not in arguments.cases:
            continue
        out = arguments.out / case.name
        shutil.rmtree(out, ignore_errors=True)
        model = random_model(case).eval()
        train(model, case)
        model.save_pretrained(out)
        (out / "model.safetensors").chmod(0o644)
        model = MarianMTModel.from_pretrained(out, attn_implementation="eager").double().eval()
        forward_golden(model, case, out)
        generate_golden(model, case, out)


if __name__ == "__main__":
    main()
