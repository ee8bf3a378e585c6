"""`/docs/errors`: what each error code means. The `type` of a problem is a link to one of its sections."""

import base64
import hashlib
from collections.abc import Iterator
from html import escape

from app.services.errors import ServiceError, every_error

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 48rem; padding: 1rem; }
code { font: 0.9em ui-monospace, monospace; }
section { border-top: 1px solid #8884; margin-top: 1.5rem; }
section:target { border-left: 4px solid; padding-left: 1rem; }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The Content-Security-Policy under which the page works."""


def errors_page() -> str:
    """A whole HTML document with a section for each code."""
    sections = "".join(_section(error) for error in every_error())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>gpulease API errors</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main><h1>Errors</h1>"
        '<p>Decide by <code>code</code> and show <code>detail</code>. See the <a href="/docs">API reference</a>.</p>'
        f"{sections}</main></body></html>"
    )


def _section(error: type[ServiceError]) -> str:
    return "".join(_lines(error))


def _lines(error: type[ServiceError]) -> Iterator[str]:
    yield f'<section id="{error.code}"><h2><code>{error.code}</code></h2>'
    yield f"<p>Status {error.status}. {escape(error.title())}.</p>"
    yield f"<p>{_prose(f'{error.advice} {retry_advice(error)}'.rstrip())}</p></section>"


def retry_advice(error: type[ServiceError]) -> str:
    """Whether the same request may succeed later. Empty where it depends on the case, or never does."""
    return "The same request may succeed later." if error.retryable else ""


def _prose(text: str) -> str:
    """Text with `code` in it."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
