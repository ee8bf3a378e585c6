"""cloudsim for tests, in a thread: `with running(boot_seconds=0.1) as sim: boto3.client(..., endpoint_url=sim.url)`."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from cloudsim.server import SimServer, Simulation, bind, system_clock
from cloudsim.settings import PROFILES, ProfileName
from cloudsim.world.core import Clock, World

START_SECONDS = 20.0
POLL_SECONDS = 0.05
CALL_SECONDS = 60.0
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody: the simulator speaks plain HTTP, and reading the system's certificates takes longer than most tests."""


_STAYS = re.compile(r"gpulease/[^/]+/closed(/|$)|gpulease-separate-|gpulease-[a-z0-9-]+-closed$")
"""Names at EC2, Google Cloud and Azure."""


class Control:
    """A client of the control API. Every method raises httpx.HTTPStatusError when it is refused."""

    world: World | None = None
    """The simulation's own state, where it runs in this process."""

    def __init__(self, url: str, tls: ssl.SSLContext = NO_TLS) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=CALL_SECONDS, trust_env=False, verify=tls)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def call(self, method: str, path: str, body: Any = None, params: Any = None) -> Any:
        """Any control call; the answer's JSON, None when there is none."""
        response = self._http.request(method, f"/_sim/{path}", json=body, params=params)
        if response.is_error:
            raise httpx.HTTPStatusError(response.text, request=response.request, response=response)
        return response.json() if response.content else None

    def instances(self, **filters: str) -> list[dict[str, Any]]:
        """Ground truth; filters: provider, account, region, alive, id, tag."""
        return list(self.call("GET", "instances", params=filters)["items"])

    def launches(self, **filters: str) -> list[dict[str, Any]]:
        """What VMs were launched with; filters as for instances."""
        return list(self.call("GET", "launches", params=filters)["items"])

    def resources(self, **filters: str) -> list[dict[str, Any]]:
        """Disks, network interfaces, addresses and firewall groups that exist.

        Without the firewall that all VMs of an installation of gpulease share, which stays.
        """
        listed = self.call("GET", "resources", params=filters)["items"]
        return [resource for resource in listed if not _STAYS.match(resource["name"])]

    def plant(self, *, provider: str = "aws", **fields: Any) -> list[str]:
        """VMs that no API call made; their ids."""
        return list(self.call("POST", "instances", {"provider": provider, **fields})["ids"])

    def capacity(self, available: int | None, *, provider: str = "aws", **place: str) -> None:
        """How many VMs can still start in a place."""
        self.call("PUT", "capacity", {"provider": provider, "available": available, **place})

    def offered(self, zone: str, instance_type: str, offered: bool, *, provider: str = "aws") -> None:  # noqa: FBT001
        """Begin or cease to sell a type in a zone."""
        body = {"provider": provider, "zone": zone, "instance_type": instance_type, "offered": offered}
        self.call("PUT", "offered", body)

    def quota(self, code: str, value: int | None, *, provider: str = "aws", **place: str) -> None:
        """Set a vCPU quota."""
        self.call("PUT", "quota", {"provider": provider, "code": code, "value": value, **place})

    def reserve(self, reservation_id: str, *, provider: str = "aws", **fields: Any) -> None:
        """Buy capacity ahead, or change what was bought: kind, zone, instance_type, total, starts_in, ends_in."""
        self.call("PUT", "reservations", {"provider": provider, "id": reservation_id, **fields})

    def spot_prices(self, factor: float, *, provider: str = "aws", **place: str) -> None:
        """Spot prices become their list prices times `factor`."""
        self.call("PUT", "spot-prices", {"provider": provider, "factor": str(factor), **place})

    def credentials(self, **fields: Any) -> None:
        """Which access keys are bad, whose the others are."""
        self.call("PUT", "credentials", fields)

    def deny(self, *actions: str, provider: str = "aws") -> None:
        """Deny these actions, and no others."""
        self.call("PUT", "denied", {"provider": provider, "actions": list(actions)})

    def refuse_launches(self, code: str | None, *, provider: str = "aws", **account: str) -> None:
        """Every launch of an account is refused with `code`; None: no longer."""
        self.call("PUT", "launch-refusals", {"provider": provider, "code": code, **account})

    def remove_image(self, image: str, *, provider: str = "aws") -> None:
        """There is no such image any more."""
        self.call("PUT", "images", {"provider": provider, "image": image})

    def close_subnet(self, subnet: str, *, provider: str = "aws", **state: Any) -> None:
        """A subnet takes no VM. `state`: `open` and `free_addresses` for a subnet that is only full."""
        self.call("PUT", "subnets", {"provider": provider, "subnet": subnet, **state})

    def subscription(self, state: str = "Enabled", *, unregistered: Sequence[str] = (), **account: str) -> None:
        """Put an Azure subscription into a state, without these resource providers and features."""
        body = {"state": state, "unregistered": list(unregistered), **account}
        self.call("PUT", "subscriptions", body)

    def gpus(self, *, provider: str = "aws", **condition: Any) -> None:
        """How the GPUs of one VM (`instance_id`) are, or of VMs launched from now on."""
        self.call("PUT", "gpus", {"provider": provider, **condition})

    def settings(self, **changes: Any) -> dict[str, Any]:
        """Change settings; all settings in force."""
        return dict(self.call("PUT", "settings", changes))

    def fault(self, operation: str, mode: str, *, provider: str = "aws", **fields: Any) -> int:
        """Put a fault upon an operation; its id."""
        return int(
            self.call("POST", "faults", {"provider": provider, "operation": operation, "mode": mode, **fields})["id"]
        )

    def faults(self) -> list[dict[str, Any]]:
        """Faults that still stand."""
        return list(self.call("GET", "faults")["items"])

    def clear_faults(self) -> None:
        """No faults any more."""
        self.call("DELETE", "faults")

    def interrupt(self, instance_id: str, notice_seconds: float, *, provider: str = "aws", **fields: str) -> None:
        """Spot reclaim."""
        body = {"provider": provider, "instance_id": instance_id, "notice_seconds": notice_seconds, **fields}
        self.call("POST", "interrupt", body)

    def stop(self, instance_id: str, *, provider: str = "aws", **fields: str) -> None:
        """Somebody ends the VM."""
        self.call("POST", "stop", {"provider": provider, "instance_id": instance_id, **fields})

    def protect(self, thing_id: str, *, provider: str = "aws", protected: bool = True) -> None:
        """The API refuses to delete this VM or resource; `protected` False: it deletes it again."""
        self.call("PUT", "protection", {"provider": provider, "id": thing_id, "protected": protected})

    def calls(self, provider: str = "aws") -> dict[str, int]:
        """API calls by operation."""
        return dict(self.call("GET", "calls")[provider])

    def reset(self) -> None:
        """Start over."""
        self.call("POST", "reset")


