"""What a process says at its start about an accounts file that cannot work."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from app.settings import StartupError, load_accounts
from app.settings.accounts import account_from_json

AWS = 'provider = "aws"\nname = "main"\nregions = ["us-east-1", "eu-west-1"]\n'
GCP = 'provider = "gcp"\nname = "main"\nregions = ["us-central1"]\nproject = "research-123456"\n'
SUBSCRIPTION = "00000000-0000-4000-8000-000000000001"
IN_GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/shared/providers"
AZURE = (
    f'provider = "azure"\nname = "main"\nregions = ["eastus"]\nsubscription_id = "{SUBSCRIPTION}"\n'
    'resource_group = "gpulease"\nsubnet_ids = { eastus = "/subnets/gpus" }\n'
)
KEYS = "projects/keys/locations/us-central1/keyRings/gpulease/cryptoKeys/disks"

ACCEPTED = [
    AWS + 'role_arn = "arn:aws:iam::123456789012:role/gpulease"\nexternal_id = "customer-7f3a"\n'
    'instance_profile = "gpulease-node"\nkms_key_id = "alias/gpulease"\nplacement_group = "gpulease-cluster"\n'
    'disk_iops = 16000\ndisk_throughput_mib = 1000\ndata_disk_gib = 1000\npublic_addresses = false\nssh_port = 2222\n'
    'tags = { CostCenter = "4711", "org:team" = "ML platform" }\ncopy_labels = ["project"]\n',
    AWS.replace(', "eu-west-1"', "") + 'kms_key_id = "arn:aws:kms:us-east-1:123456789012:key/mrk-0123"\n',
    GCP + 'host_project = "network-123456"\nservice_account = "node@research-123456.iam.gserviceaccount.com"\n'
    'service_account_scopes = ["https://www.googleapis.com/auth/devstorage.read_only"]\n'
    f'kms_keys = {{ us-central1 = "{KEYS}" }}\ndisk_type = "pd-ssd"\nshielded_vm = true\nsecure_boot = true\n'
    'data_disk_gib = 1000\ntags = { cost_center = "4711" }\ncopy_labels = ["project"]\n',
    AZURE + f'identity_ids = ["{IN_GROUP}/Microsoft.ManagedIdentity/userAssignedIdentities/gpulease-node"]\n'
    f'disk_encryption_set_ids = {{ eastus = "{IN_GROUP}/Microsoft.Compute/diskEncryptionSets/gpulease-disks" }}\n'
    f'network_security_group_ids = {{ eastus = "{IN_GROUP}/Microsoft.Network/networkSecurityGroups/gpus" }}\n'
    'disk_type = "StandardSSD_LRS"\ndata_disk_gib = 1000\npublic_addresses = false\ntags = { CostCenter = "4711" }\n',
]  # fmt: skip

REFUSED = [
    (AWS + 'external_id = "customer-7f3a"', "external_id needs role_arn"),
    (AWS + 'instance_profile = "no such profile"', "instance_profile"),
    (AWS + 'kms_key_id = "my key"', "kms_key_id"),
    (AWS + 'kms_key_id = "arn:aws:kms:us-east-1:123456789012:key/mrk-0123"', "use an alias that exists in each region"),
    (AWS + "disk_iops = 100", "disk_iops"),
    (AWS + "disk_throughput_mib = 1000", "disk_throughput_mib needs disk_iops of at least 4 times"),
    (AWS + "data_disk_gib = 1", "data_disk_gib"),
    (AWS + "ssh_port = 0", "ssh_port"),
    (AWS + 'tags = { "aws:team" = "vision" }', "tags: the key 'aws:team' is not accepted there: at most 128"),
    (AWS + 'tags = { "a/b" = "vision" }', "tags: the key 'a/b' is not accepted there"),
    (AWS + 'tags = { team = "a#b" }', "tags: the value 'a#b' of the tag 'team' is not accepted there"),
    (AWS + 'tags = { gpulease-lease = "x" }', "tags: the key 'gpulease-lease' belongs to gpulease"),
    (AWS + 'tags = { "GPULEASE-deadline" = "0" }', "belongs to gpulease"),
    (AWS + 'tags = { name = "x" }', "tags: the key 'name' belongs to gpulease"),
    (AWS + 'tags = { team = "a", Team = "b" }', "occurs twice"),
    (AWS + 'copy_labels = ["gpulease-lease"]', "the key 'gpulease-lease' belongs to gpulease"),
    (AWS + 'copy_labels = ["Team "]', "copy_labels"),
    (AWS + 'tags = { Team = "a" }\ncopy_labels = ["team"]', "must not replace your tag"),
    (AWS + f"copy_labels = {[f'k{n}' for n in range(21)]}", "may have 20 keys together"),
    (GCP + 'tags = { Team = "vision" }', "tags: the key 'Team' is not accepted there: at most 63 lower-case"),
    (GCP + 'tags = { team = "Vision" }', "the value 'Vision' of the tag 'team'"),
    (GCP + 'copy_labels = ["1st"]', "the key '1st' is not accepted there"),
    (GCP + 'service_account_scopes = ["https://www.googleapis.com/auth/compute"]', "needs service_account"),
    (GCP + 'service_account = "node"', "service_account"),
    (GCP + "secure_boot = true", "secure_boot needs shielded_vm"),
    (GCP + f'kms_keys = {{ us-east1 = "{KEYS}" }}', "kms_keys must name each region of the account"),
    (GCP + 'kms_keys = { us-central1 = "disks" }', "kms_keys.us-central1"),
    (AZURE + 'identity_ids = ["gpulease-node"]', "identity_ids.0"),
    (AZURE + 'disk_encryption_set_ids = { eastus = "gpulease-disks" }', "disk_encryption_set_ids.eastus"),
    (AZURE + 'network_security_group_ids = { eastus = "gpus" }', "network_security_group_ids.eastus"),
    (
        AZURE
        + f'network_security_group_ids = {{ uksouth = "{IN_GROUP}/Microsoft.Network/networkSecurityGroups/gpus" }}',
        "network_security_group_ids must name each region of the account",
    ),
    (AZURE + 'disk_type = "UltraSSD_LRS"', "disk_type"),
    (AZURE + "data_disk_gib = 40000", "data_disk_gib may be 32767 at most"),
    (AZURE + 'tags = { Windows-team = "x" }', "begin with azure, microsoft or windows"),
    (AZURE + 'tags = { "a%b" = "x" }', "tags: the key 'a%b'"),
]


def load(folder: Path, account: str) -> Any:
    file = folder / "gpulease.toml"
    file.write_text(f"[[accounts]]\n{account}")
    return load_accounts(file)["main"]


@pytest.mark.parametrize("account", ACCEPTED)
def test_settings_that_can_work_are_read_and_survive_the_database(account: str, tmp_path: Path) -> None:
    settings = load(tmp_path, account)
    assert account_from_json(settings.model_dump(mode="json", exclude_defaults=True)) == settings


@pytest.mark.parametrize(("account", "why"), REFUSED)
def test_a_setting_that_cannot_work_stops_the_process_with_its_name(account: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(StartupError) as caught:
        load(tmp_path, account)
    assert str(caught.value).startswith(f"{tmp_path}/gpulease.toml: account 1: ")
    assert why in str(caught.value)
    assert "Value error" not in str(caught.value)


@pytest.mark.parametrize("account", [AWS, GCP, AZURE])
def test_what_nobody_has_set_is_not_stored_so_that_an_older_worker_can_read_it(account: str, tmp_path: Path) -> None:
    stored = load(tmp_path, account).model_dump(mode="json", exclude_defaults=True)
    assert stored.keys() == tomllib.loads(account).keys()
