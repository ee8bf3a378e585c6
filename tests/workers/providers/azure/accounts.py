"""An account at a stand-in for Azure."""

from typing import Any

from workers.providers.azure.settings import AzureAccount

SUBSCRIPTION = "00000000-0000-4000-8000-000000000001"
GROUP = "gpulease"
REGIONS = ("eastus", "westeurope")
NETWORKS = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/networks/providers/Microsoft.Network/virtualNetworks"
SUBNETS = {region: f"{NETWORKS}/{region}/subnets/gpus" for region in REGIONS}
SECURITY_GROUPS = {
    region: f"/subscriptions/{SUBSCRIPTION}/resourceGroups/networks/providers/Microsoft.Network/networkSecurityGroups/{region}"
    for region in REGIONS
}
"""Of an operator: with these, a launch is one call."""


def account(url: str, **changes: Any) -> AzureAccount:
    values: dict[str, Any] = {
        "provider": "azure",
        "name": "sim",
        "regions": REGIONS,
        "subscription_id": SUBSCRIPTION,
        "resource_group": GROUP,
        "subnet_ids": SUBNETS,
        "endpoint_url": url,
    }
    return AzureAccount(**(values | changes))
