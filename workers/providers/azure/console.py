"""The serial console of a VM as Azure's managed boot diagnostics keep it, in a blob that a signed address opens."""

from typing import Any
from urllib.parse import urlsplit

from azure.core.rest import HttpRequest

from workers.providers.azure import instances
from workers.providers.azure.calls import part
from workers.providers.azure.clients import Group, is_stand_in
from workers.providers.azure.errors import translated
from workers.providers.common.console import MOST_BYTES, clean
from workers.providers.errors import OutcomeUnknown

_MINUTES = 5
_ABSENT = 404


def read(group: Group, vm_id: str) -> str:
    """Clean text, the last 64 KiB; "" when there is none (yet). Raises ProviderError."""
    name = part(instances.require(group, vm_id), "name")
    with translated():
        answer: Any = group.compute.virtual_machines.retrieve_boot_diagnostics_data(
            group.name, name, sas_uri_expiration_time_in_minutes=_MINUTES
        )
    address = answer.get("serialConsoleLogBlobUri")
    return clean(_tail(group, address)) if address else ""


def _tail(group: Group, address: str) -> str:
    """The end of the blob, UTF-8 as far as it is. The address carries its own signature: no credentials of ours go there."""
    if urlsplit(address).scheme != "https" and not is_stand_in(address):
        raise OutcomeUnknown("the address of the console is not one of Azure's", code="MalformedAnswer")
    end = b""
    request = HttpRequest("GET", address)
    with translated(), group.clients.anonymous as client, client.send_request(request, stream=True) as answer:
        if answer.status_code == _ABSENT:
            return ""
        answer.raise_for_status()
        for chunk in answer.iter_bytes():
            end = (end + chunk)[-2 * MOST_BYTES :]
    return end.decode("utf-8", "replace")
