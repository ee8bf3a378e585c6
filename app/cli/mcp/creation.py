"""Creates a lease so that a repeated call finds the lease of the first call."""

import hashlib
import json
from typing import TYPE_CHECKING

from app.cli.errors import Json
from app.cli.paths import path_of
from app.cli.render.states import ends

if TYPE_CHECKING:
    from app.cli.client import Api

PATH = "/v1/leases"


class LeaseCreation:
    """Derives idempotency keys from calls.

    Equal calls of one API key return the same lease while it lives. After its end, the next equal call creates another
    lease: its idempotency key contains the id of the lease that has ended.
    """

    def __init__(self) -> None:
        self._last_ended: dict[str, str] = {}
        "Digest of a call -> its last lease that is known to have ended. Saves the way through all earlier ones."

    def create(self, api: "Api", body: Json, key_id: str) -> Json:
        """The live lease of this call, made now or earlier."""
        call = _digest(key_id, body)
        while True:
            lease, fresh = api.create_once(PATH, body, f"mcp-{_digest(call, self._last_ended.get(call))}")
            if not fresh:
                lease = api.get(path_of(PATH, lease["id"]))
            if fresh or not ends(lease):
                return lease
            self._last_ended[call] = str(lease["id"])


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
