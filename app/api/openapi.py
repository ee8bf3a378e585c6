"""`python -m app.api.openapi [--check]` writes openapi.json, docs/errors.md and docs/settings.md, or says that they differ."""

import sys
from pathlib import Path

from app.api.app import routed
from app.api.http import openapi_document
from app.api.http.errors_page import retry_advice
from app.services.errors import every_error
from app.settings.settings import describe

ROOT = Path(__file__).resolve().parents[2]

_INTRODUCTION = """# Errors

Made from `app/services/errors.py` by `make openapi`; a test fails when the two differ. The API serves this list at
`/docs/errors`.

Every refusal is `application/problem+json` (RFC 9457):

| member | meaning |
|---|---|
| `code` | The error code. It never changes; the list of codes may grow. Decide by it. |
| `type` | The section of the error in this list, such as `/docs/errors#not_found`. |
| `title`, `status`, `instance` | The code in words, the HTTP status, and the path of the request. |
| `detail` | What happened, for people. With field errors, it is the first of them. |
| `errors` | Each wrong field: `pointer` and `detail`. |
| `retryable` | Whether the very same request may succeed later. |
| `request_id` | The id to name in a report. |

A pointer is a JSON pointer as a URI fragment, and begins with the part of the request: `#/body/gpu/count`,
`#/query/limit`, `#/path/lease_id`, `#/header/Idempotency-Key`. Some codes have further members, which the sections name.
"""


def error_reference() -> str:
    """docs/errors.md: a section for each code, whose anchor is the code."""
    sections = (
        f"## {error.code}\n\nStatus {error.status}. {error.title()}. {error.advice} {retry_advice(error)}".rstrip()
        + "\n"
        for error in every_error()
    )
    return "\n".join([_INTRODUCTION, *sections])


_SETTINGS = """# Settings

Made from `app/settings/settings.py` by `make openapi`; a test fails when the two differ.

Every process reads them once, at its start, from the environment. Durations are seconds. A value that is wrong stops the
process with one line that names the variable.

| variable | default | meaning |
|---|---|---|
"""


def settings_table() -> str:
    """docs/settings.md."""
    rows = (f"| `{name}` | {default} | {meaning} |" for name, (default, meaning) in describe().items())
    return _SETTINGS + "\n".join(rows) + "\n"


def generated() -> dict[Path, str]:
    """Each generated file and what it must hold."""
    return {
        ROOT / "openapi.json": openapi_document.text(routed()),
        ROOT / "docs" / "errors.md": error_reference(),
        ROOT / "docs" / "settings.md": settings_table(),
    }


def outdated() -> list[str]:
    """Names of the generated files that differ from the code."""
    return [
        str(path.relative_to(ROOT))
        for path, content in generated().items()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    ]


def main(arguments: list[str]) -> int:
    """0 when all is written or up to date."""
    if arguments == ["--check"]:
        for name in outdated():
            sys.stderr.write(f"{name} differs from the code: run make openapi\n")
        return 1 if outdated() else 0
    for path, content in generated().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
