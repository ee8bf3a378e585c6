"""A VM for the agent: its files below a folder, fake GPUs, and an API that keeps what it is sent."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread
from typing import Any

from app.agent import gpulease_agent
from tests.house.sources import ROOT

AGENT = Path(gpulease_agent.__file__)
TOKEN = "0123456789abcdef" * 4
SECONDS = 60


@dataclass(slots=True)
class FakeApi:
    """Keeps requests. `statuses`: answers by path, the last one for all that follow; without one 204.

    `kind`: the media type of answers other than 204. `ahead`: of the API's clock, in seconds.
    """

    statuses: dict[str, list[int]] = field(default_factory=dict)
    kind: str = "application/problem+json"
    ahead: float = 0.0
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    changed: Condition = field(default_factory=Condition)
    url: str = ""

    def bodies(self, path: str) -> list[Any]:
        return [body for asked, _, body in self.requests if asked == f"/v1/agent/{path}"]

    def wait(self, path: str, count: int) -> list[Any]:
        """The bodies, once there are `count`."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.bodies(path)) >= count, SECONDS), self.requests
        return self.bodies(path)

    def answer(self, path: str, token: str, text: bytes) -> int:
        answers = self.statuses.get(path.rpartition("/")[2], [204])
        with self.changed:
            self.requests.append((path, token, json.loads(text)))
            self.changed.notify_all()
        return answers.pop(0) if len(answers) > 1 else answers[0]


@contextmanager
def serving(api: FakeApi) -> Iterator[FakeApi]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"]))
            status = api.answer(self.path, self.headers["Authorization"], text)
            self.send_response_only(status)
            self.send_header("Date", self.date_time_string(time.time() + api.ahead))
            if status != 204:
                self.send_header("Content-Type", api.kind)
            self.end_headers()

        def log_message(self, *_: object, **_named: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        api.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()


@dataclass(slots=True)
class FakeVm:
    """`state`: see `cloudsim.gpus.fake_nvml`."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def console(self) -> str:
        return (self.root / "dev/ttyS0").read_text()

    def configure(self, url: str | None, **settings: Any) -> None:
        path = self.root / "etc/gpulease/agent.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"url": url, "token": TOKEN, **settings}))

    def set(self, **state: Any) -> None:
        new = self.folder / "new.json"
        new.write_text(json.dumps(state))
        new.replace(self.folder / "gpus.json")

    def command(self, *arguments: str) -> list[str]:
        agent = [str(self.folder / "gpus.json"), str(AGENT), *arguments, "--root", str(self.root)]
        return [sys.executable, "-S", "-m", "cloudsim.gpus.fake_nvml", *agent]

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*arguments),
            cwd=ROOT,
            env=os.environ | (env or {}),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def show(self) -> dict[str, Any]:
        """What the agent would send: `proof` and `sample`."""
        done = self.run("show")
        assert done.returncode == 0, done.stderr
        shown: dict[str, Any] = json.loads(done.stdout)
        return shown

    @contextmanager
    def service(self, *arguments: str, env: dict[str, str] | None = None) -> "Iterator[subprocess.Popen[bytes]]":
        """The agent's service, ended at the end."""
        process = subprocess.Popen(self.command("run", *arguments), cwd=ROOT, env=os.environ | (env or {}))
        try:
            yield process
        finally:
            process.kill()
            process.wait()
