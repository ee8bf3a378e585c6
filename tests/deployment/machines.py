"""VMs of a simulated cloud as namespaces of one machine, set up from their user data. The trial's own namespace is their network.

A VM has its own network with the addresses that the simulated cloud gave it, its own name, and its own /etc, /home,
/usr/local/bin and /usr/local/sbin. It has no init system: the trial starts the programs that the user data names.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self

from tests.deployment.needs import program
from tests.deployment.processes import Process, await_, clean_environment, run

GATEWAY = "169.254.1.1"
"""The address of the trial's own namespace in each VM."""
USER = "ubuntu"
_UID = 65_533
_METADATA = "169.254.169.254"
_OWN = ("etc", "home", "usr/local/bin", "usr/local/sbin")
_SET_UP = (
    'for place in etc home usr/local/bin usr/local/sbin; do mount --bind "$1/$place" "/$place" || exit; done; '
    'hostname "$2" && exec sleep infinity'
)


@dataclass(frozen=True)
class Address:
    """The addresses of a VM, and its index in the call that launched it."""

    private: str
    public: str
    launch_index: int = 0


class Machine:
    """A VM. Call `start` before everything else, and `close` at the end."""

    def __init__(self, number: int, address: Address, folder: Path) -> None:
        self.address = address
        self.root = folder / f"vm{number}"
        self.name = f"ip-{address.private.replace('.', '-')}"
        self._number = number
        self._keeper: subprocess.Popen[bytes] | None = None
        self._processes: list[Process] = []

    def start(self, user_data: Mapping[str, Any]) -> None:
        """Creates the VM with its user, and with the keys and files of its user data (a cloud-config)."""
        for place in _OWN[1:]:
            (self.root / place).mkdir(parents=True)
        shutil.copytree("/etc", self.root / "etc", symlinks=True)
        for path, text in (("etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {self.name}\n"), ("etc/passwd", _PASSWD)):
            (self.root / path).write_text(text)
        self._install_login(user_data["ssh_authorized_keys"])
        for file in user_data["write_files"]:
            place = self.root / file["path"].lstrip("/")
            if place.relative_to(self.root).is_relative_to("etc") or place.parent.name == "sbin":
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(file["content"])
                place.chmod(int(file.get("permissions", "0644"), 8))
        unshared = [program("unshare"), "--net", "--mount", "--uts", "/bin/sh", "-c", _SET_UP, "sh"]
        self._keeper = subprocess.Popen([*unshared, str(self.root), self.name], stdin=subprocess.DEVNULL)
        await_("the namespaces of a VM", lambda: self._state() == "sleep", 20)
        self._connect()

    def close(self) -> None:
        for process in self._processes:
            process.end()
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.wait()

    def command(self, *words: str, user: str | None = None) -> list[str]:
        """The command line that runs these words in the VM. `user`: of the VM; None: root."""
        assert self._keeper is not None
        inside = [program("nsenter"), "--target", str(self._keeper.pid), "--net", "--mount", "--uts", "--"]
        return [*inside, *(as_user() if user else []), *words]

    def run(self, *words: str) -> str:
        return run(words[0], self.command(*words), clean_environment())

    def run_always(self, name: str, *words: str, user: str | None = None) -> Process:
        """A process that runs until `close`."""
        process = Process(f"{name}-{self._number}", self.command(*words, user=user), _environment(), self.root.parent)
        process.start()
        self._processes.append(process)
        return process

    def read(self, path: str) -> str:
        """A file of the VM; empty when there is none."""
        file = self.root / path.lstrip("/")
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def install(self, path: str, text: str) -> None:
        """A program of the VM."""
        place = self.root / path.lstrip("/")
        place.write_text(text, encoding="utf-8")
        place.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)

    def _install_login(self, keys: Sequence[str]) -> None:
        """As cloud-init does. The host key belongs to the user, who runs the server."""
        folder = self.root / "home" / USER / ".ssh"
        folder.mkdir(parents=True, mode=0o700)
        (folder / "authorized_keys").write_text("".join(f"{key}\n" for key in keys))
        host_key = self.root / "etc/ssh/ssh_host_ed25519_key"
        for old in host_key.parent.glob("ssh_host_*"):
            old.unlink()
        words = [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(host_key)]
        run("ssh-keygen", words, clean_environment())
        for path in (folder.parent, folder, folder / "authorized_keys", *host_key.parent.glob("ssh_host_*")):
            os.chown(path, _UID, _UID)

    def _connect(self) -> None:
        """A cable to the trial's namespace, which forwards between the VMs."""
        assert self._keeper is not None
        ip, near = program("ip"), f"vm{self._number}"
        ends = ["type", "veth", "peer", "name", "eth0", "netns", str(self._keeper.pid)]
        _run(ip, "link", "add", near, *ends)
        _run(ip, "address", "add", f"{GATEWAY}/32", "dev", near)
        _run(ip, "link", "set", near, "up")
        self.run(ip, "link", "set", "lo", "up")
        for address in (self.address.private, self.address.public):
            self.run(ip, "address", "add", f"{address}/32", "dev", "eth0")
            _run(ip, "route", "add", f"{address}/32", "dev", near)
        self.run(ip, "link", "set", "eth0", "up")
        self.run(ip, "route", "add", f"{GATEWAY}/32", "dev", "eth0", "src", self.address.private)
        self.run(ip, "route", "add", "default", "via", GATEWAY, "dev", "eth0", "src", self.address.private)

    def _state(self) -> str:
        assert self._keeper is not None
        with open(f"/proc/{self._keeper.pid}/comm", encoding="utf-8") as file:  # noqa: PTH123 - no file of the disk
            return file.read().strip()


_PASSWD = f"root:x:0:0::/root:/bin/sh\n{USER}:x:{_UID}:{_UID}::/home/{USER}:/bin/sh\n"


def as_user() -> list[str]:
    """The words before a command that make it run as the user of a VM."""
    return [program("setpriv"), f"--reuid={_UID}", f"--regid={_UID}", "--clear-groups", "--"]


class Metadata:
    """EC2's metadata service, as far as user data reads it: the launch index of the VM that asks."""

    def __init__(self) -> None:
        self._indexes: dict[str, int] = {}
        handler = type("Kept", (_Metadata,), {"indexes": self._indexes})
        _run(program("ip"), "address", "add", f"{_METADATA}/32", "dev", "lo")
        self._server = ThreadingHTTPServer((_METADATA, 80), handler)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def add(self, address: Address) -> None:
        self._indexes[address.private] = address.launch_index

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Metadata(BaseHTTPRequestHandler):
    indexes: Mapping[str, int]

    def do_PUT(self) -> None:
        self._answer("token")

    def do_GET(self) -> None:
        self._answer(str(self.indexes[self.client_address[0]]))

    def _answer(self, text: str) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002
        """The trial looks at the answers alone."""


def forward_between_machines() -> None:
    """Makes the trial's namespace a router."""
    _run("/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")


def _run(*words: str) -> str:
    return run(words[0], words, clean_environment())


def _environment() -> dict[str, str]:
    """Of a service: nothing of the trial's."""
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
