# SPDX-License-Identifier: MIT
"""The page of a gpu_day.json: what was right, how fast ops and models were, and the peer beside them. Nothing is measured here."""
import html

import plot
from plot import number

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1b1f24; background: #fff; max-width: 1080px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin: 1.8em 0 .5em } p.meta { color: #57606a }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums }
th { text-align: left; border-bottom: 2px solid #8c959f; padding: 4px 10px } td { padding: 3px 10px; border-bottom: 1px solid #d8dee4 }
td.n, th.n { text-align: right; white-space: nowrap } tr.bad td { background: #ffebe9 } svg { max-width: 100%; height: auto }
"""


def table(head, rows):
    """`head`: names of the columns, ">" before one of numbers. A row: its cells, and whether it is marked."""
    kinds = [' class="n"' if name.startswith(">") else "" for name in head]
    lines = ["<tr>" + "".join(f"<th{kind}>{html.escape(name.lstrip('>'))}</th>" for kind, name in zip(kinds, head)) + "</tr>"]
    for cells, is_bad in rows:
        cells = "".join(f"<td{kind}>{html.escape(cell if isinstance(cell, str) else number(cell))}</td>" for kind, cell in zip(kinds, cells))
        lines.append(f'<tr class="bad">{cells}</tr>' if is_bad else f"<tr>{cells}</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>\n"


def best_of(rows):
    """Of each case the fastest kernel that is right, and the time that the slowest took."""
    best = {}
    for row in rows:
        if row["right"] and "us" in row:
            best.setdefault((row["op"], row["shape"], row["dtype"]), []).append(row)
    return [(min(found, key=lambda row: row["us"]), max(row["us"] for row in found), len(found)) for found in best.values()]


def ops_part(rows):
    text = ""
    for group in dict.fromkeys(row["group"] for row in rows):
        best = best_of([row for row in rows if row["group"] == group])
        text += f"<h2>{html.escape(group[0].upper() + group[1:])}</h2>\n"
        with_share = [(f"{row['op']} {row['dtype']} {row['shape']}", [(100 * row["share"], 0)], f"{100 * row['share']:.0f} %")
                      for row, *_ in best if "share" in row]
        if with_share:
            text += plot.bars("Share of what the device's measured limits allow", "% of the limit", with_share, marks=[100])
        text += table(["op", "shape", "dtype", "fastest kernel", ">µs", ">GFLOP/s", ">GB/s", "limit", ">% of it", ">kernels", ">slowest, µs"],
                      [([row["op"], row["shape"], row["dtype"], row["variant"], row["us"], row["gflops"], row["gbps"], row.get("limit", ""),
                         100 * row["share"] if "share" in row else "", str(count), slowest], False) for row, slowest, count in best])
    wrong = [row for row in rows if not row["right"]]
    if wrong:
        text += "<h2>Wrong results</h2>\n" + table(["op", "shape", "dtype", "kernel"], [([row[key] for key in ("op", "shape", "dtype", "variant")], True)
                                                                                      for row in wrong])
    return text


def models_part(ours, peer):
    theirs = {row["weights"]: row for row in peer.get("models", [])}
    rows = []
    for row in ours:
        beside = theirs.get(row["weights"], {})
        decode = row.get("decode")
        cells = [row["weights"].upper(), row.get("first_prompt", ""), row.get("first_token_seconds", ""), row.get("prompt", ""), row.get("decode", ""),
                 row["bytes"] * decode / 1e9 if decode else ""]
        for part in ("prompt", "decode"):
            cells += [beside[part], row[part] / beside[part]] if part in beside and part in row else ["", ""]
        rows.append((cells, False))
    return "<h2>Language model</h2>\n" + table(["weights", ">prompt of the first run, tokens/s", ">its first token, s", ">prompt, tokens/s",
                                               ">decode, tokens/s", ">GB/s of weights", ">peer's prompt", ">ratio",
                                               ">peer's decode", ">ratio"], rows)


def page(report):
    device = report.get("device", {})
    name = device.get("name", "no device")
    text = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{html.escape(name)}</title>\n<style>{STYLE}</style>\n'
    text += f"<h1>{html.escape(name)}</h1>\n"
    parts = [device.get("driver"), report["processor"], report.get("vkformer"), report.get("peer", {}).get("version"), report["started"],
             f"{report.get('seconds', 0):.0f} s of {60 * report['minutes']:.0f}"]
    text += f'<p class="meta">{html.escape(" · ".join(part for part in parts if part))}</p>\n'
    text += table(["step", "state", ">s", "note"], [([step["name"], step["state"], step.get("seconds", 0), step.get("note", "")], step["state"] != "done")
                                                   for step in report["steps"]])
    if report.get("limits"):
        text += "<h2>Measured limits</h2>\n" + table(["limit", ">value", "unit"], [([limit["name"], limit["value"], limit["unit"]], False)
                                                                                 for limit in report["limits"]])
    if report.get("ops"):
        text += ops_part(report["ops"])
    if report.get("models"):
        text += models_part(report["models"], report.get("peer", {}))
    if report.get("peer", {}).get("ops"):
        text += "<h2>The peer's products</h2>\n" + table(["op", ">µs"], [([row["op"], row["us"]], False) for row in report["peer"]["ops"]])
    if report.get("validate"):
        text += "<h2>Every node against double precision</h2>\n" + table(
            ["weights", "dtype", ">results", ">outside their bounds"],
            [([row["weights"], row["dtype"], str(row["results"]), str(len(row["off"]))], bool(row["off"])) for row in report["validate"]])
    return text + "</html>\n"
