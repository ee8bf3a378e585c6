"""Two hosts and the internet between them, as network namespaces of one machine.

The trial's own namespace is host A. The internet forwards between A and B, and can stop to: then packets vanish without a
word, as they do when a cable is cut. Both hosts still reach the clouds, which are on the internet.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.deployment.needs import program
from tests.deployment.processes import await_, clean_environment, run

A_ADDRESS = "10.86.1.2"
B_ADDRESS = "10.86.2.2"
CLOUD_ADDRESS = "10.86.9.9"
_FORWARDING = "/proc/sys/net/ipv4/ip_forward"


@dataclass(frozen=True)
class Host:
    """`before` goes before a command that runs there."""

    name: str
    address: str
    before: tuple[str, ...] = ()

    def run(self, *command: str) -> str:
        return run(command[0], [*self.before, *command], clean_environment())


@dataclass(frozen=True)
class Network:
    a: Host
    b: Host
    internet: Host

    def cut(self) -> None:
        """A and B no longer reach one another."""
        self._forward("0")

    def heal(self) -> None:
        self._forward("1")

    def _forward(self, value: str) -> None:
        self.internet.run("sh", "-c", f"echo {value} > {_FORWARDING}")


@contextmanager
def two_hosts() -> Iterator[Network]:
    """Must run in a network namespace of its own: it is host A."""
    with _namespace() as b, _namespace() as internet:
        network = Network(
            Host("A", A_ADDRESS), Host("B", B_ADDRESS, _inside(b)), Host("internet", CLOUD_ADDRESS, _inside(internet))
        )
        for number, host, namespace in ((1, network.a, None), (2, network.b, b)):
            _connect(number, host, namespace, network.internet, internet)
        for host in (network.b, network.internet):
            host.run(program("ip"), "link", "set", "lo", "up")
        network.internet.run(program("ip"), "address", "add", f"{CLOUD_ADDRESS}/32", "dev", "lo")
        network.heal()
        yield network


def _connect(number: int, host: Host, namespace: int | None, internet: Host, internet_namespace: int) -> None:
    """A cable from the host to the internet, and the way to everything else through it."""
    ip = program("ip")
    here, there = f"host{number}", f"net{number}"
    gateway = host.address.rpartition(".")[0] + ".1"
    ends = _ends(namespace)
    run(
        "ip",
        [ip, "link", "add", here, *ends, "type", "veth", "peer", "name", there, "netns", str(internet_namespace)],
        {},
    )
    for place, name, address in ((host, here, host.address), (internet, there, gateway)):
        place.run(ip, "address", "add", f"{address}/24", "dev", name)
        place.run(ip, "link", "set", name, "up")
    host.run(ip, "route", "add", "default", "via", gateway)


def _ends(namespace: int | None) -> Sequence[str]:
    return [] if namespace is None else ["netns", str(namespace)]


def _inside(pid: int) -> tuple[str, ...]:
    return ("nsenter", f"--net=/proc/{pid}/ns/net", "--")


@contextmanager
def _namespace() -> Iterator[int]:
    """The process that keeps a new network namespace alive."""
    with subprocess.Popen([program("unshare"), "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL) as keeper:
        try:
            await_("a namespace", lambda: _name(keeper.pid) == "sleep", 10)
            yield keeper.pid
        finally:
            keeper.kill()


def _name(pid: int) -> str:
    with open(f"/proc/{pid}/comm", encoding="utf-8") as file:  # noqa: PTH123 - no file of the disk
        return file.read().strip()
