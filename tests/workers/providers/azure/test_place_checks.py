"""How many addresses an Azure subnet has left, and which network security groups connect VMs."""

from typing import Any

import pytest

from app.domain.account_checks import CheckResult
from cloudsim.testing import running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure.accounts import SECURITY_GROUPS, account
from tests.workers.providers.azure.specs import REGION, spec
from workers.providers.azure import firewall, names
from workers.providers.azure.adapter import AzureProvider
from workers.providers.azure.place_checks import free_addresses
from workers.providers.azure.rights import JOIN_SECURITY_GROUP


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


def rule(priority: int, access: str, source: str | list[str], ports: str | list[str] = "*", **changes: Any) -> Any:
    """An inbound rule, as Azure shows it: one value, or a list of them."""
    properties = {
        "priority": priority,
        "access": access,
        "direction": "Inbound",
        "protocol": "*",
        "destinationAddressPrefix": "*",
        **({"sourceAddressPrefix": source} if isinstance(source, str) else {"sourceAddressPrefixes": source}),
        **({"destinationPortRange": ports} if isinstance(ports, str) else {"destinationPortRanges": ports}),
        **changes,
    }
    return {"name": f"rule-{priority}", "properties": properties}


DENY = rule(4000, "Deny", "VirtualNetwork")
SSH = rule(100, "Allow", "*", "22", protocol="Tcp")


@pytest.mark.parametrize(
    "rules",
    [
        [DENY],
        [SSH, DENY],
        [rule(4000, "Deny", "*")],
        [rule(4000, "Deny", ["0.0.0.0/0"], ["0-65535"])],
        [DENY, rule(4001, "Allow", "*")],
        [rule(100, "Allow", "203.0.113.0/24"), DENY],
        [rule(100, "Allow", "*", direction="Outbound"), DENY],
    ],
)
def test_a_group_that_denies_the_virtual_network_before_anything_lets_it_in_separates_vms(rules: Any) -> None:
    assert not firewall.connects_vms({"properties": {"securityRules": rules}}, 22)


@pytest.mark.parametrize(
    "rules",
    [
        [],
        [SSH],
        [rule(100, "Allow", "VirtualNetwork"), DENY],
        [rule(100, "Allow", ["10.0.0.0/8", "0.0.0.0/0"], ["22", "8888"]), DENY],
        [rule(100, "Allow", "*", "2222"), DENY],
        [rule(4000, "Deny", "VirtualNetwork", protocol="Tcp")],
        [rule(4000, "Deny", "VirtualNetwork", "0-1023")],
        [rule(4000, "Deny", "VirtualNetwork", direction="Outbound")],
        [rule(4000, "Deny", "10.0.0.0/8")],
        [rule(4000, "Deny", "VirtualNetwork", destinationAddressPrefix="10.0.0.4")],
    ],
)
def test_any_other_group_connects_the_vms_of_a_virtual_network(rules: Any) -> None:
    assert firewall.connects_vms({"properties": {"securityRules": rules}}, 22)


@pytest.mark.parametrize("members", [None, "/groups/members"])
def test_a_group_is_closed_until_somebody_opens_it(members: str | None) -> None:
    made = firewall.body(spec(), {}, members)
    rules = made["properties"]["securityRules"]
    assert firewall.is_closed(made)
    for opened in ([*rules, SSH], [*rules, rule(100, "Allow", "203.0.113.0/24", "443")], rules[:-1], []):
        assert not firewall.is_closed({"properties": {"securityRules": opened}})


def test_the_check_reads_the_group_that_the_account_names() -> None:
    with running() as sim:
        azure = AzureProvider(account(sim.url, network_security_group_ids=SECURITY_GROUPS), read_settings())

        def problems() -> list[tuple[str, str | None]]:
            checks = [*azure.check_account("x"), *azure.check_region(REGION, "x")]
            return [(one.name, one.detail) for one in checks if one.result is not CheckResult.PASSED]

        def put(location: str, *rules: Any) -> None:
            body: Any = {"location": location, "properties": {"securityRules": list(rules)}}
            groups = azure._group.network.network_security_groups
            groups.begin_create_or_update("networks", names.last(SECURITY_GROUPS[REGION]), body, polling=False)

        assert problems() == [(REGION, "the network security group does not exist")]
        put("westeurope", DENY)
        assert problems() == [(REGION, f"it lies in westeurope, not in {REGION}")]
        put(REGION, SSH)
        assert problems() == [(REGION, "it lets the VMs of all tenants reach each other")]
        put(REGION, SSH, DENY)
        assert problems() == []
        sim.deny(JOIN_SECURITY_GROUP, provider="azure")
        missing = {"missing for the resource group", "missing for the network security group"}
        assert {detail for _, detail in problems()} == missing
