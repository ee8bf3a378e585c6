"""JSON for people: an object or a list that fits into a line has one."""

import json
from typing import Any

_WIDTH = 120


def readable_json(value: Any, indent: int = 0) -> str:
    """`value` as JSON. What is longer than a line has a line for each member, indented by one space more."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= _WIDTH:
        return line
    match value:
        case dict():
            return _block(
                "{", [f"{readable_json(name)}: {readable_json(value[name], indent + 1)}" for name in value], "}", indent
            )
        case list():
            return _block("[", [readable_json(part, indent + 1) for part in value], "]", indent)
        case _:
            return line


def _block(before: str, members: list[str], after: str, indent: int) -> str:
    margin = "\n" + " " * indent
    return f"{before}{margin} {f',{margin} '.join(members)}{margin}{after}"
