"""The environment that the stack gives to its processes."""

import json
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from app.local.home import Home
from app.local.leftovers import MARKER
from app.local.options import PASSWORD_VARIABLES, Options
from app.local.private_files import write_private
from app.local.profiles import PROFILES
from app.settings.timing import layered

# The simulated cloud believes any key; the real ones of the user must never reach it.
SIMULATED_AWS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "AKIALOCALSTACKSIM001",
    "AWS_SECRET_ACCESS_KEY": "simulated",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
SIMULATED_AZURE: Mapping[str, str] = {"AZURE_CLIENT_SECRET": "simulated"}

ACCOUNTS_HEADER = "# Written by the local stack at every start. Set GPULEASE_CONFIG to use accounts of your own.\n"
ACCOUNTS: Mapping[str, str] = {
    "aws": """
[[accounts]]
provider = "aws"
name = "sim"
regions = ["us-east-1", "eu-west-1"]
endpoint_url = "{url}"
ssh_port = {ssh_port}
images = {{ "ubuntu-22.04" = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id" }}
""",
    "gcp": """
[[accounts]]
provider = "gcp"
name = "sim-gcp"
project = "sim-project"
regions = ["us-central1", "europe-west4"]
endpoint_url = "{url}"
ssh_port = {ssh_port}
credentials_file = {gcp_key_file}
[accounts.images]
"ubuntu-22.04" = "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2204-amd64-with-nvidia-580"
""",
    "azure": """
[[accounts]]
provider = "azure"
name = "sim-azure"
regions = ["eastus", "westeurope"]
endpoint_url = "{url}"
ssh_port = {ssh_port}
subscription_id = "00000000-0000-4000-8000-000000000001"
resource_group = "gpulease"
[accounts.subnet_ids]
eastus = "{subnets}/eastus/subnets/gpus"
westeurope = "{subnets}/westeurope/subnets/gpus"
[accounts.images]
"ubuntu-22.04" = "microsoft-dsvm:ubuntu-hpc:2204:latest"
""",
}
"""The accounts at the simulated clouds, by provider."""

SUBNETS = (
    "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/gpulease"
    "/providers/Microsoft.Network/virtualNetworks"
)
"""Where the simulated Azure's subnets are."""

GCP_EMAIL = "gpulease@sim-project.iam.gserviceaccount.example"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_CREDENTIALS = ("AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_", "ARM_", "MSI_", "IDENTITY_")
"""How the variables begin that the SDKs of clouds read."""


def process_environment(
    home: Home, options: Options, *, database_url: str, broker_url: str, outside: Mapping[str, str]
) -> dict[str, str]:
    """The user's environment, over it what the stack fixes, below it the profile's settings. Nothing of it opens a cloud."""
    fixed = {
        MARKER: str(home.path),
        "GPULEASE_HOME": str(home.path),
        "GPULEASE_DATABASE_URL": database_url,
        "GPULEASE_BROKER_URL": broker_url,
        "GPULEASE_CONFIG": options.config or str(home.accounts_file),
        "GPULEASE_HOST": options.host,
        "GPULEASE_PORT": str(options.port),
        "PYTHONUNBUFFERED": "1",
        "PYTHONSAFEPATH": "1",  # the processes run in the home, whose folders must not be taken for packages
        "NO_PROXY": ",".join(filter(None, [outside.get("NO_PROXY"), "127.0.0.1,localhost"])),
    }
    theirs = {name: value for name, value in outside.items() if not name.startswith(_CREDENTIALS)}
    # such an API has users of this machine alone, and they reach its other ports without gpulease
    receivers = {"GPULEASE_WEBHOOK_LOCAL": "true"} if options.host in _LOOPBACK else {}
    # a real VM cannot reach the loopback address
    simulated = {} if options.config else {"GPULEASE_PUBLIC_URL": options.api_url}
    merged = layered(PROFILES[options.profile], receivers, simulated, theirs, fixed)
    # the URL has the password in it
    return {name: value for name, value in merged.items() if name not in PASSWORD_VARIABLES}


def cloud_credentials(options: Options, *, outside: Mapping[str, str]) -> dict[str, str]:
    """What only the programs get that call clouds: the user's own credentials, or those of the simulated clouds."""
    if not options.config:
        return {**SIMULATED_AWS, **SIMULATED_AZURE}
    return {name: value for name, value in outside.items() if name.startswith(_CREDENTIALS)}


def write_accounts(home: Home, options: Options, ssh_port: int) -> None:
    """The accounts file of the simulated clouds, and the service account of the one that has no simpler credentials."""
    if "gcp" in options.clouds:
        write_private(home.gcp_key_file, _service_account(f"{options.cloudsim_url}/gce/token"))
    quoted = json.dumps(str(home.gcp_key_file))
    accounts = "".join(ACCOUNTS[cloud] for cloud in options.clouds)
    places = {
        "url": options.cloudsim_url,
        "ssh_port": ssh_port,
        "gcp_key_file": quoted,
        "subnets": SUBNETS,
    }
    write_private(home.accounts_file, ACCOUNTS_HEADER + accounts.format(**places))


def _service_account(token_uri: str) -> str:
    """A key file as Google gives them, with a key that opens nothing but the simulated project."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return json.dumps(
        {
            "type": "service_account",
            "project_id": "sim-project",
            "private_key_id": "simulated",
            "private_key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
            "client_email": GCP_EMAIL,
            "token_uri": token_uri,
        }
    )
