# SPDX-License-Identifier: MIT
"""The constants of the model of time: published times of the peer, what compilers make of its shaders, and the fit to both.

docs/portability/measured.json has both: `points`, of which some are not used for the reason that `left_out` says, and `shaders`,
{GPU: {"matrices" or "none": {row of the tables: numbers as in the other files}}}.
"""
import dataclasses
import functools
import json
import math
import pathlib
import re

import chips
import kept
import model
import peer

MEASURED = pathlib.Path(__file__).resolve().parents[2] / "docs/portability/measured.json"
# Billions of weights that a token's products read, and how many of them make logits, which a prompt needs once.
MODELS = {"Llama 2 7B": (6.61, 0.13), "Llama 3 8B": (7.50, 0.53), "Llama 3.2 3B": (3.21, 0.39), "Mistral 7B": (7.11, 0.13)}
CLASSES = {"512 rows": lambda rows: rows > 8, "1 row": lambda rows: rows == 1}
START = model.Constants(cycles=1.0, latency=500.0, bandwidth=0.8)
MOST = {"bandwidth": 1.0}
RUNS = [("perf", "MUL_MAT", peer.MATRICES.format("f16|q8_0|q4_0|q4_K|q6_K", "1")),
        ("perf", "MUL_MAT", peer.MATRICES.format("f32|f16|q8_0|q4_0|q4_K", "512"))]
WITHOUT_MATRICES = {"GGML_VK_DISABLE_COOPMAT": "1", "GGML_VK_DISABLE_COOPMAT2": "1"}


@functools.cache
def measured():
    return json.loads(MEASURED.read_text())


def as_text(found):
    """JSON with a point or a shader to a line."""
    line = lambda value: json.dumps(value, ensure_ascii=False)
    points = ",\n  ".join(map(line, found["points"]))
    gpus = ",\n  ".join(f"{line(gpu)}: {{" + ",".join(
        f"\n   {line(setting)}: {{" + ",".join(f"\n    {line(title)}: {line(numbers)}" for title, numbers in of.items()) + "}"
        for setting, of in settings.items()) + "}" for gpu, settings in found["shaders"].items())
    return f'{{\n "numbers": {line(found["numbers"])},\n "points": [\n  {points}\n ],\n "shaders": {{\n  {gpus}\n }}\n}}\n'


def title_of(op):
    """The row of the tables, or what would be one, of a product of the peer."""
    found = re.match(r"MUL_MAT\(type_a=(\w+),.*,n=(1|512),", op)
    return found and {"1": "1 row, ", "512": "GEMM, "}[found[2]] + found[1].lower()


def ask(folder):
    """Has the compilers make the peer's shaders that the points need, and keeps their numbers."""
    found = json.loads(MEASURED.read_text())
    for gpu, setting in dict.fromkeys((chips.CARDS[point["card"]].gpu, point["matrices"]) for point in found["points"]):
        report = peer.report(gpu, folder, RUNS, WITHOUT_MATRICES if setting == "none" else None)
        numbers = {title_of(op): kept.numbers_of(executable) for op, executable in report.items()}
        found["shaders"].setdefault(gpu, {})[setting] = numbers
    MEASURED.write_text(as_text(found))


def shader_of(point, shaders):
    """What the compiler of the point's GPU makes of it. Single rows use no matrices, with or without them."""
    settings = shaders.get(chips.CARDS[point["card"]].gpu, {})
    order = [point["matrices"]] if model.product_of(point["row"])[0] > 8 else ["matrices", "none"]
    numbers = next((settings[setting][point["row"]] for setting in order if point["row"] in settings.get(setting, {})), None)
    return kept.named(numbers) if numbers else None


def usable(found):
    """[(point, shader)]"""
    pairs = [(point, shader_of(point, found["shaders"])) for point in found["points"] if "left_out" not in point]
    return [pair for pair in pairs if pair[1]]


def measured_seconds(point):
    return point["microseconds"] * 1e-6 if "microseconds" in point else 1 / point["tokens_per_second"]


def predicted_seconds(point, shader, constants):
    """Of the product, or where a language model's tokens were counted, of all products of a token: what else it takes is not told
    apart."""
    card, rows_of_x = chips.CARDS[point["card"]], model.product_of(point["row"])[0]
    time = model.of_peer(card, shader, point["row"], point["matrices"] == "matrices", constants)
    if "microseconds" in point:
        return time
    weights, logits = MODELS[point["model"].rsplit(" ", 1)[0]]
    read = weights - logits if rows_of_x > 1 else weights
    return time / rows_of_x * read * 1e9 / (model.OUT * model.IN)


def log_error(pair, constants):
    point, shader = pair
    return math.log(predicted_seconds(point, shader, constants) / measured_seconds(point))


def fitted(pairs):
    """The constants with the least sum of squared logarithms of errors: one after the other is made larger or smaller by a step that
    becomes finer."""
    loss = lambda constants: sum(log_error(pair, constants) ** 2 for pair in pairs)
    best, least, step = START, loss(START), 0.5
    while step > 0.002:
        is_better = False
        for name in (field.name for field in dataclasses.fields(best)):
            for factor in (1 + step, 1 / (1 + step)):
                value = min(getattr(best, name) * factor, MOST.get(name, math.inf))
                tried = dataclasses.replace(best, **{name: value})
                if (found := loss(tried)) < least:
                    best, least, is_better = tried, found, True
        step *= 1 if is_better else 0.5
    return best


@functools.cache
def constants():
    return fitted(usable(measured()))


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def left_out_errors(pairs):
    """[(point, factor between prediction and measurement)], each predicted with constants fitted without its GPU."""
    gpu = lambda pair: chips.CARDS[pair[0]["card"]].gpu
    out = []
    for key in sorted(set(map(gpu, pairs))):
        without = fitted([pair for pair in pairs if gpu(pair) != key])
        out += [(pair[0], math.exp(log_error(pair, without))) for pair in pairs if gpu(pair) == key]
    return out


@dataclasses.dataclass(frozen=True)
class Error:
    """Of the points of GPUs that were left out; factors of at least 1."""
    points: int
    gpus: int
    median: float
    most: float  # the 90th percentile


@functools.cache
def errors():
    """{class: Error}"""
    found = left_out_errors(usable(measured()))
    out = {}
    for name, is_of in CLASSES.items():
        of = [(point, max(factor, 1 / factor)) for point, factor in found if is_of(model.product_of(point["row"])[0])]
        factors = [factor for _, factor in of]
        gpus = {chips.CARDS[point["card"]].gpu for point, _ in of}
        out[name] = Error(len(of), len(gpus), quantile(factors, 0.5), quantile(factors, 0.9))
    return out


def class_of(title):
    product = model.product_of(title)
    return next((name for name, is_of in CLASSES.items() if product and is_of(product[0])), None)


def errors_of_left_out(found):
    """The factors, of at least 1, by which the model is off for the points that are not used."""
    pairs = [(point, shader_of(point, found["shaders"])) for point in found["points"] if "left_out" in point]
    factors = [math.exp(log_error(pair, constants())) for pair in pairs if pair[1]]
    return [max(factor, 1 / factor) for factor in factors]
