"""Sequence-to-sequence with recurrent networks, from the formulas of the papers that made history.

Sutskever et al. 2014: stacked LSTMs, the source read backwards, no attention. Bahdanau et al. 2015: additive attention over
a bidirectional encoder, asked by the decoder's previous state. Luong et al. 2015: multiplicative attention asked by the
current state, input feeding, local windows (local-m, local-p).

The names in `state_dict` and the fields of `Config` are those of the folders that vkformer loads. Batches are padded on
the right; `lengths` counts the tokens of each row, the final `</s>` included.
"""

import dataclasses
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


@dataclasses.dataclass
class Config:
    vocab_size: int
    embedding_dim: int
    cell: str  # lstm, gru
    encoder_hidden_dim: int
    encoder_layers: int
    encoder_direction: str  # forward, backward, bidirectional
    decoder_hidden_dim: int
    decoder_layers: int
    bridge: str  # copy, tanh
    attention: str = "none"  # none, dot, general, additive
    attention_query: str | None = None  # previous, current
    attention_dim: int | None = None  # additive only
    attention_window: str = "global"  # global, monotonic, predictive
    attention_half_width: int | None = None  # monotonic and predictive only
    input_feeding: bool = False
    decoder_vocab_size: int | None = None
    max_length: int = 128

    @property
    def key_dim(self) -> int:
        return self.encoder_hidden_dim * (2 if self.encoder_direction == "bidirectional" else 1)

    def fields(self) -> dict:
        """What config.json holds."""
        own = {key: value for key, value in dataclasses.asdict(self).items() if value is not None}
        if self.attention == "none":
            del own["attention_window"]
        return {"model_type": "recurrent_seq2seq", **own}

    @classmethod
    def of(cls, fields: dict) -> "Config":
        return cls(**{key: value for key, value in fields.items() if key != "model_type"})


class State(NamedTuple):
    """Between two steps of the decoder: hidden and cell per layer (cell is None for a GRU), and out_{t-1}."""

    hidden: list[Tensor]
    cell: list[Tensor] | None
    fed: Tensor


def reversed_inside(x: Tensor, lengths: Tensor) -> Tensor:
    """[batch, len, ...] with the first `lengths` entries of each row in the opposite order; padding stays behind."""
    places = torch.arange(x.shape[1], device=x.device)
    mirrored = torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
    return x.gather(1, mirrored.reshape(mirrored.shape + (1,) * (x.dim() - 2)).expand_as(x))


def rnn_class(cell: str) -> type[nn.RNNBase]:
    return {"lstm": nn.LSTM, "gru": nn.GRU}[cell]


