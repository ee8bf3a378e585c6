"""`python -m app.api.openapi [--check]` writes openapi.json and the generated pages of docs, or says that they differ."""

import sys
from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI

from app.api.app import routed
from app.api.openapi import docs_page, document
from app.services.errors import every_error
from app.settings.settings import describe, describe_times
from app.settings.timing import TIMING

ROOT = Path(__file__).resolve().parents[3]

_INTRODUCTION = """# Errors

Made from `app/services/errors.py` by `make openapi`; a test fails when the two differ. A running API serves the same list at
`/docs/errors`, to which `type` of every error leads.
"""

_HEAD = """| code | status | retryable | meaning | what to do |
|---|---|---|---|---|
"""


def error_table() -> str:
    """docs/errors.md."""
    rows = (
        f'| <span id="{error.code}">`{error.code}`</span> | {error.status} | {"yes" if error.retryable else "no"} | '
        f"{error.title()} | {error.advice} |"
        for error in every_error()
    )
    return "\n\n".join([_INTRODUCTION.strip(), *docs_page.ERRORS_INTRODUCTION, _HEAD + "\n".join(rows) + "\n"])


_SETTINGS = """# Settings

Made from `app/settings/settings.py` by `make openapi`; a test fails when the two differ.

Every process reads them at its start, from the environment. Durations are seconds. A value that is wrong stops the
process with one line that names the variable.

| variable | default | meaning |
|---|---|---|
"""

_TIMES = f"""| `{TIMING}` | – | Times that differ from the defaults below. |

## Times

The times of the protocol, of calls and of periodic jobs. Installations leave them alone; simulated clouds have shorter ones. One
variable sets any of them: `{TIMING}=settle_seconds=60,claim_seconds=30`.

| time | default | meaning |
|---|---|---|
"""


def settings_table() -> str:
    """docs/settings.md."""
    return f"{_SETTINGS}{_rows(describe())}{_TIMES}{_rows(describe_times())}"


def _rows(described: Mapping[str, tuple[str, str]]) -> str:
    return "".join(f"| `{name}` | {default} | {meaning} |\n" for name, (default, meaning) in described.items())


def generated(app: FastAPI) -> dict[Path, str]:
    """Each generated file and what it must hold. `app`: the routes alone."""
    return {
        ROOT / "openapi.json": document.text(app),
        ROOT / "docs" / "errors.md": error_table(),
        ROOT / "docs" / "settings.md": settings_table(),
    }


def outdated(app: FastAPI) -> list[str]:
    """Names of the generated files that differ from the code."""
    return [
        str(path.relative_to(ROOT))
        for path, content in generated(app).items()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    ]


def main(arguments: list[str]) -> int:
    """0 when all is written or up to date."""
    if arguments == ["--check"]:
        names = outdated(routed())
        for name in names:
            sys.stderr.write(f"{name} differs from the code: run make openapi\n")
        return 1 if names else 0
    for path, content in generated(routed()).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
