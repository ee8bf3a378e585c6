"""A login to the simulated VM of a lease: its keys, its host keys, and the end of the lease."""

import asyncio

import asyncssh
import pytest

from app.local.waiting import wait_until
from tests.e2e.people import ONE_A10G, Json, Tenant
from tests.e2e.stack import PATIENCE


async def _connect(connection: Json, key: asyncssh.SSHKey) -> asyncssh.SSHClientConnection:
    host, port = connection["public_ip"], connection["ssh_port"]
    known = "".join(f"[{host}]:{port} {line}\n" for line in connection["ssh_host_keys"])
    return await asyncssh.connect(
        host,
        port,
        username=connection["ssh_user"],
        client_keys=[key],
        agent_path=None,
        config=None,
        known_hosts=asyncssh.import_known_hosts(known),
    )


def _public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip()


async def test_a_lease_has_a_shell_that_its_keys_open_and_its_host_keys_prove(tenant: Tenant) -> None:
    mine, other = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    lease_id = tenant.create({**ONE_A10G, "ssh_public_keys": [_public(mine)]})
    other_id = tenant.create({**ONE_A10G, "ssh_public_keys": [_public(other)]})
    for one in (lease_id, other_id):
        tenant.wait(one, "active")

    def reported(one: str) -> bool:
        return tenant.get(f"/v1/leases/{one}")["connection"]["ssh_host_keys"] is not None

    assert wait_until(lambda: reported(lease_id) and reported(other_id), timeout=PATIENCE)
    connection = tenant.get(f"/v1/leases/{lease_id}")["connection"]
    async with asyncio.timeout(PATIENCE):
        session = await _connect(connection, mine)
        assert (await session.run("nvidia-smi -L")).stdout == "GPU 0: A10G (simulated)\n"
        assert (await session.run("less /etc/passwd")).exit_status == 127
        shell = await session.run(input="whoami\nexit 3\n")
        assert str(shell.stdout).startswith("SIMULATED VM")
        assert "\nubuntu@" in str(shell.stdout)
        assert shell.exit_status == 3
        # nothing of this machine is within reach
        with pytest.raises(asyncssh.ChannelOpenError):
            await session.open_connection("127.0.0.1", connection["ssh_port"])
        with pytest.raises(asyncssh.ChannelOpenError):
            await session.start_sftp_client()

        with pytest.raises(asyncssh.PermissionDenied):
            await _connect(connection, other)
        theirs = tenant.get(f"/v1/leases/{other_id}")["connection"]
        if theirs["public_ip"] != connection["public_ip"]:
            with pytest.raises(asyncssh.HostKeyNotVerifiable):
                await _connect({**connection, "ssh_host_keys": theirs["ssh_host_keys"]}, mine)

        tenant.release(lease_id)
        await session.wait_closed()
    tenant.release(other_id)
    for one in (lease_id, other_id):
        tenant.wait(one, "released")
    with pytest.raises((OSError, asyncssh.Error)):
        await _connect(connection, mine)
