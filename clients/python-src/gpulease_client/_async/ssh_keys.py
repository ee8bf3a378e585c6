"""SSH keys: public keys with which leases are created."""

from collections.abc import AsyncIterator
from typing import Any

from gpulease_client._async.resource import AsyncResource
from gpulease_client.core.models import SshKey
from gpulease_client.paths import path_of
from gpulease_client.responses import body_of


class AsyncSshKeys(AsyncResource):
    """`/v1/ssh-keys`."""

    async def create(self, **fields: Any) -> SshKey:
        """Stores a public key: `create(name="laptop", public_key="ssh-ed25519 …", default=True)`."""
        return await self._call(SshKey, "POST", "/v1/ssh-keys", json=body_of(None, fields))

    def list(self, **filters: Any) -> AsyncIterator[SshKey]:
        """All keys of the tenant, page after page. `mine=True`: those that this API key has stored."""
        return self._iterate(SshKey.from_dict, "/v1/ssh-keys", filters)

    async def update(self, ssh_key_id: str, **fields: Any) -> SshKey:
        """Changes the name, or whether the key is a default key."""
        return await self._call(SshKey, "PATCH", path_of("/v1/ssh-keys", ssh_key_id), json=body_of(None, fields))

    async def delete(self, ssh_key_id: str) -> None:
        """Deletes a key. VMs that have the key keep it."""
        await self._http.request("DELETE", path_of("/v1/ssh-keys", ssh_key_id))
