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

ACCOUNTS = """\
# Written by the local stack at every start. Set GPULEASE_CONFIG to use accounts of your own.
[[accounts]]
provider = "aws"
name = "sim"
regions = ["us-east-1", "eu-west-1"]
endpoint_url = "{url}"
"""


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
    theirs = outside if options.config else {**_without_aws(outside), **SIMULATED_AWS}
    return {**PROFILES[options.profile], **theirs, **fixed}


def _without_aws(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith("AWS_")}


def write_accounts(home: Home, options: Options) -> None:
    """The accounts file of the simulated cloud."""
    write_private(home.accounts_file, ACCOUNTS.format(url=options.cloudsim_url))
