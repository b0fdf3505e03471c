#!/usr/bin/env python3
"""Writes beam/bigrams.json: what Hugging Face generate returns for models whose logits depend on the last token alone.

    python3 tests/goldens/make_beam.py [--out DIR]

Such a model is one table [vocab, vocab], so that a test can hold beam search alone against the reference, without a Transformer.
Needs the versions of README.md. Ties are avoided: a case is kept if noise of ± 1e-4 on every logit leaves the sequences as they are.
"""
import argparse
import itertools
import json
import pathlib

import torch
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

EOS, PAD = 1, 2


class Bigrams(PreTrainedModel, GenerationMixin):
    config_class = PretrainedConfig
    main_input_name = "input_ids"

    def __init__(self, table):
        super().__init__(PretrainedConfig(vocab_size=table.shape[0], num_hidden_layers=1))
        self.table = torch.nn.Parameter(table)

    @classmethod
    def can_generate(cls):
        return True

    def prepare_inputs_for_generation(self, input_ids, **kwargs):
        return {"input_ids": input_ids}

    def forward(self, input_ids, attention_mask=None, return_dict=None):
        return CausalLMOutput(logits=self.table[input_ids])


def generate(table, starts, options):
    config = GenerationConfig(eos_token_id=EOS, pad_token_id=PAD, do_sample=False, use_cache=False, return_dict_in_generate=True,
                              output_scores=True, num_beams=options["beams"], max_new_tokens=options["max_steps"],
                              length_penalty=options["length_penalty"], early_stopping=options["early_stopping"])
    ids = torch.tensor(starts)[:, None]
    with torch.no_grad():
        result = Bigrams(table).generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
    sequences = []
    for row in result.sequences.tolist():
        tokens = row[1:]
        sequences.append(tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens)
    return sequences, result.sequences_scores.tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "beam")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    tables, cases, dropped = [], [], 0
    # temperature 1/spread, and how much the end token is favoured: from hypotheses that never end to many that end at once
    for seed, vocab, spread, bonus in ((1, 5, 1.0, 0.0), (2, 12, 1.5, 0.5), (3, 37, 2.5, 3.0), (4, 37, 1.0, 2.0), (5, 60, 3.0, -1.0)):
        g = torch.Generator().manual_seed(seed)
        table = spread * torch.randn(vocab, vocab, generator=g)
        table[:, EOS] += bonus
        table = (table * 1024).round() / 1024  # few digits in the file, exact in float32
        tables.append(table.tolist())
        combinations = itertools.product((2, 3, 4, 7), (1, 2, 9, 24), (1.0, 0.6, 0.0, 2.0, -0.5), (False, True, "never"))
        for beams, max_steps, length_penalty, early_stopping in itertools.islice(combinations, seed - 1, None, 7):
            options = {"beams": beams, "max_steps": max_steps, "length_penalty": length_penalty, "early_stopping": early_stopping}
            starts = [3, 0, 4]
            sequences, scores = generate(table, starts, options)
            noise = 1e-4 * (2 * torch.rand(table.shape, generator=g) - 1)
            if generate(table + noise, starts, options)[0] != sequences:
                dropped += 1
                continue
            cases.append({"table": len(tables) - 1, "starts": starts, **options, "sequences": sequences, "scores": scores})
    head = {"eos": EOS, "tables": tables}
    with open(out / "bigrams.json", "w") as file:
        file.write("{\n" + json.dumps(head)[1:-1] + ',\n"cases": [\n' + ",\n".join(map(json.dumps, cases)) + "\n]\n}\n")
    print(f"{len(cases)} cases, {dropped} dropped")


if __name__ == "__main__":
    main()
