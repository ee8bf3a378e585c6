"""The parts of the clients that follow from the server's code: error classes, idempotent operations, the sync twin."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from app.api.openapi.shortening import unfolded
from app.cli import repeats
from app.services.errors import every_error

ROOT = Path(__file__).resolve().parents[1]

_TO_SYNC = (
    (
        r"The asynchronous client.*",
        'The synchronous client, derived from `gpulease_client._async` by `make clients`."""',
    ),
    (r"from asyncio import sleep", "from time import sleep"),
    (r"Awaitable, ", ""),
    (r"Awaitable\[(T \| Problem \| None|Page\[T\] \| Problem \| None)\]", r"\1"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"`async with`", "`with`"),
    (r"\bawait ", ""),
    (r"\b_async\b", "_sync"),
    (r"\bAsyncGenerator\b", "Generator"),
    (r"\bGenerator\[Event, None\]", "Generator[Event, None, None]"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\basync(?=contextmanager)", ""),
    (r"\ba(?=(?:closing|close|read)\b)", ""),
    (r"\baiter_lines\b", "iter_lines"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\bset_async_httpx_client\b", "set_httpx_client"),
    (r"\.asyncio\b", ".sync"),
)
"""Patterns of the asynchronous sources, and what the synchronous ones have in their place."""


def synchronous(source: str) -> str:
    """The synchronous twin of an asynchronous module of the Python client."""
    for pattern, replacement in _TO_SYNC:
        source = re.sub(pattern, replacement, source)
    return source


SHARED = ("network", "paths", "repeats")
"""Modules of the command line that the Python client has too: one rule for both."""


def shared(name: str) -> str:
    """The module of the Python client that is a copy of one of the command line."""
    source = (ROOT / "app" / "cli" / f"{name}.py").read_text(encoding="utf-8")
    return source.replace("from app.cli.", "from gpulease_client.")


def version() -> str:
    """The clients have the server's version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def keyed_posts(description: Path) -> list[str]:
    """The paths whose POST takes an idempotency key, so that it may be repeated."""
    paths: dict[str, Any] = unfolded(json.loads(description.read_text(encoding="utf-8")))["paths"]
    return sorted(
        path
        for path, methods in paths.items()
        if any(
            parameter.get("name") == "Idempotency-Key" for parameter in methods.get("post", {}).get("parameters", [])
        )
    )


def python_facts(description: Path) -> str:
    """The module `gpulease_client._described`."""
    lines = "".join(f"    {json.dumps(path)},\n" for path in keyed_posts(description))
    return (
        '"""Facts of the API\'s description. Made by `make clients`."""\n\n'
        f'VERSION = "{version()}"\n\nKEYED_POSTS = (\n{lines})\n"""POST to these paths takes an idempotency key."""\n'
    )


def python_events(description: Path) -> str:
    """The module `gpulease_client.event`: the union of the event types, which the generated core does not name."""
    schemas = json.loads(description.read_text(encoding="utf-8"))["components"]["schemas"]
    names = sorted(kind["$ref"].rpartition("/")[2] for kind in schemas["Event"]["anyOf"])
    union = "".join(f"    | models.{name}\n" for name in names).replace("|", " ", 1)
    return (
        '"""An event of any type. Made by `make clients`."""\n\n'
        "from collections.abc import Mapping\nfrom typing import Any, TypeAlias\n\n"
        "from gpulease_client.core import models\n\n"
        f"Event: TypeAlias = (\n{union})\n"
        '"""`OtherEvent` stands for a type that is newer than this client."""\n\n\n'
        "def parse_event(item: Mapping[str, Any]) -> Event:\n"
        '    """The object of the event\'s type."""\n'
        '    page = {"items": [item], "next_cursor": None, "total_count": None}\n'
        "    return models.EventPage.from_dict(page).items[0]\n"
    )


def python_problems() -> str:
    """The module `gpulease_client.problems`: a class per error code."""
    errors = list(every_error())
    classes = "".join(
        f'\n\nclass {_class_name(error.code)}(ApiError):\n    """{error.status} `{error.code}`: {error.title()}.\n\n'
        f'    {error.advice}\n    """\n'.replace("\\", "\\\\")
        for error in errors
    )
    table = "".join(f'    "{error.code}": {_class_name(error.code)},\n' for error in errors)
    return (
        '"""One class per error code of the API. Made by `make clients`. A code without a class here is an ApiError."""\n\n'
        f"from gpulease_client.errors import ApiError\n{classes}\n\n"
        f"BY_CODE: dict[str, type[ApiError]] = {{\n{table}}}\n"
    )


_TABLE = "After which answers a request is repeated; made from `app/cli/repeats.py`, which explains it."


def repeated_answers() -> dict[str, Any]:
    """The table of `app/cli/repeats.py` as JSON."""
    return {
        "methods": sorted(repeats.METHODS),
        "refused": sorted(repeats.REFUSED),
        "unknown": sorted(repeats.UNKNOWN),
        "inFlight": repeats.IN_FLIGHT,
        "gone": repeats.GONE,
        "kept": sorted(repeats.KEPT),
    }


def typescript_facts(description: Path) -> str:
    """The module `described.ts`."""
    codes = " |\n  ".join(json.dumps(error.code) for error in every_error())
    paths = "".join(f"  {json.dumps(path)},\n" for path in keyed_posts(description))
    return (
        "// Facts of the API's description. Made by `make clients`.\n"
        f'export const VERSION = "{version()}";\n\n'
        f"/** {_TABLE} */\nexport const REPEATS = {json.dumps(repeated_answers(), indent=2)};\n\n"
        f"/** POST to these paths takes an idempotency key. */\nexport const KEYED_POSTS = [\n{paths}];\n\n"
        f"/** The known error codes. The list may grow. */\nexport type ProblemCode =\n  {codes};\n"
    )


def _class_name(code: str) -> str:
    return "".join(word.capitalize() for word in code.split("_"))
