"""The aliases of `gpulease ssh-config` against an SSH server. Server and client are AsyncSSH, so no machine needs OpenSSH."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from app.local.ports import LOOPBACK
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, BOOTING, PROVISIONING, TENANT_ID, FakeApi, a_lease

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


async def aliases(cli: Cli, api: FakeApi, home: Path, port: int, host_key: asyncssh.SSHKey) -> Path:
    """The configuration of ssh after `gpulease ssh-config`, with a lease on that port."""
    connection = {"public_ip": LOOPBACK, "ssh_user": "ubuntu", "ssh_port": port, "ssh_host_keys": [public(host_key)]}
    api.add(a_lease(1, **{**PROVISIONING, **BOOTING, **ACTIVE, "connection": connection}))
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
