# SPDX-License-Identifier: MIT
"""A file of measurements that grows row by row, so that measuring can stop on a machine that others need, and go on later."""
import json
import pathlib
import time


class OutOfTime(Exception):
    """The time that measuring may take in one piece is over."""


class Journal:
    """`head` says what is measured; rows of a file with another head are not taken over."""

    def __init__(self, path, head, seconds=None):
        self.path = pathlib.Path(path)
        self._end = time.monotonic() + seconds if seconds else None
        self.report = {**head, "rows": []}
        if self.path.exists():
            found = json.loads(self.path.read_text())
            if {**found, "rows": []} == self.report:
                self.report = found

    def has(self, **what):
        return any(what.items() <= row.items() for row in self.report["rows"])

    def add(self, row):
        self.report["rows"].append(row)
        self.save()

    def save(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(as_text(self.report))

    def check_time(self):
        if self._end and time.monotonic() > self._end:
            raise OutOfTime


def as_text(report):
    """JSON with a line for each row, for `git diff`."""
    head = json.dumps({key: value for key, value in report.items() if key != "rows"}, indent=1, ensure_ascii=False)
    rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in report["rows"])
    return f'{head[:-2]},\n "rows": [\n{rows}\n ]\n}}\n'
