"""One account at each simulated cloud, and how that cloud refuses to delete."""

from pathlib import Path
from typing import Any

from tests.workers.providers.azure.accounts import GROUP, SUBNETS, SUBSCRIPTION
from tests.workers.providers.gcp.accounts import PROJECT, key_file

PLACES: dict[str, dict[str, str]] = {
    "aws": {"region": "us-east-1", "zone": "us-east-1a", "instance_type": "g5.xlarge"},
    "gcp": {"region": "us-central1", "zone": "us-central1-a", "instance_type": "g2-standard-4"},
    "azure": {"region": "eastus", "zone": "eastus-1", "instance_type": "Standard_NC4as_T4_v3"},
}
CLOUDS = sorted(PLACES)
REFUSALS = {"aws": "OperationNotPermitted", "gcp": "invalidResourceUsage", "azure": "ScopeLocked"}
"""The code with which a protected VM refuses to end."""

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIASIMULATED0000001",
    "AWS_SECRET_ACCESS_KEY": "simulated",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AZURE_CLIENT_SECRET": "simulated",
}
_MODELS = {"aws": "A10G", "gcp": "L4", "azure": "T4"}


def request(provider: str) -> dict[str, Any]:
    """What a lease at this cloud asks for."""
    model, name = _MODELS[provider], PLACES[provider]["instance_type"]
    return {"gpu": {"model": model, "count": 1, "memory_gib": None}, "instance_types": [name]}


def account_text(provider: str, url: str, folder: Path, **more: str) -> str:
    """The account `sim` as `gpulease.toml` has it. `more`: settings as TOML values."""
    subnets = ", ".join(f'{region} = "{subnet}"' for region, subnet in SUBNETS.items())
    settings: dict[str, dict[str, str]] = {
        "aws": {},
        "gcp": {"project": f'"{PROJECT}"', "credentials_file": f'"{key_file(folder, url)}"'},
        "azure": {
            "subscription_id": f'"{SUBSCRIPTION}"',
            "resource_group": f'"{GROUP}"',
            "subnet_ids": f"{{ {subnets} }}",
        },
    }
    values = {
        "provider": f'"{provider}"',
        "name": '"sim"',
        "regions": f'["{PLACES[provider]["region"]}"]',
        "endpoint_url": f'"{url}"',
        **settings[provider],
        **more,
    }
    return "[[accounts]]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
