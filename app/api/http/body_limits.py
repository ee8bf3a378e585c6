"""Request bodies are refused as soon as they are too large, whether their length was announced or not."""

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope


def announced_length(scope: Scope) -> int:
    """The value of Content-Length, 0 without one."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


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
