"""Access tokens: `/gce/token` gives one for a signed assertion, and the token says who asked. Nothing is verified.

A token is made from the service account's address alone, so it outlives a restart of the simulator.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cloudsim.gce.errors import GceError

LIFETIME_SECONDS = 3_600
_PREFIX = "ya29.cloudsim."


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def issue(email: str) -> str:
    """The token of a service account."""
    return _PREFIX + base64.urlsafe_b64encode(email.encode()).decode().rstrip("=")


def caller(authorization: str | None, bad: Collection[str]) -> str:
    """The service account that an Authorization header names. Raises GceError authError for one that is refused."""
    _, ours, encoded = (authorization or "").partition(f"Bearer {_PREFIX}")
    try:
        email = _unpadded(encoded).decode() if ours else ""
    except ValueError:
        email = ""
    if not email or email in bad:
        raise GceError("authError", "Request had invalid authentication credentials. Expected OAuth 2 access token.")
    return email


async def token(request: Request) -> Response:
    """`POST /gce/token`: RFC 7523. An assertion that cannot be read is an invalid grant."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    try:
        claims = json.loads(_unpadded(form["assertion"][0].split(".")[1]))
        email = str(claims["iss"])
    except (KeyError, IndexError, ValueError, TypeError):
        body = {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
        return JSONResponse(body, status_code=400)
    return JSONResponse({"access_token": issue(email), "expires_in": LIFETIME_SECONDS, "token_type": "Bearer"})
