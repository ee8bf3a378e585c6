"""Creates a lease or a group so that a repeated call finds what the first call created."""

import hashlib
import json
from typing import TYPE_CHECKING

from app.cli.errors import Json
from app.cli.paths import path_of
from app.cli.render.states import ends

if TYPE_CHECKING:
    from app.cli.client import Api

LEASES, GROUPS = "/v1/leases", "/v1/groups"


class Creation:
    """Derives idempotency keys from calls.

    Equal calls of one API key return the same lease or group while it lives. After its end, the next equal call creates
    another one: its idempotency key contains the id of the one that has ended.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._last_ended: dict[str, str] = {}
        "Digest of a call -> the last of its results that is known to have ended. Saves the way through all earlier ones."

    def create(self, api: "Api", body: Json, key_id: str) -> Json:
        """What lives of this call, made now or earlier."""
        call = _digest(key_id, body)
        while True:
            made, fresh = api.create_once(self._path, body, f"mcp-{_digest(call, self._last_ended.get(call))}")
            if not fresh:
                made = api.get(path_of(self._path, made["id"]))
            if fresh or not ends(made):
                return made
            self._last_ended[call] = str(made["id"])


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
