"""One VM's agent as a process: the file of its user data, unchanged, over a folder that stands for the VM's disk."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from cloudsim.user_data import Files

AGENT = "/usr/local/sbin/gpulease-agent"
CONFIG = "/etc/gpulease/agent.json"
NOWHERE = "http://127.0.0.1:9"
"""Nothing listens at the discard port: where the agent of a VM without a network sends."""
_SERIAL = "dev/ttyS0"
_END_SECONDS = 2.0


class AgentProcess:
    """The agent of one boot. `root`: an empty folder, which `end` removes."""

    def __init__(self, root: Path, files: Files) -> None:
        self._root = root
        self._files = files
        self._process: asyncio.subprocess.Process | None = None
        self._printed = 0

    async def start(self, state: dict[str, Any], *, network: bool) -> None:
        """Writes the VM's files and starts the agent's loop, which sends the proof first."""
        for path, content in self._files.items():
            target = self._root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        if not network:
            config = json.loads(self._files[CONFIG])
            (self._root / CONFIG.lstrip("/")).write_text(json.dumps({**config, "url": NOWHERE}), encoding="utf-8")
        self.tell(state)
        agent = self._root / AGENT.lstrip("/")
        with (self._root / "agent.log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "cloudsim.gpus.child", str(self._root / "gpus.json"), str(agent)),
                *("run", "--root", str(self._root)),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    def tell(self, state: dict[str, Any]) -> None:
        """Sets what the driver reports from now on."""
        fresh = self._root / "gpus.json.new"
        fresh.write_text(json.dumps(state), encoding="utf-8")
        fresh.replace(self._root / "gpus.json")

    def new_lines(self) -> list[str]:
        """Whole lines that it has printed on the serial console since the last call."""
        try:
            text = (self._root / _SERIAL).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        end = text.rfind("\n") + 1
        lines = text[self._printed : end].splitlines()
        self._printed = max(self._printed, end)
        return [line for line in lines if line.strip()]

    async def end(self) -> None:
        """Ends the process by its pid, and removes the folder."""
        if self._process is not None:
            await _end(self._process)
        shutil.rmtree(self._root, ignore_errors=True)


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
