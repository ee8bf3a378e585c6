"""Network interfaces and their addresses, which a VM's own record does not contain."""

from collections.abc import Mapping
from typing import Any

from workers.providers.azure import listings, names
from workers.providers.azure.calls import Document, known, part
from workers.providers.azure.clients import Group
from workers.providers.azure.vms import Addresses

_WITH_ADDRESS = "ipConfigurations/publicIPAddress"


def ids_of(vm: Document) -> list[str]:
    """Ids of a VM's network interfaces; none before Azure has created them."""
    profile = part(vm, "properties").get("networkProfile") or {}
    return [interface["id"] for interface in profile.get("networkInterfaces") or ()]


def get(group: Group, interface_id: str) -> Document | None:
    """One interface with its public address in full, or None."""
    return known(group.network.network_interfaces.get, group.name, names.last(interface_id), expand=_WITH_ADDRESS)


def of_vm(group: Group, vm: Document) -> Addresses:
    """The addresses of a VM's first interface."""
    interface = next((get(group, interface_id) for interface_id in ids_of(vm)), None)
    return _addresses(interface, {}) if interface is not None else Addresses()


def by_id(group: Group) -> Mapping[str, Addresses]:
    """The addresses of every interface of the resource group, by interface id in lower case."""
    public = {address["id"].lower(): address for address in listings.items(group, listings.ADDRESSES)}
    documents = listings.items(group, listings.INTERFACES)
    return {interface["id"].lower(): _addresses(interface, public) for interface in documents}


def public_id(interface: Document) -> str | None:
    """Id of an interface's public address, or None."""
    address_id = (_first(interface).get("publicIPAddress") or {}).get("id")
    return str(address_id) if address_id else None


def _first(interface: Document) -> Mapping[str, Any]:
    configurations = part(interface, "properties").get("ipConfigurations") or ()
    return next((configuration.get("properties") or {} for configuration in configurations), {})


def _addresses(interface: Document, public: Mapping[str, Document]) -> Addresses:
    configuration = _first(interface)
    reference = configuration.get("publicIPAddress") or {}
    address = public.get(str(reference.get("id", "")).lower(), reference)
    return Addresses(
        public=(address.get("properties") or {}).get("ipAddress"), private=configuration.get("privateIPAddress")
    )