class Encoder(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.direction = config.encoder_direction
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_dim)
        self.rnn = rnn_class(config.cell)(
            config.embedding_dim,
            config.encoder_hidden_dim,
            config.encoder_layers,
            batch_first=True,
            bidirectional=self.direction == "bidirectional",
        )

    def forward(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Outputs [batch, len, width] (zeros at padding), final hidden states and cells [layers·directions, batch, width]."""
        backward = self.direction == "backward"
        x = self.embedding(reversed_inside(ids, lengths) if backward else ids)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed_outputs, final = self.rnn(packed)
        outputs, _ = pad_packed_sequence(packed_outputs, batch_first=True, total_length=ids.shape[1])
        hidden, cell = final if isinstance(final, tuple) else (final, None)
        return reversed_inside(outputs, lengths) if backward else outputs, hidden, cell


class Decoder(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        width = config.embedding_dim
        if config.attention_query == "previous":
            width += config.key_dim
        elif config.input_feeding:
            width += config.decoder_hidden_dim
        self.embedding = nn.Embedding(config.decoder_vocab_size or config.vocab_size, config.embedding_dim)
        self.rnn = rnn_class(config.cell)(width, config.decoder_hidden_dim, config.decoder_layers, batch_first=True)

    def step(self, x: Tensor, hidden: list[Tensor], cell: list[Tensor] | None) -> tuple[list[Tensor], list[Tensor] | None]:
        """One token through all layers."""
        new_hidden, new_cell = [], []
        for layer, weights in enumerate(self.rnn.all_weights):
            if cell is None:
                x = torch.gru_cell(x, hidden[layer], *weights)
            else:
                x, c = torch.lstm_cell(x, (hidden[layer], cell[layer]), *weights)
                new_cell.append(c)
            new_hidden.append(x)
        return new_hidden, None if cell is None else new_cell

    def whole(self, x: Tensor, hidden: list[Tensor], cell: list[Tensor] | None) -> Tensor:
        """All steps at once, where no step needs the output of the one before: [batch, steps, width]."""
        start = torch.stack(hidden)
        return self.rnn(x, start if cell is None else (start, torch.stack(cell)))[0]


class Bridge(nn.Module):
    """h_l = tanh(W_l · final_h), and so the cells: from the encoder's top layer to every layer of the decoder."""

    def __init__(self, config: Config):
        super().__init__()

        def layers() -> nn.ModuleList:
            return nn.ModuleList(
                nn.Linear(config.key_dim, config.decoder_hidden_dim) for _ in range(config.decoder_layers)
            )

        self.hidden = layers()
        if config.cell == "lstm":
            self.cell = layers()


class Attention(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.kind, self.window, self.half_width = (
            config.attention,
            config.attention_window,
            config.attention_half_width,
        )
        query_dim, key_dim = config.decoder_hidden_dim, config.key_dim
        if self.kind == "general":
            self.query = nn.Linear(query_dim, key_dim, bias=False)
        elif self.kind == "additive":
            self.query = nn.Linear(query_dim, config.attention_dim, bias=False)
            self.key = nn.Linear(key_dim, config.attention_dim)
            self.score = nn.Linear(config.attention_dim, 1, bias=False)
        if self.window == "predictive":
            self.position_hidden = nn.Linear(query_dim, query_dim, bias=False)
            self.position_score = nn.Linear(query_dim, 1, bias=False)
        self.output = nn.Linear(key_dim + query_dim, query_dim, bias=False)

    def keys(self, encoded: Tensor) -> Tensor:
        """The part of the scores that no query changes: W_k k + b_k, or the keys themselves."""
        return self.key(encoded) if self.kind == "additive" else encoded

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """[batch, queries, len]"""
        if self.kind == "additive":  # w · tanh(W_q q + W_k k + b_k)
            return self.score(torch.tanh(self.query(queries)[:, :, None] + keys[:, None])).squeeze(-1)
        if self.kind == "general":  # (W_q q) · k
            queries = self.query(queries)
        return queries @ keys.transpose(1, 2)

    def weights(self, queries: Tensor, keys: Tensor, lengths: Tensor, first_step: int) -> Tensor:
        """[batch, queries, len]; the first query is that of step `first_step`."""
        scores = self.scores(queries, keys)
        places = torch.arange(keys.shape[1], dtype=scores.dtype, device=scores.device)
        seen = (places < lengths[:, None])[:, None]
        if self.window == "global":
            return torch.softmax(scores.masked_fill(~seen, -torch.inf), dim=-1)
        if self.window == "monotonic":  # local-m: p = t
            centre = torch.arange(queries.shape[1], dtype=scores.dtype, device=scores.device)[None, :, None] + first_step
        else:  # local-p: p = length · sigmoid(w_p · tanh(W_p q))
            predicted = torch.sigmoid(self.position_score(torch.tanh(self.position_hidden(queries))))
            centre = lengths[:, None, None] * predicted
        distance = places - centre
        seen = seen & (distance.abs() <= self.half_width)
        # A window beyond the end sees nothing: the weights are zeros then, where softmax would give NaN.
        empty = ~seen.any(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(~(seen | empty), -torch.inf), dim=-1).masked_fill(empty, 0.0)
        if self.window == "predictive":
            weights = weights * torch.exp(-distance.square() / (2 * (self.half_width / 2) ** 2))
        return weights


class Seq2Seq(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        if config.bridge == "tanh":
            self.bridge = Bridge(config)
        if config.attention != "none":
            self.attention = Attention(config)
        self.output = nn.Linear(config.decoder_hidden_dim, config.decoder_vocab_size or config.vocab_size)

    def start(self, hidden: Tensor, cell: Tensor | None) -> State:
        """The decoder's state before the first step."""
        if self.config.bridge == "copy":
            hidden_by_layer = list(hidden)
            cell_by_layer = None if cell is None else list(cell)
        else:
            directions = 2 if self.config.encoder_direction == "bidirectional" else 1
            top_hidden = torch.cat(list(hidden[-directions:]), dim=-1)
            hidden_by_layer = [torch.tanh(layer(top_hidden)) for layer in self.bridge.hidden]
            cell_by_layer = None
            if cell is not None:
                top_cell = torch.cat(list(cell[-directions:]), dim=-1)
                cell_by_layer = [torch.tanh(layer(top_cell)) for layer in self.bridge.cell]
        return State(hidden_by_layer, cell_by_layer, torch.zeros_like(hidden_by_layer[-1]))

    def attend(
        self, queries: Tensor, encoded: Tensor, keys: Tensor, lengths: Tensor, first_step: int
    ) -> tuple[Tensor, Tensor]:
        weights = self.attention.weights(queries, keys, lengths, first_step)
        return weights @ encoded, weights

    def combine(self, context: Tensor, hidden: Tensor) -> Tensor:
        return torch.tanh(self.attention.output(torch.cat([context, hidden], dim=-1)))

    def step(
        self, embedded: Tensor, state: State, encoded: Tensor, keys: Tensor, lengths: Tensor, index: int
    ) -> tuple[State, Tensor]:
        """One token [batch, width] → the state after it (its `fed` is what the logits are made of), the weights used."""
        if self.config.attention_query == "previous":
            context, weights = self.attend(state.hidden[-1][:, None], encoded, keys, lengths, index)
            x = torch.cat([embedded, context.squeeze(1)], dim=-1)
            hidden, cell = self.decoder.step(x, state.hidden, state.cell)
        else:
            x = torch.cat([embedded, state.fed], dim=-1) if self.config.input_feeding else embedded
            hidden, cell = self.decoder.step(x, state.hidden, state.cell)
            if self.config.attention == "none":
                return State(hidden, cell, hidden[-1]), embedded.new_zeros(len(embedded), 1, 0)
            context, weights = self.attend(hidden[-1][:, None], encoded, keys, lengths, index)
        return State(hidden, cell, self.combine(context.squeeze(1), hidden[-1])), weights

    def forward(self, ids: Tensor, lengths: Tensor, decoder_ids: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Logits [batch, steps, vocabulary], weights [batch, steps, len] or None, encoder outputs [batch, len, width]."""
        encoded, hidden, cell = self.encoder(ids, lengths)
        state = self.start(hidden, cell)
        embedded = self.decoder.embedding(decoder_ids)
        if self.config.attention == "none":
            return self.output(self.decoder.whole(embedded, state.hidden, state.cell)), None, encoded
        keys = self.attention.keys(encoded)
        if self.config.attention_query == "current" and not self.config.input_feeding:
            queries = self.decoder.whole(embedded, state.hidden, state.cell)
            context, weights = self.attend(queries, encoded, keys, lengths, 0)
            return self.output(self.combine(context, queries)), weights, encoded
        outs, rows = [], []
        for index, token in enumerate(embedded.unbind(1)):
            state, row = self.step(token, state, encoded, keys, lengths, index)
            outs.append(state.fed)
            rows.append(row)
        return self.output(torch.stack(outs, dim=1)), torch.cat(rows, dim=1), encoded

    @torch.no_grad()
    def greedy(self, ids: Tensor, lengths: Tensor, start: int, end: int, max_length: int) -> list[list[int]]:
        """The most likely token at each step, without the start token and from `</s>` on cut off."""
        encoded, hidden, cell = self.encoder(ids, lengths)
        state = self.start(hidden, cell)
        keys = encoded if self.config.attention == "none" else self.attention.keys(encoded)
        token = torch.full((len(ids),), start)
        finished = torch.zeros(len(ids), dtype=torch.bool)
        tokens = []
        for index in range(max_length - 1):
            state, _ = self.step(self.decoder.embedding(token), state, encoded, keys, lengths, index)
            token = self.output(state.fed).argmax(-1)
            tokens.append(token)
            finished |= token == end
            if finished.all():
                break
        rows = torch.stack(tokens, dim=1).tolist()
        return [row[: row.index(end)] if end in row else row for row in rows]
