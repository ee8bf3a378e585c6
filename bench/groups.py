"""Groups at documented request rates: how long one takes to form, and how soon a failed formation holds nothing.

Each size is measured twice in one run: with a create call for each member, which is the baseline, and with one call for
all of them. `calls_…` counts the provider's create calls.
"""

import argparse
import time
import uuid
from dataclasses import dataclass
from typing import Any

import httpx

from app.local.waiting import wait_until
from bench import report, stack
from bench.burst import AMPLE_VCPUS, REALISTIC_BOOT_SECONDS, TYPES, lease_body
from bench.stack import Stack

LAUNCHES = {
    "aws": ("RunInstances",),
    "gcp": ("instances.bulkInsert", "instances.insert"),
    "azure": ("VirtualMachines.CreateOrUpdate",),
}
_PATIENCE = 600.0
_FORM_SECONDS = 60
_HELD = {"pending", "running"}


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    for size in arguments.sizes:
        forming(arguments.provider, size)
    retreating(arguments.provider)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__)
    parser.add_argument("--provider", choices=sorted(TYPES), default="aws")
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 32], help="members of a group")
    return parser.parse_args()


@dataclass(frozen=True)
class Customer:
    """Calls the API with the tenant's key."""

    running: Stack
    http: httpx.Client

    def create(self, size: int, provider: str, **wish: Any) -> str:
        """A new group of `size` members. Returns its id."""
        body = {"name": f"group-{uuid.uuid4().hex[:8]}", "size": size, "lease": lease_body(provider), **wish}
        answer = self.http.post("/v1/groups", json=body, headers={"Idempotency-Key": str(uuid.uuid4())})
        answer.raise_for_status()
        return str(answer.json()["id"])

    def group(self, group_id: str) -> Any:
        """The group as it is now."""
        answer = self.http.get(f"/v1/groups/{group_id}")
        answer.raise_for_status()
        return answer.json()

    def await_state(self, group_id: str, state: str) -> float:
        """Seconds until the group is in `state`. Raises SystemExit when it does not get there."""
        began = time.monotonic()
        if not wait_until(lambda: self.group(group_id)["state"] == state, timeout=_PATIENCE, poll=0.1):
            raise SystemExit(f"not {state}: {self.group(group_id)}")
        return time.monotonic() - began


def forming(provider: str, size: int) -> None:
    """From the request until every member is ready."""

    def measured(**settings: str) -> dict[str, float]:
        with stack.running(*_options(provider), **settings) as running, _customer(running) as http:
            customer, before = Customer(running, http), _launches(running, provider)
            seconds = customer.await_state(customer.create(size, provider), "active")
            return {"seconds": seconds, "calls": _launches(running, provider) - before}

    alone, together = measured(launch_batch="1"), measured()
    report.figure(
        f"a group of {size} at {provider}, from the request to active",
        together["seconds"],
        "s",
        ("a call for each member", alone["seconds"]),
        boot=REALISTIC_BOOT_SECONDS,
        calls=together["calls"],
        calls_alone=alone["calls"],
    )


def retreating(provider: str) -> None:
    """Eight members are wanted and the pool has room for seven: from the end of `form_seconds` until no VM is left there."""
    with stack.running(*_options(provider)) as running, _customer(running) as http:
        customer = Customer(running, http)
        running.simulate("PUT", "capacity", {"provider": provider, "instance_type": TYPES[provider], "available": 7})
        began = time.monotonic()
        group_id = customer.create(8, provider, form_seconds=_FORM_SECONDS, placement="same_zone")
        if not wait_until(lambda: bool(customer.group(group_id)["pools_tried"]), timeout=_PATIENCE, poll=0.1):
            raise SystemExit(f"no pool has failed: {customer.group(group_id)}")
        failed = time.monotonic()
        first = customer.group(group_id)["pools_tried"][0]
        if not wait_until(lambda: not _alive_in(running, first["zone"]), timeout=_PATIENCE, poll=0.1):
            raise SystemExit("VMs of the failed pool still run")
        report.figure(
            f"8 of 8 wanted at {provider}, 7 to be had: from the failure of the pool until none of its VMs runs",
            time.monotonic() - failed,
            "s",
            ("form_seconds", _FORM_SECONDS),
            failed_after=failed - began,
        )


def _alive_in(running: Stack, zone: str) -> list[Any]:
    vms = running.simulate("GET", "instances?alive=true")["items"]
    return [vm for vm in vms if vm["zone"] == zone and vm["state"] in _HELD]


def _launches(running: Stack, provider: str) -> int:
    calls = running.simulate("GET", "calls")[provider]
    return sum(calls.get(name, 0) for name in LAUNCHES[provider])


def _options(provider: str) -> list[str]:
    return ["--profile", "realistic", "--workers", "2", "--clouds", provider, "--gpu-agents", "0"]


def _customer(running: Stack) -> httpx.Client:
    running.ample_quota()
    running.simulate("PUT", "settings", {"default_quota_vcpus": AMPLE_VCPUS})
    headers = {"Authorization": f"Bearer {running.tenant_key}"}
    return httpx.Client(base_url=running.api_url, headers=headers, timeout=60, trust_env=False)


if __name__ == "__main__":
    main()
