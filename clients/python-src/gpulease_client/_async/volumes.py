"""Volumes: disks that outlive leases."""

from collections.abc import AsyncIterator
from typing import Any

from gpulease_client._async.resource import AsyncResource
from gpulease_client.core.models import Volume
from gpulease_client.paths import path_of
from gpulease_client.responses import body_of


class AsyncVolumes(AsyncResource):
    """`/v1/volumes`."""

    async def create(self, **fields: Any) -> Volume:
        """Creates a volume: `create(name="data", size_gib=500, account="main", region="us-east-1", zone="us-east-1a")`."""
        return await self._call(Volume, "POST", "/v1/volumes", json=body_of(None, fields))

    async def get(self, volume_id: str) -> Volume:
        """Reads a volume."""
        return await self._call(Volume, "GET", path_of("/v1/volumes", volume_id))

    def list(self, **filters: Any) -> AsyncIterator[Volume]:
        """All volumes of the tenant, page after page. `state=["available"]`: those in these states."""
        return self._iterate(Volume.from_dict, "/v1/volumes", filters)

    async def delete(self, volume_id: str) -> Volume:
        """Deletes a volume and all data on it. A volume in use is refused."""
        return await self._call(Volume, "DELETE", path_of("/v1/volumes", volume_id))
