"""The process around the world: ASGI app, uvicorn, loopback only."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import random
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from uvicorn.config import LOGGING_CONFIG
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cloudsim.admission import Gate
from cloudsim.arm.catalog import PROVIDER as AZURE_NAME
from cloudsim.arm.catalog import catalog as azure_catalog
from cloudsim.arm.cloud import AZURE
from cloudsim.arm.http_app import ArmFront
from cloudsim.control.api import ControlApi
from cloudsim.control.disks import DisksApi
from cloudsim.control.gpus import GpusApi
from cloudsim.control.restrictions import RestrictionsApi
from cloudsim.credentials import Credentials
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.catalog import catalog as aws_catalog
from cloudsim.ec2.cloud import AWS
from cloudsim.ec2.http_app import AwsFront
from cloudsim.gce.catalog import PROVIDER as GCP_NAME
from cloudsim.gce.catalog import catalog as gcp_catalog
from cloudsim.gce.cloud import GCP
from cloudsim.gce.http_app import GceFront
from cloudsim.settings import Settings
from cloudsim.ssh.files import FilesApi
from cloudsim.store import Store
from cloudsim.world import World
from cloudsim.world.core import Clock

GRACE_SECONDS = 1
KEEP_ALIVE_SECONDS = 350
"""A client that reuses a connection in the moment it is closed learns no outcome."""


def system_clock() -> float:
    """Seconds since the epoch."""
    return time.time()


class DroppableProtocol(HttpToolsProtocol):
    """HTTP whose connection the application can cut without an answer."""

    def on_message_begin(self) -> None:
        """A request begins: give it the means."""
        super().on_message_begin()
        self.scope["cloudsim.abort"] = self.transport.abort  # pyrefly: ignore[bad-typed-dict-key]


class Simulation:
    """One world with everything that stands around it. Raises StateUnreadable for a bad state file.

    `beside`: what else runs over the world until the end, such as the SSH servers of its VMs.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        seed: int | None = None,
        state: Path | None = None,
        clock: Clock = system_clock,
        beside: Callable[[World], Iterable[Coroutine[Any, Any, None]]] = lambda _world: (),
    ) -> None:
        rng = random.Random(seed)  # noqa: S311  ids and chances, no secrets
        self.world = World([aws_catalog(), gcp_catalog(), azure_catalog()], settings, clock=clock, rng=rng)
        self.credentials = Credentials()
        self.closing = asyncio.Event()
        gate = Gate(self.world, self.closing)
        front = AwsFront(self.world, gate, self.credentials)
        gce = GceFront(self.world, gate, lambda: self.credentials.bad)
        arm = ArmFront(self.world, gate, self.credentials)
        clouds = {PROVIDER: AWS, GCP_NAME: GCP, AZURE_NAME: AZURE}
        control = ControlApi(self.world, clouds, self.credentials)
        restrictions = RestrictionsApi(self.world, clouds)
        aws = Route("/", front.endpoint, methods=["POST"])
        more = [api(self.world) for api in (GpusApi, DisksApi, FilesApi)]
        controls = [*control.routes(), *restrictions.routes(), *(route for api in more for route in api.routes())]
        self.app = Starlette(routes=[aws, *gce.routes(), *arm.routes(), *controls])
        self._store = Store(state, self.world, self.credentials) if state else None
        self._beside = beside
        self._tasks: list[asyncio.Task[None]] = []

        if self._store is not None:
            self._store.load()

    async def start(self) -> None:
        """Begin to keep the state file, if there is one, and what runs beside the world."""
        if self._store is not None:
            self._tasks.append(asyncio.create_task(self._store.keep()))
        self._tasks += [asyncio.create_task(endless) for endless in self._beside(self.world)]

    async def finish(self) -> None:
        """Write what is left."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._store is not None:
            self._store.close()


class SimServer(uvicorn.Server):
    """Ends hanging requests first when a signal ends it. `log_config`: None leaves logging as it is.

    `certificate`: a PEM file with a key and its certificate, for TLS.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        log_config: dict[str, Any] | None = LOGGING_CONFIG,
        certificate: Path | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                simulation.app,
                http=DroppableProtocol,
                ws="none",
                lifespan="off",
                proxy_headers=False,
                log_config=log_config,
                log_level="warning",
                access_log=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
                ssl_certfile=certificate,
            )
        )
        self._simulation = simulation
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Load the world before anybody can ask about it."""
        await self._simulation.start()
        await super().startup(sockets=sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what waits, then answer what is left, then store."""
        self._simulation.closing.set()
        await super().shutdown(sockets=sockets)
        await self._simulation.finish()


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ValueError for a host that is not loopback, OSError for a taken port."""
    if not _is_loopback(host):
        raise ValueError(f"{host} is not a loopback address")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2_048)
    except OSError:
        listener.close()
        raise
    return listener
