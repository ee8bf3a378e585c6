"""What wrappers of an adapter need to know about each of its calls. The ports mark their methods with it, once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "_provider_call"


@dataclass(frozen=True, slots=True)
class CallMark:
    """`timed`: the call reads one answer, whose duration is measured. `verified`: it needs verified credentials.

    `of_vms`: VMs, or volumes that they mount, are made, seen, changed or ended by it.
    """

    timed: bool
    verified: bool
    of_vms: bool


def call(*, timed: bool = True, verified: bool = True, of_vms: bool = True) -> Callable[[F], F]:
    """Marks a method of a port that calls the cloud."""

    def mark(method: F) -> F:
        setattr(method, _MARK, CallMark(timed=timed, verified=verified, of_vms=of_vms))
        return method

    return mark


def calls_of(*ports: type) -> dict[str, CallMark]:
    """The marked methods of the ports and of what they combine."""
    members = {name: member for port in ports for base in port.__mro__ for name, member in vars(base).items()}
    return {name: getattr(member, _MARK) for name, member in members.items() if hasattr(member, _MARK)}
