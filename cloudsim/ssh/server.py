"""One listening socket for the SSH servers of all VMs. The address that a client connects to names the VM."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from ipaddress import ip_address

import asyncssh

from cloudsim.host_keys import private_key
from cloudsim.ssh import shell
from cloudsim.ssh.guest import Guest, guest
from cloudsim.ssh.mounts import Mounts
from cloudsim.world import Vm, World

SHARED_ADDRESS = "127.0.0.1"
"""The address of every VM on a system whose only loopback address it is (macOS)."""
BANNER = "Simulated VM: it has a shell for a look around, and neither file transfer nor forwarding.\n"
_LOOPBACK_DEVICE = b"lo\0"
_LOOK_SECONDS = 1.0
_LOGIN_SECONDS = 30.0


def bind(port: int) -> tuple[socket.socket, dict[str, str]]:
    """A socket that accepts connections of this machine only, and the settings that give VMs its addresses.

    On Linux the socket answers at all addresses of the loopback device, so that each VM has an address of its own.
    Elsewhere all VMs share one. Raises OSError for a taken port.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        wide = _only_loopback(listener)
        listener.bind(("" if wide else SHARED_ADDRESS, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    listener.settimeout(0)
    return listener, {"vm_network": "127.18"} if wide else {"vm_address": SHARED_ADDRESS}


def _only_loopback(listener: socket.socket) -> bool:
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _LOOPBACK_DEVICE)
    except (AttributeError, OSError):
        return False
    return True


class SshServer:
    """Serves logins to the world's VMs until it is cancelled."""

    def __init__(self, world: World, listener: socket.socket) -> None:
        self._world = world
        self._listener = listener
        self._logins: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Accepts connections. Cancel it to end all of them."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    connection, _ = await loop.sock_accept(self._listener)
                except OSError:
                    await asyncio.sleep(_LOOK_SECONDS)
                    continue
                login = loop.create_task(self._log_in(connection))
                self._logins.add(login)
                login.add_done_callback(self._logins.discard)
        finally:
            self._listener.close()
            for login in self._logins:
                login.cancel()

    async def _log_in(self, connection: socket.socket) -> None:
        try:
            address, peer = connection.getsockname()[0], connection.getpeername()[0]
        except OSError:
            connection.close()
            return
        now = self._world.advance()
        vms = [vm for vm in self._world.vms.values() if vm.public_ip == address and vm.is_ready(now)]
        if not vms or not ip_address(peer).is_loopback:
            connection.close()
            return
        login = Login(vms)
        with contextlib.suppress(OSError, asyncssh.Error):
            session = await asyncssh.run_server(
                connection,
                server_factory=lambda: login,
                server_host_keys=[asyncssh.import_private_key(private_key(address))],
                process_factory=_process(login, self._world),
                server_version="cloudsim",
                agent_forwarding=False,
                login_timeout=_LOGIN_SECONDS,
            )
            try:
                await _until_over(session, lambda: login.vm is None or login.vm.is_ready(self._world.now))
            finally:
                session.abort()


async def _until_over(session: asyncssh.SSHServerConnection, is_there: Callable[[], bool]) -> None:
    closed = asyncio.ensure_future(session.wait_closed())
    while not closed.done() and is_there():
        await asyncio.wait({closed}, timeout=_LOOK_SECONDS)
    closed.cancel()


class Login(asyncssh.SSHServer):
    """Accepts the keys of the VMs at an address. `vm`: the newest one that has the key of the login."""

    def __init__(self, vms: list[Vm]) -> None:
        self._guests = [(vm, guest(vm)) for vm in reversed(vms)]
        self._connection: asyncssh.SSHServerConnection | None = None
        self.vm: Vm | None = None
        self.user = ""

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Keeps the connection for the banner."""
        self._connection = conn

    def begin_auth(self, username: str) -> bool:  # noqa: ARG002  asyncssh's name
        """Nobody comes in without a key. Clients show the banner on standard error, also those that copy files."""
        if self._connection is not None:
            self._connection.send_auth_banner(BANNER)
        return True

    def public_key_auth_supported(self) -> bool:
        """Keys are the only way in."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Whether a VM has this key for this user."""
        data = key.public_data
        self.vm = next((vm for vm, its in self._guests if its.user == username and data in _data(its)), None)
        self.user = username
        return self.vm is not None


def _data(its: Guest) -> list[bytes]:
    keys = []
    for line in its.authorized_keys:
        with contextlib.suppress(asyncssh.KeyImportError):
            keys.append(asyncssh.import_public_key(line).public_data)
    return keys


def _process(login: Login, world: World) -> Callable[[asyncssh.SSHServerProcess[str]], object]:
    async def serve(process: asyncssh.SSHServerProcess[str]) -> None:
        if login.vm is None:
            process.exit(1)
            return
        facts = facts_of(login.vm, login.user, world)
        if process.command is not None:
            result = shell.run(process.command, facts)
            process.stdout.write(result.output)
            process.stderr.write(result.error)
            process.exit(result.status)
            return
        process.exit(await _interactive(process, facts))

    return serve


async def _interactive(process: asyncssh.SSHServerProcess[str], facts: shell.Facts) -> int:
    """Reads lines until the end. Returns the exit status of the last command, as a shell does."""
    process.stdout.write(shell.banner(facts))
    status = 0
    while True:
        process.stdout.write(shell.prompt(facts))
        try:
            line = await process.stdin.readline()
        except asyncssh.BreakReceived:
            process.stdout.write("\n")
            continue
        except (asyncssh.TerminalSizeChanged, asyncssh.SignalReceived):
            continue
        if not line:
            process.stdout.write("\n")
            return status
        result = shell.run(line, facts)
        process.stdout.write(result.output)
        process.stderr.write(result.error)
        if result.ends:
            return result.status
        status = result.status


def facts_of(vm: Vm, user: str, world: World) -> shell.Facts:
    """What the shell of a VM shows."""
    machine = world.catalogs[vm.provider].machines[vm.instance_type]
    return shell.Facts(
        user=user,
        host=f"ip-{vm.private_ip.replace('.', '-')}",
        vm_id=vm.id.rpartition("/")[2],
        instance_type=vm.instance_type,
        zone=vm.zone,
        vcpus=machine.vcpus,
        memory_mib=machine.memory_mib,
        gpu=machine.gpu,
        uptime_seconds=world.now - vm.launched_at,
        files=Mounts(world, vm),
    )