@contextmanager
def running(
    profile: ProfileName = "fast",
    *,
    clock: Clock = system_clock,
    state: Path | None = None,
    certificate: Path | None = None,
    **settings: Any,
) -> Iterator[Control]:
    """A simulation on a free port of its own, with `settings` over the profile's.

    It ends soon after the block. With `state`, the block waits until the file is written.
    `clock` lets a test own the time of the clouds; waits of faults (`delay`, `hang`) always take real time.
    `certificate`: a PEM file with the key and certificate of 127.0.0.1, for TLS instead of plain HTTP.
    """
    simulation = Simulation(PROFILES[profile].changed(**settings), state=state, clock=clock)
    server = SimServer(simulation, log_config=None, certificate=certificate)
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    if not server.ready.wait(START_SECONDS):
        raise RuntimeError("cloudsim did not start")
    if certificate is None:
        control = Control(f"http://127.0.0.1:{port}")
    else:
        control = Control(f"https://127.0.0.1:{port}", ssl.create_default_context(cafile=str(certificate)))
    control.world = simulation.world
    try:
        yield control
    finally:
        control.close()
        server.should_exit = True
        # uvicorn takes two tenths of a second to end, as long as many a test
        if state is not None or certificate is not None:
            thread.join(START_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_healthy(control: Control) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            control.call("GET", "health")
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
            threading.Event().wait(POLL_SECONDS)
        else:
            return


@contextmanager
def own_process(*arguments: str, port: int | None = None) -> Iterator[tuple[subprocess.Popen[bytes], Control]]:
    """`python -m cloudsim --profile fast` with `arguments` on a free port; killed with the block.

    For what a thread cannot show: signals, state files after kill -9, speed without the caller's GIL.
    """
    port = port or _free_port()
    command = [sys.executable, "-m", "cloudsim", "--port", str(port), "--profile", "fast", *arguments]
    started = subprocess.Popen(command)
    control = Control(f"http://127.0.0.1:{port}")
    try:
        _wait_until_healthy(control)
        yield started, control
    finally:
        control.close()
        started.kill()
        started.wait()
