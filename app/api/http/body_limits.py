"""Which request bodies are read: JSON in UTF-8 as it is, and no more of it than the limit, announced or not."""

from email.message import Message as Headers

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from app.services.errors import BadHeader, FieldError, ServiceError, UnsupportedMediaType

_ENCODED = "The request body must not be encoded: leave out Content-Encoding and send the JSON itself."
_OTHER_CHARSET = "The request body must be JSON in UTF-8."
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii"})


def announced_length(scope: Scope) -> int:
    """The value of Content-Length, 0 without one."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


def unreadable(scope: Scope) -> ServiceError | None:
    """Why a body of such a representation is refused unread (RFC 9110, 8.3, 8.4 and 14.5). None: it may be read."""
    for name, value in scope["headers"]:
        if name == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
            return UnsupportedMediaType(_ENCODED, headers={"Accept-Encoding": "identity"})
        if name == b"content-type" and b"charset" in value.lower() and _charset(value) not in _CHARSETS:
            return UnsupportedMediaType(_OTHER_CHARSET)
        if name == b"content-range":
            return BadHeader(errors=[FieldError("#/header/Content-Range", "is not supported: send the whole body")])
    return None


def _charset(media_type: bytes) -> str | None:
    headers = Headers()
    headers["content-type"] = media_type.decode("latin-1")
    return headers.get_content_charset()


def too_large(limit: int) -> str:
    """The `detail` of the refusal."""
    return f"At most {limit} bytes."


def limited(receive: Receive, limit: int) -> Receive:
    """`receive` that raises HTTPException (413) at the first byte over `limit`."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(413, too_large(limit))
        return message

    return counted
