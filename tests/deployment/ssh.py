"""Logins by OpenSSH's own server: a lease's VM is an unprivileged sshd on loopback, set up from the VM's user data.

The simulated cloud gives every VM the address of this machine, and the account names the port. The sshd lives in a mount
namespace in which the login's user exists. It runs as that user and has the keys that cloud-init would have installed. Without
installing Debian's package: apt-get download openssh-server libwrap0, dpkg -x both into a folder, and set PATH and
LD_LIBRARY_PATH to its usr/sbin and usr/lib/x86_64-linux-gnu.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import Any

import httpx
import psycopg

from app.local.environment import SIMULATED_AWS
from app.local.ports import LOOPBACK, free_port
from cloudsim.testing import NO_TLS, own_process
from cloudsim.user_data import first_boot
from tests.deployment.database import Check
from tests.deployment.needs import program
from tests.deployment.processes import Process, await_, clean_environment, expect, finish, run
from tests.e2e.stack import Stack, running

PUBLIC_URL = "https://gpu.example.org"
LEASE, ALIAS = "train", "train.gpulease"
_UID = 65_533
_SECONDS = 60.0
_IN_ITS_PLACE = 'mount --bind "$1" /etc/passwd && shift && exec "$@"'
"""Run in a mount namespace: the user of the login exists there alone."""


class SshTrial:
    """Each check builds on the one before it. `port`: the account's SSH port."""

    def __init__(self, stack: Stack, folder: Path, port: int) -> None:
        self._stack = stack
        self._folder = folder
        self._port = port
        self._home = folder / "person"
        self._vm = folder / "vm"
        self._sshd: Process | None = None

    def checks(self) -> dict[str, Check]:
        return {
            "a lease with the default key: its user data set up an sshd": self.start,
            "ssh: as ubuntu, with the host key that the VM reported": self.log_in,
            "ssh -L: a port of the VM": self.forward,
            "cp: a file both ways": self.copy,
            "ssh-config: ssh and scp by the alias": self.use_alias,
            "a server with another host key: refused by all three": self.refuse,
        }

    def close(self) -> None:
        if self._sshd is not None:
            self._sshd.end()

    def start(self) -> str:
        (self._home / ".ssh").mkdir(parents=True)
        self._keygen(self._identity)
        self._cli("ssh-keys", "add", f"{self._identity}.pub", "--default")
        wish = ("--name", LEASE, "--gpu", "A10G:1", "--market", "on_demand", "--ttl", "1h")
        self._cli("lease", "create", *wish, "--watch")
        user_data = self._user_data()
        self._make_vm(user_data["ssh_authorized_keys"])
        self._start_sshd("host_key")
        self._report_host_key(user_data)
        return f"port {self._port}"

    def log_in(self) -> str:
        done = self._finish("ssh", LEASE, "-i", str(self._identity), "--", "whoami; pwd; exit 7")
        expect(done.returncode == 7, f"exit code {done.returncode}: {done.stderr}")
        expect(done.stdout.split() == ["ubuntu", str(self._vm)], done.stdout)
        return "ubuntu, exit code 7"

    def forward(self) -> str:
        with _web_server() as far:
            near = free_port()
            words = ("ssh", LEASE, "-N", "-L", f"{near}:{LOOPBACK}:{far}", "-i", str(self._identity))
            tunnel = Process("tunnel", [*CLI, *words], self._environment(), self._folder)
            tunnel.start()
            try:
                await_("the forwarded port answers", lambda: _get(near) == "from the VM", _SECONDS)
            finally:
                tunnel.end()
        return f"{near} to {far}"

    def copy(self) -> str:
        sent, back = self._folder / "sent", self._folder / "back"
        sent.write_bytes(os.urandom(1_000_000))
        self._cli("cp", "-i", str(self._identity), str(sent), f"{LEASE}:there")
        expect((self._vm / "there").read_bytes() == sent.read_bytes(), "another file arrived")
        self._cli("cp", "-i", str(self._identity), f"{LEASE}:there", str(back))
        expect(back.read_bytes() == sent.read_bytes(), "another file came back")
        return "1 MB"

    def use_alias(self) -> str:
        self._cli("ssh-config", "-i", str(self._identity))
        config = ["-F", str(self._home / ".ssh" / "config"), "-o", "BatchMode=yes"]
        said = run("ssh", [program("ssh"), *config, ALIAS, "whoami"], self._environment())
        expect(said == "ubuntu\n", said)
        back = self._folder / "by-alias"
        run("scp", [program("scp"), *config, f"{ALIAS}:there", str(back)], self._environment())
        expect(back.stat().st_size == 1_000_000, "not the whole file")
        return ALIAS

    def refuse(self) -> str:
        self._start_sshd("other_host_key")
        config = ["-F", str(self._home / ".ssh" / "config"), "-o", "BatchMode=yes"]
        identity = ("-i", str(self._identity))
        refused = [
            self._finish("ssh", LEASE, *identity, "--", "whoami"),
            self._finish("cp", *identity, f"{LEASE}:there", str(self._folder / "never")),
            finish([program("ssh"), *config, ALIAS, "whoami"], self._environment()),
        ]
        for done in refused:
            expect(done.returncode != 0, f"accepted: {done.stdout}")
            expect("Host key verification failed" in done.stderr, done.stderr)
        expect(not (self._folder / "never").exists(), "a file was copied")
        return "Host key verification failed"

    @property
    def _identity(self) -> Path:
        return self._home / ".ssh" / "id_ed25519"

    def _environment(self) -> dict[str, str]:
        return {
            **clean_environment(),
            "GPULEASE_HOME": str(self._stack.home.path),
            "GPULEASE_CLI_CONFIG": str(self._home / "config.toml"),
            "HOME": str(self._home),
            "XDG_STATE_HOME": "",
        }

    def _cli(self, *words: str) -> str:
        return run(words[0], [*CLI, *words], self._environment())

    def _finish(self, *words: str) -> Any:
        return finish([*CLI, *words], self._environment())

    def _keygen(self, path: Path) -> None:
        run(
            "ssh-keygen", [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(path)], clean_environment()
        )

    def _user_data(self) -> Any:
        """The cloud-config of the lease's VM, from the stored parameters of its launch."""
        with psycopg.connect(self._stack.credentials.database_url) as connection:
            connection.execute("SET ROLE gpulease_worker")
            row = connection.execute("SELECT params ->> 'UserData' FROM attempt").fetchone()
        expect(row, "no attempt")
        return first_boot(row[0] if row else "").config

    def _make_vm(self, authorized_keys: list[str]) -> None:
        """What cloud-init does: a home with the keys, and host keys of the VM's own."""
        (self._vm / ".ssh").mkdir(parents=True)
        (self._vm / ".ssh" / "authorized_keys").write_text("".join(f"{key}\n" for key in authorized_keys))
        (self._folder / "etc").mkdir()
        for name in ("ssh_host_ed25519_key", "other_host_key"):
            self._keygen(self._folder / "etc" / name)
        (self._folder / "etc" / "host_key").symlink_to("ssh_host_ed25519_key")
        (self._folder / "passwd").write_text(f"root:x:0:0::/root:/bin/sh\nubuntu:x:{_UID}:{_UID}::{self._vm}:/bin/sh\n")
        for path in (*self._vm.rglob("*"), *(self._folder / "etc").iterdir(), self._vm, self._folder / "etc"):
            os.chown(path, _UID, _UID)

    def _start_sshd(self, host_key: str) -> None:
        self.close()
        config = self._folder / "etc" / f"{host_key}.conf"
        config.write_text(
            f"ListenAddress {LOOPBACK}\nPort {self._port}\nHostKey {self._folder / 'etc' / host_key}\n"
            "AuthorizedKeysFile .ssh/authorized_keys\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "UsePAM no\nPidFile none\nSubsystem sftp internal-sftp\n"
        )
        own = [program("setpriv"), f"--reuid={_UID}", f"--regid={_UID}", "--clear-groups", "--"]
        server = [program("sshd"), "-D", "-e", "-f", str(config)]
        place = [program("unshare"), "--mount", "/bin/sh", "-c", _IN_ITS_PLACE, "sh", str(self._folder / "passwd")]
        self._sshd = Process("sshd", [*place, *own, *server], clean_environment(), self._folder)
        self._sshd.start()
        await_("sshd answers", self._answers, _SECONDS)

    def _answers(self) -> bool:
        assert self._sshd is not None
        expect(self._sshd.alive, f"sshd ended:\n{self._sshd.last_lines()}")
        try:
            with socket.create_connection((LOOPBACK, self._port), timeout=5) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def _report_host_key(self, user_data: Any) -> None:
        """Runs the program of the user data. Its folder and the API's address are those of the trial."""
        (found,) = (one for one in user_data["write_files"] if one["path"].endswith("gpulease-host-keys"))
        content = found["content"].replace("/etc/ssh/", f"{self._folder}/etc/")
        content = content.replace(PUBLIC_URL, self._stack.credentials.api_url)
        run("gpulease-host-keys", [sys.executable, "-c", content], clean_environment())
        expect("ssh-ed25519" in self._cli("lease", "show", LEASE, "--json"), "the lease shows no host keys")


