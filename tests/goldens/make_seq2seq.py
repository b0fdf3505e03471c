#!/usr/bin/env python3
"""Writes seq2seq/<case>/: small recurrent models with random weights, their forward passes and what generate() makes of them.

    python3 tests/goldens/make_seq2seq.py [--out DIR]

The model is tools/train/recurrent.py, which uses nn.LSTM and nn.GRU; greedy and beam search are those of transformers' generate(),
for which the model recomputes the whole decoder at every step. Weights are float32, everything is computed in float64.
golden.safetensors: input_ids, attention_mask, decoder_input_ids, logits, encoder_last_hidden_state, cross_attentions.0.
generate.json: as the Marian cases have it.
"""

import argparse
import json
import pathlib
import shutil
import sys
import warnings

import torch
import transformers
from safetensors.torch import save_file
from torch import nn
from transformers import GenerationConfig, LogitsProcessorList, PretrainedConfig, PreTrainedModel
from transformers.generation import GenerationMixin, LogitsProcessor
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools/train"))
from recurrent import Config, Seq2Seq  # noqa: E402

PAD, START, END = 0, 1, 2
VOCABULARY = 23
MAX_LENGTH = 14
NOISE_LEVELS = (1e-3, 1e-2)
NOISE_TRIALS = 3

COMMON = {"vocab_size": VOCABULARY, "max_length": 40}
CASES = {
    "lstm_4_layers_backward": {
        "embedding_dim": 6, "cell": "lstm", "encoder_hidden_dim": 9, "encoder_layers": 4, "encoder_direction": "backward",
        "decoder_hidden_dim": 9, "decoder_layers": 4, "bridge": "copy",
    },
    "gru_bidirectional_additive_previous": {
        "embedding_dim": 5, "cell": "gru", "encoder_hidden_dim": 7, "encoder_layers": 1,
        "encoder_direction": "bidirectional", "decoder_hidden_dim": 11, "decoder_layers": 1, "bridge": "tanh",
        "attention": "additive", "attention_query": "previous", "attention_dim": 13,
    },
    "lstm_2_layers_bidirectional_additive_previous": {
        "embedding_dim": 7, "cell": "lstm", "encoder_hidden_dim": 5, "encoder_layers": 2,
        "encoder_direction": "bidirectional", "decoder_hidden_dim": 8, "decoder_layers": 2, "bridge": "tanh",
        "attention": "additive", "attention_query": "previous", "attention_dim": 9,
    },
    "lstm_dot_feeding": {
        "embedding_dim": 9, "cell": "lstm", "encoder_hidden_dim": 17, "encoder_layers": 2, "encoder_direction": "forward",
        "decoder_hidden_dim": 17, "decoder_layers": 2, "bridge": "copy", "attention": "dot",
        "attention_query": "current", "input_feeding": True,
    },
    "lstm_general_bidirectional": {
        "embedding_dim": 8, "cell": "lstm", "encoder_hidden_dim": 7, "encoder_layers": 1,
        "encoder_direction": "bidirectional", "decoder_hidden_dim": 9, "decoder_layers": 1, "bridge": "tanh",
        "attention": "general", "attention_query": "current",
    },
    "gru_concat_feeding_backward": {
        "embedding_dim": 6, "cell": "gru", "encoder_hidden_dim": 10, "encoder_layers": 1, "encoder_direction": "backward",
        "decoder_hidden_dim": 10, "decoder_layers": 1, "bridge": "copy", "attention": "additive",
        "attention_query": "current", "attention_dim": 11, "input_feeding": True,
    },
    "lstm_general_local_m": {
        "embedding_dim": 5, "cell": "lstm", "encoder_hidden_dim": 8, "encoder_layers": 1, "encoder_direction": "forward",
        "decoder_hidden_dim": 8, "decoder_layers": 1, "bridge": "copy", "attention": "general",
        "attention_query": "current", "attention_window": "monotonic", "attention_half_width": 2, "input_feeding": True,
    },
    "gru_dot_local_p": {
        "embedding_dim": 7, "cell": "gru", "encoder_hidden_dim": 12, "encoder_layers": 1, "encoder_direction": "forward",
        "decoder_hidden_dim": 12, "decoder_layers": 1, "bridge": "copy", "attention": "dot",
        "attention_query": "current", "attention_window": "predictive", "attention_half_width": 3, "input_feeding": True,
        "decoder_vocab_size": 19,
    },
}  # fmt: skip


class Ids(nn.Module):
    """In the encoder's place: the ids travel on, and the model's forward() reads them."""

    def forward(self, input_ids, **_):
        return BaseModelOutput(last_hidden_state=input_ids[:, :, None])


