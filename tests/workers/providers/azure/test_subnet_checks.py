"""How many addresses an Azure subnet has left."""

from typing import Any

import pytest

from workers.providers.azure.subnet_checks import free_addresses


@pytest.mark.parametrize(
    ("properties", "free"),
    [
        ({"addressPrefix": "10.0.0.0/28"}, 11),
        ({"addressPrefix": "10.0.0.0/28", "ipConfigurations": [{}] * 11}, 0),
        ({"addressPrefixes": ["10.0.0.0/28", "10.1.0.0/28"]}, 22),
        ({"addressPrefixes": ["10.0.0.0/28", "fd00::/64"]}, 11),
        ({"addressPrefix": "10.0.0.0/29", "ipConfigurations": None}, 3),
    ],
)
def test_azure_keeps_five_addresses_of_each_range(properties: dict[str, Any], free: int) -> None:
    assert free_addresses(properties) == free
