"""What a simulated VM reads in its user data: logins and the report of host keys, as each adapter writes them."""

import base64
from typing import Any

import pytest

from cloudsim.ssh.guest import Guest, guest
from cloudsim.world import Vm
from tests.workers.providers.samples import KEY, spec
from workers.providers.aws import userdata as aws
from workers.providers.azure import launch as azure
from workers.providers.azure import userdata as azure_userdata
from workers.providers.gcp import userdata as gcp
from workers.providers.types import HostKeyReport, LaunchSpec

_FORGED_LINE = 'URL, TOKEN = "http://192.0.2.1/", "aa"'
FORGED = (
    f"#!/bin/sh\n{_FORGED_LINE}\n",
    '#cloud-config\n{"ssh_authorized_keys": ["ssh-ed25519 B"], "write_files": []}',
    f"put 0700 /usr/local/sbin/gpulease-host-keys <<'END'\n{base64.b64encode(_FORGED_LINE.encode()).decode()}\nEND\n",
)
"""Start-up scripts that look like what gpulease writes."""
REPORT = HostKeyReport(url="https://gpu.example.org/v1/host-keys", token="0123456789abcdef" * 4)


def kept(provider: str, of: LaunchSpec) -> dict[str, Any]:
    """What the front of a cloud keeps of the launch."""
    if provider == "aws":
        return {"user_data": aws.packed(of)}
    if provider == "gcp":
        return {"metadata": {item["key"]: item["value"] for item in gcp.items(of)}}
    return {"properties": {"osProfile": {"adminUsername": azure.USER}}, "custom_data": azure_userdata.packed(of)}


def vm(provider: str, spec_of_front: dict[str, Any]) -> Any:
    made = Vm.__new__(Vm)
    made.provider, made.spec = provider, spec_of_front
    return made


@pytest.mark.parametrize("provider", ["aws", "gcp", "azure"])
@pytest.mark.parametrize("script", [None, "#!/bin/bash\necho 'END'\n", *FORGED])
def test_a_vm_has_the_login_and_the_report_of_its_launch(provider: str, script: str | None) -> None:
    of = spec(ssh_public_keys=(KEY,), host_keys=REPORT, startup_script=script)
    assert guest(vm(provider, kept(provider, of))) == Guest("ubuntu", (KEY,), (REPORT.url, REPORT.token))


@pytest.mark.parametrize("provider", ["aws", "gcp", "azure"])
def test_without_keys_and_report_nobody_logs_in(provider: str) -> None:
    found = guest(vm(provider, kept(provider, spec(ssh_public_keys=(), host_keys=None))))
    assert found.report is None
    assert found.authorized_keys == () or provider == "azure"


@pytest.mark.parametrize("text", ["", "!", base64.b64encode(b"#!/bin/sh\n").decode()])
def test_user_data_of_another_form_give_no_login(text: str) -> None:
    assert guest(vm("aws", {"user_data": text})).authorized_keys == ()
    assert guest(vm("azure", {"properties": {}, "custom_data": text})).authorized_keys == ()
    assert guest(vm("gcp", {"metadata": {}})).authorized_keys == ()
