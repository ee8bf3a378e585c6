"""The subscription: its state, its registrations, and what it refuses for their sake.

States and what they allow: Azure docs, "Azure subscription states". A subscription that is not registered for a resource
provider: Azure docs, "Resolve errors for resource provider registration".
"""

from __future__ import annotations

from cloudsim.arm.call import COMPUTE, NETWORK, Answer, Call
from cloudsim.arm.errors import ArmError

STANDARD_SECURITY = f"{COMPUTE}/UseStandardSecurityType"
STOPPED_BY_STATE = "VMStoppedToWarnSubscription"
"""The code of VMs that Azure stops with their subscription."""
READ_ONLY = frozenset({"Warned", "Disabled", "Deleted"})
_REGISTERED, _NOT_REGISTERED = "Registered", "NotRegistered"


def subscription(call: Call) -> Answer:
    """Who the caller pays as."""
    head = {"id": f"/subscriptions/{call.subscription}", "subscriptionId": call.subscription}
    state = call.world.restrictions.subscription_state(call.subscription)
    return Answer(head | {"displayName": "cloudsim", "state": state})


def provider(call: Call) -> Answer:
    """A resource provider with its registration."""
    namespace = call.path["namespace"]
    if namespace not in {COMPUTE, NETWORK}:
        raise ArmError("InvalidResourceNamespace", f"The resource namespace '{namespace}' is invalid.")
    head = {"id": f"/subscriptions/{call.subscription}/providers/{namespace}", "namespace": namespace}
    return Answer(head | {"registrationState": _registration(call, namespace)})


def feature(call: Call) -> Answer:
    """A preview feature of a resource provider with its registration."""
    name = f"{call.path['namespace']}/{call.path['feature']}"
    if name != STANDARD_SECURITY:
        raise ArmError("FeatureNotFound", f"The feature '{call.path['feature']}' could not be found.")
    scope = f"/subscriptions/{call.subscription}/providers/Microsoft.Features"
    head = {
        "name": name,
        "id": f"{scope}/providers/{call.path['namespace']}/features/{call.path['feature']}",
        "type": "Microsoft.Features/providers/features",
    }
    return Answer(head | {"properties": {"state": _registration(call, name)}})


def _registration(call: Call, name: str) -> str:
    return _REGISTERED if call.world.restrictions.is_registered(call.subscription, name) else _NOT_REGISTERED


def check(call: Call, path: str, method: str) -> None:
    """Raises ArmError where the subscription's state or a missing registration forbids the call."""
    restrictions, subscription_id = call.world.restrictions, call.subscription
    if method != "GET" and restrictions.subscription_state(subscription_id) in READ_ONLY:
        raise ArmError(
            "ReadOnlyDisabledSubscription",
            f"The subscription '{subscription_id}' is disabled and therefore marked as read only. You cannot perform any "
            "write actions on this subscription until it is re-enabled.",
        )
    namespaces = [name for name in (COMPUTE, NETWORK) if f"/{name}/" in path]
    if method == "PUT" and path.endswith("virtualMachines/{name}"):
        namespaces.append(NETWORK)  # the interface and the address are made with the VM
    for namespace in namespaces:
        if method != "GET" and not restrictions.is_registered(subscription_id, namespace):
            raise ArmError(
                "MissingSubscriptionRegistration",
                f"The subscription is not registered to use namespace '{namespace}'. See https://aka.ms/rps-not-found "
                "for how to register subscriptions.",
            )


def check_security(call: Call, security_type: str | None) -> None:
    """Raises ArmError for a security type whose feature is not registered."""
    registered = call.world.restrictions.is_registered(call.subscription, STANDARD_SECURITY)
    if security_type == "Standard" and not registered:
        raise ArmError(
            "BadRequest",
            "The value 'Standard' is not available for property 'securityType' until the feature "
            f"'{STANDARD_SECURITY}' is registered.",
        )
