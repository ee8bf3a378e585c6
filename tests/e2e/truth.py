"""What the cloud has and what the database says must be the same."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import NullPool, create_engine, text

from app.db.core.urls import sync_url
from app.db.operations.invariants import violations
from app.domain.tags import ATTEMPT, BATCH, LEASE
from app.local.waiting import wait_until
from tests.e2e.cloud import Cloud, Json
from tests.e2e.people import Operator, Tenant
from tests.e2e.stack import PATIENCE
from tests.e2e.volume_truth import NOTHING, Excused, volume_problems


def differences(
    operator: Operator,
    cloud: Cloud,
    database_url: str,
    *,
    forgotten: Collection[str] = frozenset(),
    excused: Excused = NOTHING,
) -> list[str]:
    """One line for each orphan, ghost, twin, broken invariant and disk that is wrong; empty when all is well.

    Both sides are read one after the other: a stack at rest is asked, or one whose leases do not change. `forgotten`: VMs
    that had ended before the database lost commits. A lease whose launch and release were lost is launched anew.
    `excused`: the same for volumes.
    """
    shown = [vm for vm in cloud.vms() if LEASE in vm["tags"] or BATCH in vm["tags"]]
    slots = launched_together(database_url)
    ours = [_labelled(vm, slots) for vm in shown]
    leases = operator.items("/v1/leases", state=["!terminal"])
    return [
        *_orphans(ours, leases),
        *_ghosts(ours, leases),
        *_twins([vm for vm in ours if vm["id"] not in cloud.planted and vm["id"] not in forgotten]),
        *_broken(database_url),
        *(f"{what}: {line}" for what, lines in volume_problems(cloud, database_url, excused).items() for line in lines),
    ]


def launched_together(database_url: str) -> dict[str, tuple[str, int]]:
    """Lease and attempt by the cloud's own id, of VMs that were launched together."""
    engine = create_engine(sync_url(database_url), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL ROLE gpulease_worker"))
        rows = connection.execute(
            text("SELECT instance_id, lease_id, n FROM attempt WHERE batch_id IS NOT NULL AND instance_id IS NOT NULL")
        )
        return {row.instance_id.rpartition(":")[2]: (row.lease_id, row.n) for row in rows}


def _labelled(vm: Json, slots: Mapping[str, tuple[str, int]]) -> Json:
    """A VM of a batch may not have tags of its own yet: then the database says whose it is, or that it is nobody's."""
    if LEASE in vm["tags"]:
        return vm
    lease_id, n = slots.get(vm["id"], ("nobody", 0))
    return {**vm, "tags": {**vm["tags"], LEASE: lease_id, ATTEMPT: str(n) if n else vm["id"]}}


def one_vm_each(cloud: Cloud, lease_ids: Collection[str]) -> bool:
    """Whether each lease has had one VM, by the VMs' own tags. A VM that was launched with others gets them a moment later."""

    def counts() -> set[int]:
        return {len(cloud.vms_of(lease_id)) for lease_id in lease_ids}

    return wait_until(lambda: counts() == {1}, timeout=PATIENCE)


def left_nothing(tenant: Tenant, operator: Operator, cloud: Cloud, database_url: str) -> None:
    """Ends the tenant's leases; then nothing of them may be left, and cloud and database must agree."""
    tenant.release_all()
    assert tenant.used() == {}
    assert cloud.resources_of_tenant(tenant.id) == []
    assert differences(operator, cloud, database_url) == []


def _orphans(vms: Iterable[Json], leases: Iterable[Json]) -> list[str]:
    living = {lease["id"] for lease in leases}
    return [f"orphan: {vm}" for vm in vms if vm["alive"] and vm["tags"][LEASE] not in living]


def _ghosts(vms: Iterable[Json], leases: Iterable[Json]) -> list[str]:
    alive = {(vm["id"], vm["tags"][LEASE]) for vm in vms if vm["alive"]}
    active = [lease for lease in leases if lease["state"] == "active"]
    return [f"ghost: {lease['id']}" for lease in active if (own_id(lease), lease["id"]) not in alive]


def own_id(lease: Json) -> str:
    """The cloud's own id of a lease's VM, without what an adapter needs besides to address it."""
    return str(lease["placement"]["instance_id"]).rpartition(":")[2]


def _twins(vms: list[Json]) -> list[str]:
    attempts = Counter((vm["tags"][LEASE], vm["tags"][ATTEMPT]) for vm in vms if vm["token"])
    tokens = Counter(vm["token"] for vm in vms if vm["token"] and BATCH not in vm["tags"])
    return [f"twin: {what} has {count} VMs" for what, count in (attempts + tokens).items() if count > 1]


def _broken(database_url: str) -> list[str]:
    engine = create_engine(sync_url(database_url), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL ROLE gpulease_worker"))
        return violations(connection)
