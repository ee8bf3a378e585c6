"""The aliases of `gpulease ssh-config` against an SSH server. Server and client are AsyncSSH, so no machine needs OpenSSH."""

import asyncio
import shutil
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from app.local.ports import LOOPBACK
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, BOOTING, PROVISIONING, TENANT_ID, FakeApi, Json, a_lease
from tests.harness.databases import ROOT

PATIENCE = 60.0
ALIAS = "train-1.gpulease"


def new_key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


def public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip()


@dataclass(frozen=True)
class Vm:
    """What the server of a VM accepts and shows."""

    port: int
    host_key: asyncssh.SSHKey
    login: asyncssh.SSHKey


class _Server(asyncssh.SSHServer):
    def connection_requested(self, *_: Any, **_named: Any) -> bool:
        """Permits forwarding."""
        return True


@asynccontextmanager
async def vm(folder: Path) -> AsyncIterator[Vm]:
    host_key, login = new_key(), new_key()
    authorized = folder / "authorized_keys"
    authorized.write_text(public(login))
    async with asyncssh.listen(
        LOOPBACK,
        0,
        server_factory=_Server,
        server_host_keys=[host_key],
        authorized_client_keys=str(authorized),
        process_factory=_shell,
        sftp_factory=True,
    ) as server:
        yield Vm(server.get_port(), host_key, login)


async def _shell(process: "asyncssh.SSHServerProcess[str]") -> None:
    process.stdout.write(f"{process.get_extra_info('username')}: {process.command}")
    process.exit(7)


def lease(port: int, host_key: asyncssh.SSHKey, *logins: asyncssh.SSHKey) -> Json:
    """An active lease with a VM at that port, created with these keys for logins."""
    connection = {"public_ip": LOOPBACK, "ssh_user": "ubuntu", "ssh_port": port, "ssh_host_keys": [public(host_key)]}
    made = a_lease(1, **{**PROVISIONING, **BOOTING, **ACTIVE, "connection": connection})
    made["request"] = {**made["request"], "ssh_public_keys": [f"{public(key)} me@team" for key in logins]}
    return made


async def aliases(cli: Cli, api: FakeApi, home: Path, port: int, host_key: asyncssh.SSHKey) -> Path:
    """The configuration of ssh after `gpulease ssh-config`, with a lease on that port."""
    api.add(lease(port, host_key))
    api.documents["GET", "/v1/me"] = {"tenant_id": TENANT_ID}
    cli.environ.update({"HOME": str(home), "XDG_STATE_HOME": ""})
    result = await asyncio.to_thread(cli, "ssh-config")
    assert result.stdout == f"{ALIAS}\n", result.output
    return home / ".ssh" / "config"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "my home"
    folder.mkdir()
    return folder


async def test_one_logs_in_copies_and_forwards_by_the_alias_alone(
    api: FakeApi, cli: Cli, home: Path, tmp_path: Path
) -> None:
    async with asyncio.timeout(PATIENCE), vm(tmp_path) as server:
        config = await aliases(cli, api, home, server.port, server.host_key)
        sent, back = tmp_path / "sent", tmp_path / "back"
        sent.write_text("weights")
        async with asyncssh.connect(ALIAS, config=[str(config)], client_keys=[server.login]) as connection:
            done = await connection.run("nvidia-smi")
            assert (done.exit_status, done.stdout) == (7, "ubuntu: nvidia-smi")
            async with connection.start_sftp_client() as sftp:
                await sftp.put(str(sent), str(tmp_path / "there"))
                await sftp.get(str(tmp_path / "there"), str(back))
            assert back.read_text() == "weights"
            listener = await connection.forward_local_port(LOOPBACK, 0, LOOPBACK, server.port)
            reader, writer = await asyncio.open_connection(LOOPBACK, listener.get_port())
            assert (await reader.readline()).startswith(b"SSH-2.0-AsyncSSH")
            writer.close()


