"""What every call to a simulated cloud goes through before work is done: counting and faults."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cloudsim.world import Fault, FaultMode, World

DEFAULT_HANG_SECONDS = 600.0


class DroppedConnection(Response):
    """No answer: the connection is cut without a byte. The server puts the means into the scope."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  nothing is sent
        """Cut, and wait until it is."""
        scope["cloudsim.abort"]()
        await receive()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a call goes on: at once with `fault` None or an error to answer, or dropped.

    `change`: a fault that changes what the call does.
    """

    fault: Fault | None = None
    change: Fault | None = None
    drop_before: bool = False
    drop_after: bool = False


class Gate:
    """Stands before one world. `closing` is set when the process ends, which ends all waiting."""

    def __init__(self, world: World, closing: asyncio.Event) -> None:
        self.world = world
        self._closing = closing

    async def admit(self, request: Request, provider: str, operation: str, region: str) -> Verdict:
        """Count the call, meet its fault, and wait as long as that one says."""
        self.world.calls[provider, operation, region] += 1
        fault = self.world.faults.take(provider, operation, region)
        if fault is None:
            return Verdict()
        self.world.touch_facts()
        match fault.mode:
            case FaultMode.ERROR | FaultMode.THROTTLE:
                return Verdict(fault=fault)
            case FaultMode.PARTIAL | FaultMode.SHUFFLE | FaultMode.FAIL_AFTER | FaultMode.INCOMPLETE:
                return Verdict(change=fault)
            case FaultMode.LOSE_REPLY:
                return Verdict(drop_after=True)
            case FaultMode.DELAY:
                closed = await self._wait(fault.delay_seconds or 0.0)
                return Verdict(drop_before=closed)
            case FaultMode.HANG:
                await self._hang(request, fault.delay_seconds or DEFAULT_HANG_SECONDS)
                return Verdict(drop_before=True)

    async def _wait(self, seconds: float) -> bool:
        """True when the process ends meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()
                return True
        return False

    async def _hang(self, request: Request, seconds: float) -> None:
        """Until the time is over, the caller gives up or the process ends."""
        gone = asyncio.ensure_future(request.receive())
        waiting = asyncio.ensure_future(self._wait(seconds))
        _, unfinished = await asyncio.wait((gone, waiting), return_when=asyncio.FIRST_COMPLETED)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