CLI = (sys.executable, "-m", "app.cli")
"""The command line, as a command of this machine."""


@contextmanager
def ssh_trial(folder: Path) -> Iterator[SshTrial]:
    """An installation of one simulated cloud whose VMs have this machine's address."""
    port = free_port()
    with own_process("--vm-address", LOOPBACK) as (_, sim):
        config = folder / "accounts.toml"
        config.write_text(
            f'[[accounts]]\nprovider = "aws"\nname = "sim"\nregions = ["us-east-1"]\nendpoint_url = "{sim.url}"\n'
            f"ssh_port = {port}\n"
        )
        settings = {**SIMULATED_AWS, "GPULEASE_CONFIG": str(config), "GPULEASE_PUBLIC_URL": PUBLIC_URL}
        with running(folder, settings=settings) as stack:
            trial = SshTrial(stack, folder, port)
            try:
                yield trial
            finally:
                trial.close()


@contextmanager
def _web_server() -> Iterator[int]:
    # HTTPServer would look up its own name, for which there is no server here
    with ThreadingTCPServer((LOOPBACK, 0), _Page) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from the VM")

    def log_message(self, *_: object, **_named: object) -> None:
        """The trial looks at the answers alone."""


def _get(port: int) -> str:
    try:
        return httpx.get(f"http://{LOOPBACK}:{port}/", timeout=5, trust_env=False, verify=NO_TLS).text
    except httpx.HTTPError:
        return ""
