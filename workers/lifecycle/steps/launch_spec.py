"""What a launch asks a cloud for, from what the tenant chose and where the lease is placed."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from app.domain import placed
from app.domain.billing import SECONDS_PER_HOUR
from app.domain.lease_requests import BenchmarkMode
from app.domain.lifecycle import deadline
from app.domain.offerings import Offering
from app.domain.rates import rate_at
from app.domain.tags import OwnerTags
from app.domain.tokens import agent_token, host_key_token, launch_token, params_hash
from app.domain.volumes import VolumeMount
from workers.lifecycle.steps.context import ClaimLostError, StepContext
from workers.lifecycle.steps.group_spec import group_spec
from workers.lifecycle.steps.reservation_slot import ReservationSlot
from workers.providers.types import AgentConfig, GroupSpec, HostKeyReport, Image, LaunchSpec, VolumeSpec


class LaunchDetails(NamedTuple):
    """What only a launch needs to know: the tenant's script, the seconds that a lease may last at most, its group and its slot.

    `volumes`: the provider's ids of the volumes that the lease holds, by name.
    """

    script: str | None
    longest: int
    group: GroupSpec | None = None
    slot: ReservationSlot | None = None
    volumes: Mapping[str, str] = {}

    @classmethod
    def of(cls, ctx: StepContext, known: Any, n: int, slot: ReservationSlot | None = None) -> Self:
        """`known`: a row of `launches.private`. `n`: of the attempt."""
        return cls(known.startup_script, known.max_total_seconds, group_spec(ctx, known, n), slot, known.volumes or {})


def launch_spec(ctx: StepContext, offering: Offering, image: Image, n: int, private: LaunchDetails) -> LaunchSpec:
    """The spec of a launch. The tagged hash is over what the tenant chose and where, without the tags."""
    lease, runtime, request = ctx.lease, ctx.runtime, ctx.lease.request
    chosen = {"request": request.as_json(), "script": private.script}
    basis = {**chosen, "offering": facts(offering, image), "zone": offering.key.zone}
    owner = OwnerTags(
        installation=runtime.installation.id,
        lease_id=lease.id,
        n=n,
        tenant_id=lease.tenant_id,
        params_hash=params_hash(basis),
        deadline_at=deadline(lease, runtime.timing),
    )
    return LaunchSpec(
        token=launch_token(runtime.installation.token_key, runtime.installation.id, lease.id, n),
        owner=owner,
        name=ctx.row.lease_name,
        region=offering.key.region,
        zone=offering.key.zone,
        instance_type=offering.key.instance_type,
        market=offering.key.market,
        image=image,
        disk_gib=request.disk_gib,
        public_ip=request.public_ip,
        ssh_public_keys=request.ssh_public_keys,
        startup_script=private.script,
        labels=ctx.row.lease_labels,
        allowed_cidrs=request.allowed_cidrs or (),
        ssh_port=runtime.accounts.ssh_port(offering.key.account),
        host_keys=_host_keys(ctx, n),
        agent=_agent(ctx, n),
        max_seconds=_longest_run(ctx, offering, private) + int(runtime.timing.deadline_grace),
        reservation=offering.key.reservation,
        queue_seconds=_queue_seconds(ctx, private.slot),
        group=private.group,
        volumes=volume_specs(request.volumes, private.volumes),
    )


def volume_specs(mounts: Sequence[VolumeMount], cloud_ids: Mapping[str, str]) -> tuple[VolumeSpec, ...]:
    """The volumes of a lease as its VM mounts them. `cloud_ids`: of the volumes that it holds, by name.

    A lease holds its volumes until it has ended. Raises ClaimLostError when one is missing: another worker has ended it.
    """
    if any(mount.name not in cloud_ids for mount in mounts):
        raise ClaimLostError
    return tuple(
        VolumeSpec(cloud_id=cloud_ids[mount.name], path=mount.path, index=index) for index, mount in enumerate(mounts)
    )


def _queue_seconds(ctx: StepContext, slot: ReservationSlot | None) -> int | None:
    """Seconds that the launch may wait in the provider's queue: what is left of the lease's wait, and the least allowed."""
    if slot is None or slot.reservation.shortest_wait is None:
        return None
    return max(slot.reservation.shortest_wait, int((ctx.lease.wait_until - ctx.now).total_seconds()))


def _longest_run(ctx: StepContext, offering: Offering, private: LaunchDetails) -> int:
    """Seconds that the VM may be needed: of all extensions together, or of the present term where there are none.

    No extension passes the end of a reservation. Where nobody can extend the term, the spend cap limits it too.
    """
    if ctx.runtime.accounts.is_extendable(offering.key.account):
        until = private.slot.until if private.slot is not None else None
        reserved = private.longest if until is None else int((until - ctx.now).total_seconds())
        return min(private.longest, reserved)
    term = max(0, int((ctx.lease.expires_at - ctx.now).total_seconds()))
    rate = rate_at(offering, ctx.lease.request.parts).total
    if ctx.lease.spendable is None or not rate:
        return term
    return min(term, int(ctx.lease.spendable * SECONDS_PER_HOUR / rate))


def _host_keys(ctx: StepContext, n: int) -> HostKeyReport | None:
    url, installation = ctx.runtime.settings.public_url, ctx.runtime.installation
    if url is None:
        return None
    token = host_key_token(installation.token_key, installation.id, ctx.lease.id, n)
    return HostKeyReport(url=f"{url}/v1/host-keys", token=token)


def _agent(ctx: StepContext, n: int) -> AgentConfig | None:
    settings, installation, request = ctx.runtime.settings, ctx.runtime.installation, ctx.lease.request
    needs_agent = request.wants_agent or ctx.lease.idle_floor is not None
    if settings.agent == "off" or not needs_agent:
        return None
    return AgentConfig(
        token=agent_token(installation.token_key, installation.id, ctx.lease.id, n),
        url=settings.public_url,
        benchmark=request.benchmark is not BenchmarkMode.OFF,
        sample_seconds=settings.sample_seconds,
    )


def facts(offering: Offering, image: Image) -> dict[str, Any]:
    """The VM's type and image, as stored with an attempt."""
    known = {"id": image.id, "name": image.name, "driver_version": image.driver_version}
    return placed.hardware(offering.type, known)
