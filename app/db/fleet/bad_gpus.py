"""GPUs that failed a check, so that a host handed out again is recognised."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import func
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.schema.tables import bad_gpu


def remember(place: Mapping[str, Any], codes: Mapping[str, str]) -> Insert:
    """`place`: provider, account, region, zone, instance_type. `codes`: findings by the GPU's UUID; at least one."""
    seen = {"first_seen_at": func.now(), "last_seen_at": func.now()}
    # in the order of the UUIDs, so that no deadlock occurs
    rows = [{**place, "uuid": uuid, "finding": codes[uuid], **seen} for uuid in sorted(codes)]
    new = insert(bad_gpu).values(rows)
    again = {name: new.excluded[name] for name in ("account", "region", "zone", "instance_type", "finding")}
    return new.on_conflict_do_update(
        index_elements=["provider", "uuid"],
        set_={**again, "last_seen_at": func.now(), "times": bad_gpu.c.times + 1},
    )
