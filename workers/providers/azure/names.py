"""Names of what a launch makes, and the parts of ids.

A VM's name is derived from the launch token, so that a repeat means the same VM. Azure derives the names of the network
interface and of the public address from those given here and adds to them: they are never used to find anything.
"""

import re

from workers.providers.errors import NotFound

_VM_ID = re.compile(r"(?:([A-Za-z0-9_().-]{1,90})/)?([A-Za-z0-9][A-Za-z0-9._-]{0,63}):([0-9a-fA-F-]{36})")


def os_disk(vm: str) -> str:
    """Its own name in full: Azure takes a disk's name as it is given."""
    return f"{vm}-os"


def data_disk(vm: str) -> str:
    """As for the OS disk."""
    return f"{vm}-data"


def security_group(vm: str) -> str:
    """Made by ourselves, found again by this name."""
    return f"{vm}-nsg"


def interface(vm: str) -> str:
    """The beginning of the network interface's name."""
    return f"{vm}-nic"


def address(vm: str) -> str:
    """The beginning of the public address's name."""
    return f"{vm}-ip"


def join(name: str, vm_id: str) -> str:
    """A VM's id as the interface has it: the name addresses it, the vmId identifies it."""
    return f"{name}:{vm_id.lower()}"


def split(vm: str) -> tuple[str, str]:
    """Name and vmId of such an id. Raises NotFound for anything else."""
    match = _VM_ID.fullmatch(vm)
    if match is None:
        raise NotFound(f"{vm} is not the id of a VM at Azure", code="InvalidVmId")
    return match[2], match[3].lower()


def in_group(group: str, vm: str) -> str:
    """The id of a VM in a resource group that is not the account's."""
    return f"{group}/{vm}"


def group_of(vm: str) -> str | None:
    """The resource group that such an id names; None: the account's own."""
    match = _VM_ID.fullmatch(vm)
    return match[1] if match is not None else None


def group_in(resource_id: str) -> str:
    """The resource group in a resource id, in lower case."""
    return resource_id.lower().partition("/resourcegroups/")[2].partition("/")[0]


def last(resource_id: str) -> str:
    """The name at the end of a resource id."""
    return resource_id.rpartition("/")[2]
