#!/usr/bin/env python3
"""Writes recurrent/*.safetensors: nn.LSTM and nn.GRU by PyTorch, and the attentions of Bahdanau and Luong by their formulas.

    python3 tests/goldens/make_recurrent.py [--out DIR]

Inputs and weights are float32 values; every result is computed in float64 from them and stored so.
rnn_*: x [batch, len, in], lengths [batch] where packed, PyTorch's weights by their names, initial_hidden and initial_cell
[layers · directions, batch, hidden] where given; output, hidden and cell as PyTorch returns them.
attention_*: query [batch, query_len, query_width], key [batch, key_len, key_width], lengths, w_query, w_key and w_score as far as
the score has them; scores before any mask, weights, context. Local windows: half_width, and positions [query_len] or w_position
and v_position.
"""

import argparse
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def randn(seed, *shape, scale=1.0):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def double(tensors):
    return {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def rnn_case(seed, kind, batch, length, width, hidden, layers=1, bidirectional=False, lengths=None, start=False):
    module = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](
        width, hidden, layers, batch_first=True, bidirectional=bidirectional
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    tensors = {name: value.detach().clone() for name, value in module.named_parameters()}
    tensors["x"] = randn(seed + 1, batch, length, width)
    states = (layers * (2 if bidirectional else 1), batch, hidden)
    if start:
        tensors["initial_hidden"] = randn(seed + 2, *states)
        if kind == "lstm":
            tensors["initial_cell"] = randn(seed + 3, *states)
    if lengths:
        tensors["lengths"] = torch.tensor(lengths)

    module.double()
    inputs = double(tensors)
    x = inputs["x"]
    if lengths:
        x = pack_padded_sequence(x, tensors["lengths"], batch_first=True, enforce_sorted=False)
    initial = None
    if start:
        initial = (inputs["initial_hidden"], inputs["initial_cell"]) if kind == "lstm" else inputs["initial_hidden"]
    with torch.no_grad():
        output, final = module(x, initial)
    if lengths:
        output, _ = pad_packed_sequence(output, batch_first=True, total_length=length)
    hidden_state, cell = final if kind == "lstm" else (final, None)
    tensors |= {"output": output, "hidden": hidden_state}
    if cell is not None:
        tensors["cell"] = cell
    return tensors


def attention_case(seed, score, window="global", half_width=None):
    batch, query_len, key_len, query_width, key_width, attention_width = 3, 5, 14, 7, 10, 9
    if score == "dot":
        query_width = key_width
    tensors = {
        "query": randn(seed, batch, query_len, query_width, scale=0.7),
        "key": randn(seed + 1, batch, key_len, key_width, scale=0.7),
        "lengths": torch.tensor([key_len, 1, key_len - 3]),
    }
    if score == "general":
        tensors["w_query"] = randn(seed + 2, key_width, query_width, scale=0.5)
    if score in ("additive", "concat"):
        tensors["w_query"] = randn(seed + 2, attention_width, query_width, scale=0.5)
        tensors["w_key"] = randn(seed + 3, attention_width, key_width, scale=0.5)
        tensors["w_score"] = randn(seed + 4, attention_width)
    if window == "monotonic":
        tensors["positions"] = torch.tensor([0, 1, 5, 11, 20])
    if window == "predictive":
        tensors["w_position"] = randn(seed + 5, query_width, query_width)
        tensors["v_position"] = randn(seed + 6, query_width)
    if half_width:
        tensors["half_width"] = torch.tensor([half_width])

    t = double(tensors)
    query, key = t["query"], t["key"]
    if score == "dot":  # Luong et al. 2015, eq. 8
        scores = query @ key.mT
    elif score == "general":
        scores = (query @ t["w_query"].mT) @ key.mT
    elif score == "additive":  # Bahdanau et al. 2015, appendix A.1.2
        scores = torch.tanh((query @ t["w_query"].mT)[:, :, None] + (key @ t["w_key"].mT)[:, None]) @ t["w_score"]
    else:  # Luong's concat, with one matrix for the joined vector
        joined = torch.cat([query[:, :, None].expand(-1, -1, key_len, -1), key[:, None].expand(-1, query_len, -1, -1)], -1)
        scores = torch.tanh(joined @ torch.cat([t["w_query"], t["w_key"]], 1).mT) @ t["w_score"]

    places = torch.arange(key_len).double()
    length = t["lengths"][:, None, None].double()
    seen = (places < length).expand(batch, query_len, key_len)
    gauss = torch.ones(())
    if window == "monotonic":
        distance = places - t["positions"][None, :, None].double()
    elif window == "predictive":  # eq. 9 and 10
        centre = length * torch.sigmoid(torch.tanh(query @ t["w_position"].mT) @ t["v_position"])[:, :, None]
        distance = places - centre
        gauss = torch.exp(-(distance**2) / (2 * (half_width / 2) ** 2))
        assert ((distance.abs() - half_width).abs() > 1e-3).all(), "a key lies on the window's edge"
    if window != "global":
        seen = seen & (distance.abs() <= half_width)
    weights = torch.softmax(scores.masked_fill(~seen, -torch.inf), -1).nan_to_num(0.0) * gauss
    return tensors | {"scores": scores, "weights": weights, "context": weights @ key}


CASES = {
    "rnn_lstm": lambda: rnn_case(1, "lstm", 3, 6, 5, 7),
    "rnn_gru": lambda: rnn_case(2, "gru", 3, 6, 5, 7),
    "rnn_lstm_start": lambda: rnn_case(3, "lstm", 2, 5, 4, 9, start=True),
    "rnn_gru_start": lambda: rnn_case(4, "gru", 2, 5, 4, 9, start=True),
    "rnn_lstm_bidirectional_packed": lambda: rnn_case(
        5, "lstm", 4, 9, 6, 11, bidirectional=True, lengths=[9, 1, 4, 7], start=True
    ),
    "rnn_gru_bidirectional_packed": lambda: rnn_case(
        6, "gru", 4, 9, 6, 11, bidirectional=True, lengths=[3, 9, 1, 8], start=True
    ),
    "rnn_lstm_two_layers_bidirectional_packed": lambda: rnn_case(
        7, "lstm", 3, 8, 3, 5, layers=2, bidirectional=True, lengths=[8, 1, 5]
    ),
    "rnn_gru_two_layers_packed": lambda: rnn_case(8, "gru", 3, 8, 3, 5, layers=2, lengths=[2, 8, 5]),
    "attention_dot": lambda: attention_case(20, "dot"),
    "attention_general": lambda: attention_case(30, "general"),
    "attention_additive": lambda: attention_case(40, "additive"),
    "attention_concat": lambda: attention_case(50, "concat"),
    "attention_general_monotonic": lambda: attention_case(60, "general", "monotonic", 3),
    "attention_dot_predictive": lambda: attention_case(70, "dot", "predictive", 4),
    "attention_concat_predictive": lambda: attention_case(80, "concat", "predictive", 2),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "recurrent")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name, make in CASES.items():
        path = out / f"{name}.safetensors"
        save_file({key: value.contiguous() for key, value in make().items()}, path)
        path.chmod(0o644)


if __name__ == "__main__":
    main()
