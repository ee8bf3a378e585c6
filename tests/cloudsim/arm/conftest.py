"""Resource Manager by hand: httpx against the simulation whose time stands until the test moves it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from cloudsim.testing import NO_TLS, Control

SUBSCRIPTION = "00000000-0000-4000-8000-000000000001"
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/gpulease/providers"
SIZE = "Standard_NC4as_T4_v3"


class Arm:
    """Paths below the group's `providers/`, or from the root on."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": "Bearer any"},
            trust_env=False,
            verify=NO_TLS,
            timeout=20,
        )

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        where = path if path.startswith("/") else f"{GROUP}/{path}"
        params = {} if "?" in path else {"api-version": "2026-04-01"}
        return self._http.request(method, where, params=params or None, json=body, headers=headers)

    def get(self, path: str) -> Any:
        answer = self.call("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def items(self, path: str) -> list[Any]:
        found: list[Any] = self.get(path)["value"]
        return found

    def refused(self, code: str, status: int, method: str, path: str, body: Any = None, **headers: str) -> str:
        """The message of an error answer."""
        answer = self.call(method, path, body, **headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
        return str(answer.json()["error"]["message"])

    def launch(self, name: str = "vm", **changes: Any) -> Any:
        answer = self.call("PUT", f"Microsoft.Compute/virtualMachines/{name}", body(**changes), **CREATE)
        assert answer.status_code == 201, answer.text
        return answer.json()


CREATE = {"If-None-Match": "*"}
"""Make it, never change it."""


def body(size: str = SIZE, *, region: str = "eastus", kept: bool = False, **changes: Any) -> dict[str, Any]:
    """A PUT that is accepted. `kept`: disk, interface and address outlive the VM."""
    option = "Detach" if kept else "Delete"
    address = {"name": "ip", "tags": {"a": "ip"}, "properties": {"deleteOption": option}}
    configuration = {"primary": True, "subnet": {"id": f"{GROUP}/Microsoft.Network/virtualNetworks/n/subnets/s"}}
    properties = {
        "deleteOption": option,
        "ipConfigurations": [
            {"name": "one", "properties": configuration | {"publicIPAddressConfiguration": address}},
        ],
    }
    interface = {"name": "nic", "tags": {"a": "nic"}, "properties": properties}
    image = {"publisher": "microsoft-dsvm", "offer": "ubuntu-hpc", "sku": "2204", "version": "latest"}
    return {
        "location": region,
        "zones": ["1"],
        "tags": {"a": "vm"},
        "properties": {
            "hardwareProfile": {"vmSize": size},
            "storageProfile": {
                "imageReference": image,
                "osDisk": {"createOption": "FromImage", "deleteOption": option},
            },
            "osProfile": {"computerName": "vm", "adminUsername": "u", "customData": "c2VjcmV0"},
            "networkProfile": {"networkApiVersion": "2022-11-01", "networkInterfaceConfigurations": [interface]},
        },
        **changes,
    }


@pytest.fixture
def arm(sim: Control) -> Iterator[Arm]:
    made = Arm(sim.url)
    yield made
    made.close()
