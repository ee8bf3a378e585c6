"""Checks of the subscription before its first VM: its state, and what it must have registered."""

from collections.abc import Iterator
from typing import Any

from azure.core.rest import HttpRequest

from app.domain.account_checks import AccountCheck, CheckSubject
from workers.providers.azure.calls import part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import translated
from workers.providers.azure.rights import READ_FEATURE, READ_PROVIDER, READ_SUBSCRIPTION
from workers.providers.azure.settings import AzureAccount
from workers.providers.common.checks import failed, passed, refused
from workers.providers.errors import ProviderError

_USABLE = frozenset({"Enabled", "PastDue"})
"""States in which a subscription takes every call. In any other, Azure refuses launches. Azure docs, "Azure subscription states"."""
_REGISTERED = "Registered"
_NAMESPACES = ("Microsoft.Compute", "Microsoft.Network")
_FEATURE = "Microsoft.Compute/UseStandardSecurityType"
SUBSCRIPTION_API = "2022-12-01"
_PROVIDERS_API, _FEATURES_API = "2021-04-01", "2021-07-01"


def check_state(group: Group) -> AccountCheck:
    """Whether the subscription's state lets it create VMs. `identity` answers in every state."""
    name = "state of the subscription"
    try:
        state = str(part(_read(group, "", SUBSCRIPTION_API), "state"))
    except ProviderError as error:
        return refused(CheckSubject.CREDENTIALS, name, error, f"grant {READ_SUBSCRIPTION} for the subscription")
    if state not in _USABLE:
        fix = "reactivate the subscription in the Azure portal, or remove this account"
        return failed(CheckSubject.CREDENTIALS, name, f"the subscription is {state}: Azure refuses every launch", fix)
    if state == "Enabled":
        return passed(CheckSubject.CREDENTIALS, name, state)
    fix = "pay the outstanding bill, before Azure disables the subscription"
    return failed(CheckSubject.CREDENTIALS, name, f"the subscription is {state}: Azure still accepts launches", fix)


def check(group: Group, account: AzureAccount) -> Iterator[AccountCheck]:
    """The resource providers of VMs and networks, and the feature that the security type Standard needs."""
    for namespace in _NAMESPACES:
        fix = f"register it (`az provider register --namespace {namespace}`)"
        yield _check(group, namespace, f"providers/{namespace}", _PROVIDERS_API, ("registrationState",), fix)
    if account.security_type == "Standard":
        namespace, _, feature = _FEATURE.partition("/")
        path = f"providers/Microsoft.Features/providers/{namespace}/features/{feature}"
        fix = (
            f"register it (`az feature register --namespace {namespace} --name {feature}`), or set `security_type` of "
            "this account to TrustedLaunch"
        )
        yield _check(group, _FEATURE, path, _FEATURES_API, ("properties", "state"), fix)


def _check(group: Group, name: str, path: str, version: str, state_at: tuple[str, ...], fix: str) -> AccountCheck:
    try:
        state = str(part(_read(group, path, version), *state_at))
    except ProviderError as error:
        grant = f"grant {READ_PROVIDER} and {READ_FEATURE} for the subscription; only the check needs them"
        return refused(CheckSubject.RIGHT, name, error, grant)
    if state == _REGISTERED:
        return passed(CheckSubject.RIGHT, name, "registered")
    return failed(CheckSubject.RIGHT, name, f"the registration is {state}: Azure refuses every launch", fix)


def _read(group: Group, path: str, version: str) -> Any:
    url = f"/subscriptions/{group.subscription}/{path}".rstrip("/")
    with translated():
        answer = group.compute.send_request(HttpRequest("GET", url, params={"api-version": version}))
        answer.raise_for_status()
        return answer.json()