async def test_a_server_with_another_host_key_gets_no_login(api: FakeApi, cli: Cli, home: Path, tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), vm(tmp_path) as server:
        config = await aliases(cli, api, home, server.port, new_key())
        with pytest.raises(asyncssh.HostKeyNotVerifiable):
            await asyncssh.connect(ALIAS, config=[str(config)], client_keys=[server.login])


def clients(folder: Path) -> list[Path]:
    """Folders with a program `ssh`: AsyncSSH's, and OpenSSH's where the machine has it. Both offer the keys of -i only."""
    program = folder / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/tests/e2e/ssh_client.py "$@"\n')
    program.chmod(0o755)
    openssh = shutil.which("ssh")
    return [program.parent, *([Path(openssh).parent] if openssh else [])]


async def _logged_in(cli: Cli, path: Path, *words: str) -> tuple[int, str, str]:
    environ = {"PATH": f"{path}:/usr/bin:/bin", "SSH_AUTH_SOCK": ""}
    with cli.fork("ssh", "train-1", *words, environ=environ, stdin=asyncio.subprocess.DEVNULL) as process:
        out, errors = await asyncio.to_thread(process.communicate, None, PATIENCE)
    return process.returncode, out, errors


@pytest.mark.parametrize("with_public_file", [True, False])
async def test_a_key_with_a_name_of_its_own_logs_in_without_being_named(
    api: FakeApi, cli: Cli, home: Path, tmp_path: Path, with_public_file: bool
) -> None:
    async with asyncio.timeout(PATIENCE), vm(tmp_path) as server:
        api.add(lease(server.port, server.host_key, new_key(), server.login))
        cli.environ.update({"HOME": str(home), "XDG_STATE_HOME": ""})
        keep_key(home, "id_team", server.login, public_file=with_public_file)
        keep_key(home, "id_ed25519", new_key(), public_file=True)
        for path in clients(tmp_path):
            code, out, errors = await _logged_in(cli, path, "--", "nvidia-smi")
            assert (code, out) == (7, "ubuntu: nvidia-smi"), errors


async def test_a_refused_login_names_the_keys_of_the_lease_and_what_to_do(
    api: FakeApi, cli: Cli, home: Path, tmp_path: Path
) -> None:
    async with asyncio.timeout(PATIENCE), vm(tmp_path) as server:
        api.add(lease(server.port, server.host_key, server.login))
        cli.environ.update({"HOME": str(home), "XDG_STATE_HOME": ""})
        keep_key(home, "id_other", new_key(), public_file=True)
        for path in clients(tmp_path):
            code, _, errors = await _logged_in(cli, path, "--", "nvidia-smi")
            assert code == 255
            assert f"{server.login.get_fingerprint()} me@team" in errors
            assert "-i FILE" in errors
            code, _, errors = await _logged_in(cli, path, "-i", str(home / ".ssh" / "id_other"), "--", "nvidia-smi")
            assert code == 255
            assert f"ssh offered {home}/.ssh/id_other" in errors


async def test_the_alias_of_a_lease_names_the_private_key_and_no_other_is_offered(
    api: FakeApi, cli: Cli, home: Path, tmp_path: Path
) -> None:
    login = new_key()
    keep_key(home, "id_team", login, public_file=True)
    api.add(lease(22, new_key(), login))
    api.documents["GET", "/v1/me"] = {"tenant_id": TENANT_ID}
    cli.environ.update({"HOME": str(home), "XDG_STATE_HOME": ""})
    result = await asyncio.to_thread(cli, "ssh-config", "--print")
    assert f'  IdentityFile "{home}/.ssh/id_team"\n  IdentitiesOnly yes\n' in result.stdout
    copied = await asyncio.to_thread(cli, "cp", "--print", "a", "train-1:b")
    assert f"-o IdentitiesOnly=yes -i '{home}/.ssh/id_team'" in copied.stdout


def keep_key(home: Path, name: str, key: asyncssh.SSHKey, *, public_file: bool) -> None:
    """The files of a key in ~/.ssh."""
    path = home / ".ssh" / name
    path.parent.mkdir(exist_ok=True)
    key.write_private_key(str(path))
    path.chmod(stat.S_IRUSR)
    if public_file:
        key.write_public_key(f"{path}.pub")
