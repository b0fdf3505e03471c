#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The fields of transformers' config classes, for tests/goldens/config_fields.json.

    python3 tools/models/config_fields.py OLDER.json NEWER.json > tests/goldens/config_fields.json
    python3 tools/models/config_fields.py --list MODEL_TYPE... > OLDER.json      # where that transformers is installed

A list is made with each version; together they are what tests/models/passed_over_test.cpp holds the loading functions against: a field that
they neither ask for nor know to be of no account fails the test by its name. No weights and no PyTorch are needed.
"""

import argparse
import inspect
import json
import sys
from pathlib import Path

NO_FIELDS = {"self", "args", "kwargs", "kw"}


def fields_of(config_class: type) -> set[str]:
    """What a config.json of the class may have: what the class takes, and what it writes; of configs within it theirs, behind a dot."""
    taken = set(inspect.signature(config_class.__init__).parameters) - NO_FIELDS
    fields = taken | set(config_class().to_dict())
    for name, nested in getattr(config_class, "sub_configs", {}).items():
        if hasattr(nested, "model_type") and nested.model_type:
            fields |= {f"{name}.{field}" for field in fields_of(nested)}
    return fields


def list_types(types: list[str]) -> dict[str, object]:
    """The fields by model_type, of those that this transformers has, with its version."""
    import transformers

    known = transformers.CONFIG_MAPPING
    return {
        "version": transformers.__version__,
        "fields": {name: sorted(fields_of(known[name])) for name in sorted(types) if name in known},
    }


def merge(lists: list[dict[str, object]]) -> dict[str, object]:
    """For each type the fields that any of the versions has."""
    fields: dict[str, set[str]] = {}
    for one in lists:
        for name, names in one["fields"].items():
            fields.setdefault(name, set()).update(names)
    return {"transformers": [one["version"] for one in lists], "fields": {k: sorted(v) for k, v in fields.items()}}


def one_line_for_each_type(merged: dict[str, object]) -> str:
    lines = [f"  {json.dumps(name)}: {json.dumps(fields)}" for name, fields in merged["fields"].items()]
    versions = json.dumps(merged["transformers"])
    return f'{{\n "transformers": {versions},\n "fields": {{\n' + ",\n".join(lines) + "\n }\n}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="list the types that are named with the installed transformers")
    parser.add_argument("names", nargs="+", help="values of model_type, or lists to put together")
    asked = parser.parse_args()
    result = list_types(asked.names) if asked.list else merge([json.loads(Path(p).read_text()) for p in asked.names])
    print(json.dumps(result, indent=1) if asked.list else one_line_for_each_type(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
