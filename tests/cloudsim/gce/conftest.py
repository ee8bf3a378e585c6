"""Compute Engine called by the names of its own description; every call and answer is held against it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from cloudsim.gce.credentials import issue
from cloudsim.testing import NO_TLS, Control
from tests.cloudsim.gce.discovery import ROOT, judge, methods

ZONE = "us-central1-a"
EMAIL = "tester@example.org"
IMAGE = "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2404-amd64-with-nvidia-580"


class Refused(Exception):
    """An error answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message


class Gce:
    """`gce("instances.get", zone=…, instance=…)`. `seen` collects the methods called."""

    def __init__(self, url: str, token: str = issue(EMAIL), project: str = "sim-project") -> None:
        self._http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, verify=NO_TLS
        )
        self._project = project
        self.seen: set[str] = set()

    def close(self) -> None:
        self._http.close()

    def __call__(self, name: str, body: Any = None, **parameters: Any) -> Any:
        method = methods()[name]
        given = {"project": self._project, **parameters}
        in_path = {key for key in given if f"{{{key}}}" in method["path"]}
        path = ROOT + method["path"].format(**{key: given[key] for key in in_path})
        query = {key: value for key, value in given.items() if key not in in_path}
        answer = self._http.request(method["httpMethod"], path, params=query, json=body)
        document = answer.json()
        self.seen.add(judge(answer.request.method, str(answer.request.url), body, document, answer.status_code))
        if answer.is_error:
            (error,) = document["error"]["errors"]
            raise Refused(answer.status_code, error["reason"], error["message"])
        return document

    def insert(self, name: str = "vm", zone: str = ZONE, request: str | None = None, **changes: Any) -> Any:
        """Inserts a VM; the operation."""
        query = {} if request is None else {"requestId": request}
        return self("instances.insert", instance(name, zone, **changes), zone=zone, **query)

    def vm(self, name: str = "vm", zone: str = ZONE) -> Any:
        return self("instances.get", zone=zone, instance=name)

    def names(self, **query: Any) -> list[str]:
        """Names of the VMs of all zones on one page."""
        scopes = self("instances.aggregatedList", **query)["items"].values()
        return [one["name"] for scope in scopes for one in scope.get("instances", [])]


def instance(name: str, zone: str = ZONE, **changes: Any) -> dict[str, Any]:
    """A body that Google takes."""
    complete: dict[str, Any] = {
        "name": name,
        "machineType": f"zones/{zone}/machineTypes/g2-standard-4",
        "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": IMAGE, "diskSizeGb": "50"}}],
        "networkInterfaces": [{"network": "global/networks/default"}],
        "scheduling": {"onHostMaintenance": "TERMINATE", "automaticRestart": False},
    }
    return complete | changes


SPOT: dict[str, Any] = {
    "scheduling": {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "DELETE",
    }
}


@pytest.fixture
def gce(sim: Control) -> Iterator[Gce]:
    made = Gce(sim.url)
    yield made
    made.close()
