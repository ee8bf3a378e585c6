"""The documentation that a running API serves: the interactive reference and the error codes."""

from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files

from app.api.http.static_files import StaticFile, read_files
from app.services.errors import every_error

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of every page: no inline code or style, and nothing from another host."""

INDEX = "index.html"

ERRORS_INTRODUCTION = (
    "Every error response is `application/problem+json` (RFC 9457). Programs decide by `code`; people read `detail`.",
    (
        "`errors` lists the wrong fields with `pointer` and `detail`. `request_id` identifies the request in the logs. "
        "`retryable` means that the same request may succeed later. The list of codes may grow."
    ),
    (
        "A pointer is a JSON pointer as a URI fragment, and begins with the part of the request: `#/body/gpu/count`, "
        "`#/query/limit`, `#/path/lease_id`, `#/header/Idempotency-Key`."
    ),
)


@cache
def reference_files() -> Mapping[str, StaticFile]:
    """Files by path below `app/api/openapi/reference`, read at the first request."""
    return read_files(files("app.api.openapi.reference"))


def errors_page() -> str:
    """The error codes; the id of each row is the code."""
    rows = (
        f'<tr id="{error.code}"><td><a href="#{error.code}"><code>{error.code}</code></a></td><td>{error.status}</td>'
        f"<td>{'yes' if error.retryable else 'no'}</td><td>{_prose(error.title())}</td><td>{_prose(error.advice)}</td></tr>"
        for error in every_error()
    )
    head = "".join(f"<th>{name}</th>" for name in ("Code", "Status", "Retryable", "Meaning", "What to do"))
    return _page(
        "Errors", ERRORS_INTRODUCTION, f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _page(title: str, paragraphs: Iterable[str], rest: str = "") -> str:
    text = "".join(f"<p>{_prose(paragraph)}</p>" for paragraph in paragraphs)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{title} · gpulease API</title><link rel="stylesheet" href="assets/reference.css"></head>'
        '<body><nav><strong>gpulease API</strong> <a href="../docs">Reference</a> <a href="errors">Errors</a> '
        '<a href="../dashboard/">Dashboard</a></nav>'
        f'<main class="page"><h1>{title}</h1>{text}{rest}</main></body></html>'
    )


def _prose(text: str) -> str:
    """Text with `code` in it."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
