"""`gpulease webhooks listen`: sends events to a program on this machine, as a webhook would. It needs no public address."""

import base64
import hashlib
import hmac
import json
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import lookup
from app.cli.leases import event_stream
from app.cli.render import output, times
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.errors import Json

Post = Callable[[bytes, dict[str, str]], "Json"]
"""Sends a body with headers. Returns the `status` of the answer, or null and an `error`."""

_PREFIX = "whsec_"
_SECRET_BYTES = 32
_SECONDS = 10.0


@dataclass(frozen=True)
class Listening:
    """What `webhooks listen` forwards, and where to."""

    forward_to: Annotated[
        str, typer.Option(metavar="URL", help="Where your program listens, such as http://localhost:3000/hook.")
    ]
    events: Annotated[
        list[str] | None,
        typer.Option("--event", metavar="TYPE", help="Only this type, such as lease.failed; repeatable."),
    ] = None
    after: Annotated[int | None, typer.Option(help="Begin after this sequence number.")] = None
    secret: Annotated[
        str | None, typer.Option(metavar="whsec_…", help="Sign with this secret. Default: a new one, which is shown.")
    ] = None
    tenant: Annotated[str | None, typer.Option(help="Id or name of the tenant (operators).")] = None


def listen(session: Session, listening: Listening) -> None:
    """Send each event to a URL as it happens, once, until Ctrl-C. Nothing is created at the API."""
    session.refuse_csv("webhooks listen")
    post = _poster(listening.forward_to)
    key = _signing_key(listening.secret)
    api = session.api(operator=listening.tenant is not None)
    params: Json = {"tenant_id": lookup.tenant_id(api, listening.tenant) if listening.tenant else None}
    session.note(f"secret: {_PREFIX}{base64.b64encode(key).decode()}")
    session.note(f"events go to {listening.forward_to}, each one once; Ctrl-C ends")
    for event in event_stream.follow(api, params, after=listening.after, note=session.note):
        if not listening.events or event["type"] in listening.events:
            body = message_of(event)
            _report(session, event, post(body, _headers(key, event, body)))


def _poster(url: str) -> Post:
    """Sends to `url` without a proxy, because it is the user's own program."""
    import httpx  # noqa: PLC0415 - slow to import, and this command alone needs it

    try:
        target = httpx.URL(url)
    except httpx.InvalidURL:
        target = httpx.URL("")
    if target.scheme not in {"http", "https"} or not target.host:
        raise typer.BadParameter("use a URL such as http://localhost:3000/hook", param_hint="--forward-to")
    receiver = httpx.Client(timeout=_SECONDS, trust_env=False)

    def post(body: bytes, headers: dict[str, str]) -> "Json":
        try:
            return {"status": receiver.post(target, content=body, headers=headers).status_code, "error": None}
        except httpx.HTTPError as error:
            return {"status": None, "error": str(error) or type(error).__name__}

    return post


def _signing_key(secret: str | None) -> bytes:
    if secret is None:
        return secrets.token_bytes(_SECRET_BYTES)
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except ValueError:
        raise typer.BadParameter("is not of the form whsec_…", param_hint="--secret") from None


def message_of(event: "Json") -> bytes:
    """The body of a webhook of the format `standard`."""
    ids = {"id": event["id"], "tenant_id": event["tenant_id"], "sequence": event["sequence"]}
    if event.get("lease_id") is not None:
        ids |= {"lease_id": event["lease_id"], "lease_sequence": event["lease_sequence"]}
    content = {"type": event["type"], "timestamp": event["created_at"], "data": {**ids, **event["data"]}}
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _headers(key: bytes, event: "Json", body: bytes) -> dict[str, str]:
    """The signature of Standard Webhooks 1.0.0."""
    sent_at = str(int(times.now().timestamp()))
    signed = b".".join((event["id"].encode(), sent_at.encode(), body))
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "Content-Type": "application/json",
        "User-Agent": "gpulease-webhooks/1",
        "webhook-id": event["id"],
        "webhook-timestamp": sent_at,
        "webhook-signature": f"v1,{signature}",
    }


def _report(session: Session, event: "Json", result: "Json") -> None:
    if session.as_json:
        output.write_json_line({"event": event, **result})
        return
    answer = result["error"] or result["status"]
    line = f"{event['created_at']}  {event['type']}  {event.get('lease_id') or ''}  {answer}"
    sys.stdout.write(output.printable(line).replace("\n", " ") + "\n")
    sys.stdout.flush()
