# SPDX-License-Identifier: MIT
"""Pictures of attention weights as SVG, in the colours of ``vkformer attention``."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

# Lengths in points.
_MARGIN, _PANEL_GAP, _LAYER_GAP, _SECTION_GAP, _LABEL_GAP = 24, 18, 20, 30, 4
_MAX_CELL, _MIN_CELL, _WANTED_PANEL = 18.0, 7.0, 240.0  # a panel of few tokens gets large cells
_TITLE, _HEADING, _TEXT = 15, 12, 9
_SCALE_WIDTH = 160
_LEVELS = 64
_GLYPH = 0.62  # width of a character in its size: what a sans-serif has on average, rounded up

#: White to dark blue through green: lightness falls evenly, so that the order survives grey printing.
_STOPS = np.array(
    [(1, 1, 1), (0.85, 0.93, 0.8), (0.55, 0.82, 0.75), (0.22, 0.62, 0.74), (0.12, 0.36, 0.64), (0.05, 0.11, 0.36)]
)
_FRAME = 'fill="none" stroke="#737373" stroke-width=".7" vector-effect="non-scaling-stroke"'
_NOT_A_NUMBER = "#d91a1a"  # must not look like a weight


@dataclass(frozen=True, slots=True)
class Panel:
    """One head: [queries, keys]."""

    title: str
    weights: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Section:
    """Panels that share their axes; a row of them for each layer. Without tokens, rows and columns have no names."""

    title: str
    axes: str
    queries: Sequence[str]
    keys: Sequence[str]
    layers: Sequence[Sequence[Panel]]


def draw(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """The page as SVG."""
    parts: list[str] = []
    width = max(_width(title, _TITLE), _width(subtitle, _TEXT)) + _SCALE_WIDTH + 3 * _MARGIN
    y = _MARGIN + _TITLE * 1.7 + _TEXT * 2.2 + _SECTION_GAP / 2
    for section in sections:
        extent = _draw_section(section, _MARGIN, y, parts)
        width = max(width, extent[0] + 2 * _MARGIN)
        y += extent[1] + _SECTION_GAP
    height = y - _SECTION_GAP + _MARGIN
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" fill="#1a1a1a">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        _text(title, _MARGIN, _MARGIN + _TITLE, _TITLE, "font-weight='bold'"),
        _text(subtitle, _MARGIN, _MARGIN + _TITLE * 1.7 + _TEXT, _TEXT),
        *_scale(width - _MARGIN - _SCALE_WIDTH, _MARGIN),
    ]
    return "\n".join([*head, *parts, "</svg>"])


def _draw_section(section: Section, x: float, y: float, parts: list[str]) -> tuple[float, float]:
    rows, columns = section.layers[0][0].weights.shape
    cell = min(max(_WANTED_PANEL / max(rows, columns, 1), _MIN_CELL), _MAX_CELL)
    size = min(_TEXT, cell * 0.9)
    left = x + max((_width(token, size) for token in section.queries), default=0) + _LABEL_GAP
    above = _TEXT * 2 + max((_width(token, size) for token in section.keys), default=0) + _LABEL_GAP
    titles = (panel.title for layer in section.layers for panel in layer)
    panel_width = max(cell * columns, *(_width(title, _TEXT) for title in titles))
    parts.append(_text(section.title, x, y + _HEADING, _HEADING, "font-weight='bold'"))
    parts.append(_text(section.axes, x, y + _HEADING * 1.6 + _TEXT, _TEXT))
    top = y + _HEADING * 1.6 + _TEXT * 1.8
    for layer in section.layers:
        for i, token in enumerate(section.queries):
            place = top + above + cell * (i + 0.5) + size * 0.35
            parts.append(_text(token, left - _LABEL_GAP, place, size, "text-anchor='end'"))
        for head, panel in enumerate(layer):
            at = left + head * (panel_width + _PANEL_GAP)
            parts.append(_text(panel.title, at, top + _TEXT, _TEXT, "font-weight='bold'"))
            for j, token in enumerate(section.keys):
                across, down = at + cell * (j + 0.5) + size * 0.35, top + above - _LABEL_GAP
                parts.append(_text(token, across, down, size, f"transform='rotate(-90 {across:.1f} {down:.1f})'"))
            place = f"translate({at:.1f} {top + above:.1f}) scale({cell:g})"
            parts.append(f'<g transform="{place}" shape-rendering="crispEdges">')
            parts.extend(_cells(panel.weights))
            parts.append(f'<rect width="{columns}" height="{rows}" {_FRAME}/></g>')
        top += above + cell * rows + _LAYER_GAP
    heads = max(len(layer) for layer in section.layers)
    panels = left - x + heads * (panel_width + _PANEL_GAP)
    wide = max(panels, _width(section.axes, _TEXT), _width(section.title, _HEADING))
    return wide, top - _LAYER_GAP - y


def _cells(weights: npt.NDArray[np.float32]) -> Iterable[str]:
    """One path for each colour; white is the page's."""
    level = np.full(weights.shape, -1)
    is_weight = weights >= 0
    level[is_weight] = np.rint(np.minimum(weights[is_weight], 1) * (_LEVELS - 1)).astype(int)
    for one in np.unique(level):
        if one == 0:
            continue
        places = "".join(f"M{j} {i}h1v1h-1z" for i, j in np.argwhere(level == one))
        yield f'<path fill="{_NOT_A_NUMBER if one < 0 else _colour(one / (_LEVELS - 1))}" d="{places}"/>'


def _colour(weight: float) -> str:
    at = np.arange(len(_STOPS)) / (len(_STOPS) - 1)
    return "#" + "".join(f"{round(255 * float(np.interp(weight, at, channel))):02x}" for channel in _STOPS.T)


def _scale(x: float, y: float) -> Iterable[str]:
    steps = 40
    for i in range(steps):
        yield (
            f'<rect x="{x + _SCALE_WIDTH * i / steps:.1f}" y="{y}" width="{_SCALE_WIDTH / steps + 0.5:g}" height="10" '
            f'fill="{_colour(i / (steps - 1))}"/>'
        )
    yield f'<rect x="{x:.1f}" y="{y}" width="{_SCALE_WIDTH}" height="10" {_FRAME}/>'
    yield _text("0", x, y + 20, _TEXT)
    yield _text("attention weight", x + _SCALE_WIDTH / 2, y + 20, _TEXT, "text-anchor='middle'")
    yield _text("1", x + _SCALE_WIDTH, y + 20, _TEXT, "text-anchor='end'")


def _width(text: str, size: float) -> float:
    return len(text) * size * _GLYPH


def _text(text: str, x: float, y: float, size: float, more: str = "") -> str:
    # XML has no control characters but three, and no surrogates.
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" xml:space="preserve" {more}>{escape(shown)}</text>'
