"""GPUs that failed a check, so that a host handed out again is recognised."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Delete, delete, func, select
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.sql import AnySelect
from app.db.schema.tables import bad_gpu


def remember(place: Mapping[str, Any], codes: Mapping[str, str]) -> Insert:
    """The word of one tenant, see `known_bad`. `place`: tenant_id, provider, account, region, zone, instance_type.

    `codes`: findings by the GPU's UUID; at least one.
    """
    seen = {"first_seen_at": func.now(), "last_seen_at": func.now()}
    # in the order of the UUIDs, so that no deadlock occurs
    rows = [{**place, "uuid": uuid, "finding": codes[uuid], **seen} for uuid in sorted(codes)]
    new = insert(bad_gpu).values(rows)
    again = {name: new.excluded[name] for name in ("account", "zone", "instance_type", "finding")}
    return new.on_conflict_do_update(
        index_elements=["provider", "region", "uuid", "tenant_id"],
        set_={**again, "last_seen_at": func.now(), "times": bad_gpu.c.times + 1},
    )


def remembered() -> AnySelect:
    """All rows, by place and GPU."""
    return select(bad_gpu).order_by(bad_gpu.c.provider, bad_gpu.c.region, bad_gpu.c.uuid, bad_gpu.c.tenant_id)


def forget(uuid: str) -> Delete:
    """Deletes the words of all tenants about a GPU."""
    return delete(bad_gpu).where(bad_gpu.c.uuid == uuid)