class Wrapped(PreTrainedModel, GenerationMixin):
    """What generate() wants to see."""

    config_class = PretrainedConfig
    main_input_name = "input_ids"
    _is_stateful = False

    def __init__(self, model: Seq2Seq):
        vocabulary = model.config.decoder_vocab_size or model.config.vocab_size
        super().__init__(
            PretrainedConfig(
                is_encoder_decoder=True, vocab_size=vocabulary, pad_token_id=PAD, eos_token_id=END,
                bos_token_id=START, decoder_start_token_id=START, num_hidden_layers=1, use_cache=False,
            )  # fmt: skip
        )
        self.model = model
        self.generation_config = GenerationConfig(
            pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=START, use_cache=False
        )

    def get_encoder(self):
        return Ids()

    def prepare_inputs_for_generation(self, decoder_input_ids, attention_mask=None, encoder_outputs=None, **_):
        return {
            "decoder_input_ids": decoder_input_ids,
            "attention_mask": attention_mask,
            "encoder_outputs": encoder_outputs,
        }

    def forward(self, input_ids=None, attention_mask=None, decoder_input_ids=None, encoder_outputs=None, **_):
        ids = encoder_outputs.last_hidden_state[:, :, 0]
        return Seq2SeqLMOutput(logits=self.model(ids, attention_mask.sum(1), decoder_input_ids)[0])


class Noise(LogitsProcessor):
    def __init__(self, half_width, seed):
        self.half_width, self.generator = half_width, torch.Generator().manual_seed(seed)

    def __call__(self, input_ids, scores):
        return scores + self.half_width * (2 * torch.rand(scores.shape, generator=self.generator) - 1)


def run_generate(model, ids, mask, options, noise=None):
    result = model.generate(
        inputs=ids, attention_mask=mask, do_sample=False, return_dict_in_generate=True, output_scores=True,
        logits_processor=LogitsProcessorList([noise] if noise else []), **options,
    )  # fmt: skip
    scores = result.sequences_scores.tolist() if options["num_beams"] > 1 else None
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


def padded(generator, lengths):
    ids = torch.randint(3, VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    for row, length in enumerate(lengths):
        ids[row, length - 1] = END
    return ids * mask + PAD * (1 - mask), mask


def random_model(fields, seed):
    torch.manual_seed(seed)
    model = Seq2Seq(Config(**COMMON, **fields))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            scale = 3.0 if key.startswith("output.") else 0.6 if "rnn" in key else 1.0 if "embedding" in key else 0.5
            parameter.copy_(scale * torch.randn(parameter.shape))
        model.output.bias[END] += seed % 7  # so that some sequences end
    return model.eval()


def forward_golden(model, out, generator):
    ids, mask = padded(generator, (9, 1, 6))
    read = torch.randint(3, model.config.decoder_vocab_size or VOCABULARY, (3, 8), generator=generator)
    read[:, 0] = START
    with torch.no_grad():
        logits, weights, encoded = model(ids, mask.sum(1), read)
    assert logits.dtype == torch.float64
    tensors = {
        "input_ids": ids,
        "attention_mask": mask,
        "decoder_input_ids": read,
        "logits": logits,
        "encoder_last_hidden_state": encoded,
    }
    if weights is not None:
        tensors["cross_attentions.0"] = weights[:, None]
    save_file({key: value.contiguous() for key, value in tensors.items()}, out / "golden.safetensors")
    (out / "golden.safetensors").chmod(0o644)


def generate_golden(model, generator):
    wrapped = Wrapped(model)
    entries = []
    for beams in (1, 2, 4):
        for lengths in ((8, 3, 5), (1, 11)):
            ids, mask = padded(generator, lengths)
            options = {"num_beams": beams, "max_length": MAX_LENGTH}
            if beams > 1:
                options |= {"length_penalty": 1.0, "early_stopping": False}
            sequences, scores = run_generate(wrapped, ids, mask, options)
            robust_to = margin(wrapped, ids, mask, options, sequences)
            if robust_to == 0.0:
                continue
            entry = {
                "input_ids": ids.tolist(),
                "attention_mask": mask.tolist(),
                "options": options,
                "sequences": sequences,
            }
            if scores is not None:
                entry["sequences_scores"] = scores
            entries.append(entry | {"robust_to": robust_to})
    return entries


def is_lively(entries):
    """Sequences differ, and end early, late and never."""
    rows = [tuple(row) for entry in entries for row in entry["sequences"]]
    ends = {row.index(END) if END in row else 0 for row in rows}
    return len(entries) >= 5 and len(set(rows)) > len(rows) // 2 and 0 in ends and len(ends) > 2


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "seq2seq")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for name, fields in CASES.items():
        if arguments.cases and name not in arguments.cases:
            continue
        for seed in range(100):
            model = random_model(fields, seed)
            weights = {key: value.clone() for key, value in model.state_dict().items()}
            model.double()
            generator = torch.Generator().manual_seed(seed)
            entries = generate_golden(model, generator)
            if is_lively(entries):
                break
        else:
            raise SystemExit(f"{name}: no seed gives lively sequences")
        print(f"{name}: seed {seed}, {len(entries)} entries", flush=True)
        out = arguments.out / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
        (out / "model.safetensors").chmod(0o644)
        write_json(out / "config.json", model.config.fields())
        write_json(
            out / "generation_config.json",
            {"decoder_start_token_id": START, "eos_token_id": END, "pad_token_id": PAD, "max_length": MAX_LENGTH},
        )
        forward_golden(model, out, generator)
        (out / "generate.json").write_text("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n")


if __name__ == "__main__":
    main()
