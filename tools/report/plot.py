# SPDX-License-Identifier: MIT
"""Plots as SVG: rows of bars or dots with their labels beside them, readable on light and dark pages.

Every text is given a box by the widths of its characters; a text that would lie on another one or outside the picture is an error.
"""
import math
from xml.sax.saxutils import escape

WIDTH = 820
ROW = 19  # pixels from one row to the next
SIZE = 12  # of the letters
TOP, BOTTOM, EDGE = 34, 40, 10

# The colours of the series are apart for the colour-blind, too (Okabe and Ito 2008), and in lightness.
STYLE = """
svg { font: 12px system-ui, "DejaVu Sans", Helvetica, Arial, sans-serif }
.ground { fill: #ffffff } .text { fill: #24292f } .quiet { fill: #57606a }
.grid { stroke: #d8dee4 } .mark { stroke: #57606a; stroke-dasharray: 4 3 } .whisker { stroke: #8c959f }
.s0 { fill: #0072b2 } .s1 { fill: #d55e00 } .s2 { fill: #009e73 } .s3 { fill: #8c959f }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117 } .text { fill: #e6edf3 } .quiet { fill: #9198a1 }
.grid { stroke: #30363d } .mark { stroke: #9198a1 } .whisker { stroke: #6e7681 }
.s0 { fill: #56b4e9 } .s1 { fill: #e69f00 } .s2 { fill: #2fbf94 } .s3 { fill: #6e7681 }
}
"""
NARROW = set(" .,:;'|!ijlIft()[]/")


def text_width(text, size=SIZE):
    """Pixels, a little more than what common sans-serif fonts take."""
    return size * sum(0.38 if c in NARROW else 0.95 if c in "mwMW%→×" else 0.64 for c in text)


class Collision(Exception):
    """Two texts lie on each other, or one outside the picture."""


class Picture:
    def __init__(self, height, title):
        self.height = height
        self.title = title
        self.parts = []
        self.boxes = []

    def text(self, x, y, text, anchor="start", kind="text"):
        """Writes a text whose baseline is at y."""
        width = text_width(text)
        left = x - {"start": 0, "middle": width / 2, "end": width}[anchor]
        box = (left, y - 0.8 * SIZE, left + width, y + 0.25 * SIZE, text)
        if box[0] < 0 or box[1] < 0 or box[2] > WIDTH or box[3] > self.height:
            raise Collision(f"{self.title}: “{text}” lies outside the picture")
        for other in self.boxes:
            if box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]:
                raise Collision(f"{self.title}: “{text}” lies on “{other[4]}”")
        self.boxes.append(box)
        anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{anchored}>{escape(text)}</text>')

    def line(self, x0, y0, x1, y1, kind):
        self.parts.append(f'<line class="{kind}" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"/>')

    def bar(self, x, y, width, height, kind):
        self.parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}"/>')

    def mark(self, x, y, series):
        """A point of a series: a shape of its own besides the colour."""
        shape = (f'<circle class="s0" cx="{x:.1f}" cy="{y:.1f}" r="4"/>',
                 f'<rect class="s1" x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"/>',
                 f'<path class="s2" d="M{x:.1f} {y - 4.5:.1f}l4.5 8h-9z"/>')
        self.parts.append(shape[series])

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" '
                f'height="{self.height}" role="img">\n<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n'
                f'<rect class="ground" width="{WIDTH}" height="{self.height}"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def number(value):
    """Three digits, without an exponent."""
    if value == 0:
        return "0"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(float(f'{value:.3g}')))))}f}"


class Axis:
    """From values to pixels between left and right; linear from 0, or logarithmic."""

    def __init__(self, low, high, left, right, logarithmic):
        self.logarithmic = logarithmic
        self.low, self.high, self.left, self.right = (low if logarithmic else 0), high, left, right

    def __call__(self, value):
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = value / self.high
        return self.left + part * (self.right - self.left)

    def ticks(self):
        if self.logarithmic:
            steps = (1, 2, 5) if self.high / self.low < 1000 else (1,)
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [step * 10.0**decade for decade in decades for step in steps]
            found = [tick for tick in found if self.low * 0.999 <= tick <= self.high * 1.001]
            if len(found) >= 3:
                return found
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next(factor for factor in (1, 2, 2.5, 5, 10) if (self.high - self.low) / (step * factor) <= 6)
        first = math.ceil(self.low / step - 1e-9)
        return [step * i for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def frame(title, unit, labels, values_width, low, high, logarithmic, marks=(), legend=()):
    """What all plots have: title, legend, labels of the rows, axis with its unit. Gives the picture, the axis and each row's middle."""
    top = TOP + (ROW if legend else 0)
    picture = Picture(top + ROW * len(labels) + BOTTOM, title)
    left = EDGE + max(text_width(label) for label in labels) + 8
    axis = Axis(low, high, left, WIDTH - EDGE - values_width - 8, logarithmic)
    picture.text(EDGE, 18, title)
    x = left
    for series, name in enumerate(legend):
        picture.mark(x + 5, TOP, series)
        picture.text(x + 14, TOP + 4, name, kind="quiet")
        x += text_width(name) + 34
    bottom = top + ROW * len(labels)
    for tick in axis.ticks():
        picture.line(axis(tick), top, axis(tick), bottom, "grid")
        picture.text(axis(tick), bottom + 15, f"{tick:.6g}", "middle", "quiet")
    for value in marks:
        picture.line(axis(value), top, axis(value), bottom, "mark")
    picture.text((axis.left + axis.right) / 2, bottom + 31, unit, "middle", "quiet")
    middles = [top + ROW * (i + 0.5) for i in range(len(labels))]
    for label, middle in zip(labels, middles):
        picture.text(left - 8, middle + 4, label, "end")
    return picture, axis, middles


def bars(title, unit, rows, marks=()):
    """rows: (label, values, text beside it); a value is (what it is, its series). One bar per value, thinner where there are several."""
    high = max([value for _, values, _ in rows for value, _ in values] + list(marks)) * 1.02
    width = max(text_width(text) for _, _, text in rows)
    picture, axis, middles = frame(title, unit, [label for label, _, _ in rows], width, 0, high, False, marks)
    for (_, values, text), middle in zip(rows, middles):
        thick = 12 / len(values)
        for i, (value, series) in enumerate(values):
            picture.bar(axis.left, middle - 6 + i * thick, axis(value) - axis.left, thick - (len(values) > 1), f"s{series}")
        picture.text(WIDTH - EDGE, middle + 4, text, "end", "quiet")
    return picture.svg()


def dots(title, unit, rows, low, high, legend=(), marks=(), logarithmic=True):
    """rows: (label, points, text beside it); a point is (value, its series, least, most), the last two drawn as a line or None."""
    width = max(text_width(text) for _, _, text in rows)
    picture, axis, middles = frame(title, unit, [label for label, _, _ in rows], width, low, high, logarithmic, marks, legend)
    for (_, points, text), middle in zip(rows, middles):
        for i, (value, series, least, most) in enumerate(points):
            y = middle + (i - (len(points) - 1) / 2) * 5
            if least is not None:
                picture.line(axis(least), y, axis(most), y, "whisker")
            picture.mark(axis(value), y, series)
        picture.text(WIDTH - EDGE, middle + 4, text, "end", "quiet")
    return picture.svg()
