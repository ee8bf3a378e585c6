"""What the VMs of a launch batch share: its size, its key, its spec, and the tokens of its slots."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, NamedTuple

from app.domain.ids import BatchId
from app.domain.leases import Lease
from app.domain.lifecycle import deadline
from app.domain.offerings import OfferingKey
from app.domain.tokens import (
    agent_hash,
    agent_token,
    batch_key,
    batch_token,
    host_key_hash,
    host_key_token,
    launch_name,
    slot_secret,
    slot_token,
)
from workers.lifecycle.steps.context import StepContext
from workers.providers.types import LaunchSpec, Params, Slot
from workers.runtime.runtime import Runtime

_OF_ONE_VM = frozenset({"token", "owner", "name"})
_WITH_TOKENS = ("host_keys", "agent", "group")


def most_together(runtime: Runtime, key: OfferingKey) -> int:
    """The maximum number of VMs of one create call at this offering. 1: each attempt is launched alone.

    A reservation counts its slots one by one. Where nobody can extend a lease, the parameters hold the lease's own end.
    """
    if key.reservation is not None or not runtime.accounts.is_extendable(key.account):
        return 1
    return min(runtime.settings.launch_batch, runtime.accounts.provider(key.account).limits.batch)


def shared_key(spec: LaunchSpec, lease: Lease, account: str, key_id: str | None) -> str:
    """The key over all of `spec` but what a slot of a batch has of its own: only equal keys are launched together.

    The time to live is a part of it: the VMs have one deadline tag in common until each has its own. So is the name of
    the image: a refusal concerns either the image that a tenant has named or the offering. So is the API key that created
    the lease. Code in one VM learns the tokens of the other VMs of its call, and keys of a tenant may trust each other less.
    """
    request = lease.request
    shared: dict[str, Any] = {name: value for name, value in asdict(spec).items() if name not in _OF_ONE_VM}
    for reporter in _WITH_TOKENS:
        shared[reporter] = {**(shared[reporter] or {}), "token": None}
    requested = {"image_name": request.image, "ttl_seconds": request.ttl_seconds}
    return batch_key({**shared, **requested, "account": account, "tenant": lease.tenant_id, "key": key_id})


def batch_params(ctx: StepContext, spec: LaunchSpec, batch_id: BatchId, slots: Sequence[StepContext]) -> Params:
    """The parameters of the one create call. `spec`: that of the leading attempt, whose own values are replaced."""
    runtime = ctx.runtime
    token = token_of_batch(ctx, batch_id)
    shared = replace(
        spec,
        token=token,
        owner=replace(
            spec.owner,
            params_hash=ctx.row.attempt_batch_key[: len(spec.owner.params_hash)],
            deadline_at=_latest_deadline(slots),
        ),
        host_keys=replace(spec.host_keys, token="") if spec.host_keys else None,
        agent=replace(spec.agent, token="") if spec.agent else None,
        group=replace(spec.group, token="") if spec.group else None,
        slot_secret=slot_secret(runtime.installation.token_key, runtime.installation.id, batch_id),
    )
    numbered = [Slot(index=index, token=slot.attempt.token, owner=slot.owner) for index, slot in enumerate(slots)]
    return ctx.provider.plan_batch(shared, batch_id, token, numbered)


def token_of_batch(ctx: StepContext, batch_id: BatchId) -> str:
    """The token of the batch's create call."""
    return batch_token(ctx.runtime.installation.token_key, ctx.runtime.installation.id, batch_id)


def _latest_deadline(slots: Sequence[StepContext]) -> datetime:
    return max(deadline(slot.lease, slot.runtime.timing) for slot in slots)


class TokenHashes(NamedTuple):
    """The stored forms of the tokens that the VM of an attempt has. None: it has no such token."""

    host_key: bytes | None
    agent: bytes | None


def slot_hashes(ctx: StepContext, spec: LaunchSpec, batch_id: BatchId, index: int) -> TokenHashes:
    """Of an attempt that is launched as a slot of a batch: its VM derives the tokens from the batch's secret."""
    return TokenHashes(
        host_key=host_key_hash(_slot_token(ctx, batch_id, index, "host-keys")) if spec.host_keys else None,
        agent=agent_hash(_slot_token(ctx, batch_id, index, "agent")) if _agent_token(spec) is not None else None,
    )


def own_spec(ctx: StepContext, spec: LaunchSpec) -> LaunchSpec:
    """Of an attempt that is launched alone. `spec`: of another attempt of its key."""
    key, installation = ctx.runtime.installation.token_key, ctx.runtime.installation.id
    identity = (key, installation, ctx.lease.id, ctx.attempt.n)
    return replace(
        spec,
        token=ctx.attempt.token,
        owner=ctx.owner,
        name=ctx.row.lease_name,
        host_keys=replace(spec.host_keys, token=host_key_token(*identity)) if spec.host_keys else None,
        agent=replace(spec.agent, token=agent_token(*identity)) if spec.agent else None,
        group=replace(spec.group, token=agent_token(*identity)) if spec.group else None,
    )


def own_hashes(spec: LaunchSpec) -> TokenHashes:
    """Of an attempt that is launched alone, by its own spec."""
    token = _agent_token(spec)
    return TokenHashes(
        host_key=host_key_hash(spec.host_keys.token) if spec.host_keys else None,
        agent=agent_hash(token) if token is not None else None,
    )


def _agent_token(spec: LaunchSpec) -> str | None:
    """The token with which the VM's agent reports, and the VM of a group's member reads the hosts of its group."""
    if spec.agent is not None:
        return spec.agent.token
    return spec.group.token if spec.group is not None and spec.group.hosts_url is not None else None


def token_of_agent(ctx: StepContext) -> str:
    """The token of the agent in the VM of the lease's newest attempt."""
    if ctx.row.attempt_batch_id is not None:
        return _slot_token(ctx, ctx.row.attempt_batch_id, ctx.row.attempt_batch_index, "agent")
    installation = ctx.runtime.installation
    return agent_token(installation.token_key, installation.id, ctx.lease.id, ctx.attempt.n)


def _slot_token(ctx: StepContext, batch_id: BatchId, index: int, purpose: str) -> str:
    """The VM knows its slot by its launch index, or by its name where the cloud shows no index."""
    installation = ctx.runtime.installation
    secret = slot_secret(installation.token_key, installation.id, batch_id)
    slot = launch_name(ctx.attempt.token) if ctx.provider.limits.named_slots else index
    return slot_token(secret, purpose, slot)
