"""The world as `/_sim` returns it: JSON, times in RFC 3339 UTC."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from cloudsim.world import HEALTHY, Fault, Resource, Vm


def rfc3339(moment: float | None) -> str | None:
    """A time as `2026-11-20T12:34:56.789Z`."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def vm(of: Vm, now: float) -> dict[str, Any]:
    """Ground truth about one VM.

    `gpus`: their condition; None: healthy and busy. `boot_failure`: why it never runs, a code of its cloud.
    """
    return {
        "provider": of.provider,
        "account": of.account,
        "region": of.region,
        "zone": of.zone,
        "id": of.id,
        "name": of.name,
        "instance_type": of.instance_type,
        "market": of.market.value,
        "state": of.state.value,
        "alive": of.alive,
        "ready": of.is_ready(now),
        "tags": of.tags,
        "token": of.token,
        "image": of.image,
        "launched_at": rfc3339(of.launched_at),
        "ending_at": rfc3339(of.ending_at),
        "ended_at": rfc3339(of.ended_at),
        "end_reason": of.end_code or None,
        "boot_failure": of.boot_failure,
        "reclaim_at": rfc3339(of.reclaim_at),
        "gpus": None if of.gpus == HEALTHY else asdict(of.gpus),
    }


def launch(of: Vm) -> dict[str, Any]:
    """What one VM was launched with, in the cloud's own form, and the addresses that it got."""
    return {"id": of.id, "private_ip": of.private_ip, "public_ip": of.public_ip, "spec": dict(of.spec)}


def resource(of: Resource) -> dict[str, Any]:
    """Ground truth about a disk, network interface, address or firewall group."""
    return {
        "provider": of.provider,
        "account": of.account,
        "region": of.region,
        "zone": of.zone or None,
        "name": of.spec.get("name") or of.id.rpartition("/")[2],
        "kind": of.kind.value,
        "id": of.id,
        "instance_id": of.vm_id,
        "tags": of.tags,
        "created_at": rfc3339(of.created_at),
    }


def disk(of: Resource) -> dict[str, Any]:
    """Ground truth about a disk that was made without a VM, with its history.

    `vms`: those that have had it, and when each got it. `deleted_with`: the VM whose end took it along.
    """
    spec = of.spec
    return {
        **resource(of),
        "vms": [{"id": vm_id, "at": rfc3339(at)} for vm_id, at in spec.get("vms", ())],
        "deleted_at": rfc3339(spec.get("deleted_at")),
        "deleted_with": spec.get("deleted_with"),
    }


def fault(of: Fault) -> dict[str, Any]:
    """A standing fault; `times` is what is left of it."""
    return {
        "id": of.id,
        "provider": of.provider,
        "operation": of.operation,
        "mode": of.mode.value,
        "code": of.code,
        "times": of.times,
        "delay_seconds": of.delay_seconds,
        "region": of.region,
        "probability": of.probability,
        "count": of.count,
        "hits": of.hits,
    }
