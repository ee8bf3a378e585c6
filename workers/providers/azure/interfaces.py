"""Network interfaces and their addresses, which a VM's own record does not tell."""

from collections.abc import Mapping
from typing import Any

from workers.providers.azure import listings, names
from workers.providers.azure.calls import Document, known, part
from workers.providers.azure.clients import Group
from workers.providers.azure.vms import Addresses

_WITH_ADDRESS = "ipConfigurations/publicIPAddress"


def ids_of(vm: Document) -> list[str]:
    """Ids of a VM's interfaces; none before they are made."""
    found = part(vm, "properties").get("networkProfile") or {}
    return [one["id"] for one in found.get("networkInterfaces") or ()]


def get(group: Group, interface_id: str) -> Document | None:
    """One interface with its public address written out, or None."""
    return known(group.network.network_interfaces.get, group.name, names.last(interface_id), expand=_WITH_ADDRESS)


def of_vm(group: Group, vm: Document) -> Addresses:
    """Those of its first interface."""
    interface = next((get(group, one) for one in ids_of(vm)), None)
    return _addresses(interface, {}) if interface is not None else Addresses()


def by_id(group: Group) -> Mapping[str, Addresses]:
    """Those of every interface of the group, by its id in lower case."""
    public = {one["id"].lower(): one for one in listings.items(group, listings.ADDRESSES)}
    every = listings.items(group, listings.INTERFACES)
    return {one["id"].lower(): _addresses(one, public) for one in every}


def public_id(interface: Document) -> str | None:
    """Id of its public address."""
    found = (_first(interface).get("publicIPAddress") or {}).get("id")
    return str(found) if found else None


def _first(interface: Document) -> Mapping[str, Any]:
    configurations = part(interface, "properties").get("ipConfigurations") or ()
    return next((one.get("properties") or {} for one in configurations), {})


def _addresses(interface: Document, public: Mapping[str, Document]) -> Addresses:
    configuration = _first(interface)
    reference = configuration.get("publicIPAddress") or {}
    address = public.get(str(reference.get("id", "")).lower(), reference)
    return Addresses(
        public=(address.get("properties") or {}).get("ipAddress"), private=configuration.get("privateIPAddress")
    )
