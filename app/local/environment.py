"""The environment that the stack gives to its processes."""

from collections.abc import Mapping

from app.local.home import Home
from app.local.leftovers import MARKER
from app.local.options import Options
from app.local.private_files import write_private
from app.local.profiles import PROFILES

# The simulated cloud believes any key; the real ones of the user must never reach it.
SIMULATED_AWS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "AKIALOCALSTACKSIM001",
    "AWS_SECRET_ACCESS_KEY": "simulated",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
SIMULATED_AZURE: Mapping[str, str] = {"AZURE_CLIENT_SECRET": "simulated"}

ACCOUNTS = """\
# Written by the local stack at every start. Set GPULEASE_CONFIG to use accounts of your own.
[[accounts]]
provider = "aws"
name = "sim"
regions = ["us-east-1", "eu-west-1"]
endpoint_url = "{url}"

[[accounts]]
provider = "azure"
name = "sim-azure"
regions = ["eastus", "westeurope"]
endpoint_url = "{url}"
subscription_id = "00000000-0000-4000-8000-000000000001"
resource_group = "gpulease"
[accounts.subnet_ids]
eastus = "{subnets}/eastus/subnets/gpus"
westeurope = "{subnets}/westeurope/subnets/gpus"
"""
SUBNETS = (
    "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/gpulease"
    "/providers/Microsoft.Network/virtualNetworks"
)
"""Where the simulated Azure's subnets are."""


def process_environment(
    home: Home, options: Options, *, database_url: str, broker_url: str, outside: Mapping[str, str]
) -> dict[str, str]:
    """The user's environment, over it what the stack fixes, below it the profile's settings."""
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
    theirs = outside if options.config else {**_without_clouds(outside), **SIMULATED_AWS, **SIMULATED_AZURE}
    return {**PROFILES[options.profile], **theirs, **fixed}


def _without_clouds(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(("AWS_", "AZURE_"))}


def write_accounts(home: Home, options: Options) -> None:
    """The accounts file of the simulated clouds."""
    write_private(home.accounts_file, ACCOUNTS.format(url=options.cloudsim_url, subnets=SUBNETS))
