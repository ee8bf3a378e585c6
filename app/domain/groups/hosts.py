"""The hosts of a group in the forms that launchers read: Open MPI, Slurm, Ansible, torchrun."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

MASTER_PORT = 29_500
"""Where the processes of a group meet at its first host: the default of PyTorch."""


class HostFormat(StrEnum):
    """A form of the list of hosts.

    `json`: every fact. `hostfile`: Open MPI's host file. `slurm`: a node list as Slurm writes it. `ansible`: an inventory.
    `torchrun`: the command of each host.
    """

    JSON = "json"
    HOSTFILE = "hostfile"
    SLURM = "slurm"
    ANSIBLE = "ansible"
    TORCHRUN = "torchrun"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberHost:
    """The VM of an active member. `gpus`: None if unknown."""

    rank: int
    lease_id: str
    name: str
    private_ip: str | None
    public_ip: str | None
    ssh_user: str | None
    ssh_port: int | None
    gpus: int | None

    @property
    def address(self) -> str:
        """Where the other members reach it."""
        return self.private_ip or self.public_ip or ""

    @property
    def login(self) -> str:
        """Where its users reach it."""
        return self.public_ip or self.private_ip or ""


def render(form: HostFormat, group: str, hosts: Sequence[MemberHost]) -> str:
    """The hosts in a form of text, a line each. `group`: its name. Empty without hosts. Raises KeyError for `json`."""
    return "".join(f"{line}\n" for line in _LINES[form](group, hosts)) if hosts else ""


def _hostfile(_: str, hosts: Sequence[MemberHost]) -> Iterator[str]:
    """`man openmpi-hostfile`: one process for each GPU."""
    for host in hosts:
        yield f"{host.address} slots={host.gpus or 1}"


def _slurm(_: str, hosts: Sequence[MemberHost]) -> Iterator[str]:
    """One line in the order of the ranks; `scontrol show hostnames` expands it. Ranges only ascend by one."""
    runs: list[tuple[str, list[int]]] = []
    for host in hosts:
        head, number = _split(host.address)
        if number is None:
            runs.append((host.address, []))
        elif runs and runs[-1][0] == head and runs[-1][1] and runs[-1][1][-1] + 1 == number:
            runs[-1][1].append(number)
        else:
            runs.append((head, [number]))
    yield ",".join(map(_run, runs))


def _split(address: str) -> tuple[str, int | None]:
    """`10.0.0.7` as (`10.0.0.`, 7). An IPv6 address has hexadecimal digits, so it stays whole."""
    head, dot, last = address.rpartition(".")
    return (head + dot, int(last)) if dot and last.isdecimal() else (address, None)


def _run(run: tuple[str, list[int]]) -> str:
    head, numbers = run
    if not numbers:
        return head
    return f"{head}{numbers[0]}" if len(numbers) == 1 else f"{head}[{numbers[0]}-{numbers[-1]}]"


def _ansible(group: str, hosts: Sequence[MemberHost]) -> Iterator[str]:
    """An inventory in INI form. Names keep what Ansible accepts in them."""
    yield f"[{_group_name(group)}]"
    for host in hosts:
        facts = {
            "ansible_host": host.login,
            "ansible_user": host.ssh_user,
            "ansible_port": host.ssh_port,
            "private_ip": host.private_ip,
            "node_rank": host.rank,
            "gpus": host.gpus,
        }
        variables = (f"{name}={value}" for name, value in facts.items() if value is not None)
        yield " ".join([host_name(host.name), *variables])


_RESERVED = frozenset({"all", "ungrouped"})


def _group_name(name: str) -> str:
    """Ansible's groups are named like variables."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"group_{plain}" if plain[0].isdigit() or plain in _RESERVED else plain


def host_name(name: str) -> str:
    """The name of a lease as the name of a host: letters, digits and hyphens."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", name).strip("-")


def _torchrun(_: str, hosts: Sequence[MemberHost]) -> Iterator[str]:
    """Positions, not ranks: torchrun numbers its nodes without a gap."""
    for position, host in enumerate(hosts):
        yield f"# rank {host.rank}: {host.name}, {host.address}"
        yield (
            f"torchrun --nnodes={len(hosts)} --nproc-per-node={host.gpus or 'gpu'} --node-rank={position} "
            f"--master-addr={hosts[0].address} --master-port={MASTER_PORT} train.py"
        )


_LINES: Mapping[HostFormat, Callable[[str, Sequence[MemberHost]], Iterator[str]]] = MappingProxyType(
    {
        HostFormat.HOSTFILE: _hostfile,
        HostFormat.SLURM: _slurm,
        HostFormat.ANSIBLE: _ansible,
        HostFormat.TORCHRUN: _torchrun,
    }
)
