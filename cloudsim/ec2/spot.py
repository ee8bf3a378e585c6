"""Spot requests (each belongs to one VM and lives as long) and spot prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.errors import AwsError
from cloudsim.ec2.filters import compiled
from cloudsim.ec2.paging import page
from cloudsim.ec2.views import tag_list
from cloudsim.world import Market, Order, Vm, VmState

_MESSAGES = {
    "fulfilled": "Your Spot request is fulfilled.",
    "marked-for-termination": "Your Spot Instance is marked for termination.",
    "instance-terminated-no-capacity": "Your Spot Instance was terminated because there is no capacity available.",
    "instance-terminated-by-price": "Your Spot Instance was terminated because its price rose above your maximum.",
    "instance-terminated-by-user": "Spot Instance terminated due to user-initiated termination.",
    "instance-terminated-launch-failed": "Your Spot Instance failed to launch.",
}
RECLAIM_CAUSES = {"no-capacity": "instance-terminated-no-capacity", "price": "instance-terminated-by-price"}
_PRODUCT = "Linux/UNIX"
_PRICE_PERIOD_SECONDS = 3_600


def check_price(call: Call, order: Order) -> None:
    """Raises AwsError SpotMaxPriceTooLow when no candidate zone is that cheap."""
    max_price = order.spec["spot"].get("max_price")
    if max_price is None:
        return
    cheapest = min(_price(call, zone, order.instance_type) for zone in order.zones)
    if Decimal(max_price) < cheapest:
        raise AwsError(
            "SpotMaxPriceTooLow",
            f"Your Spot request price of {max_price} is lower than the minimum required Spot request fulfillment "
            f"price of {cheapest}.",
        )


def _price(call: Call, zone: str, machine: str) -> Decimal:
    listed = call.world.catalogs[PROVIDER].offers[zone, machine].spot
    return listed * call.world.spot_factor(PROVIDER, call.region)


def status_code(vm: Vm) -> str:
    """The spot request's status code."""
    if vm.state in (VmState.SHUTTING_DOWN, VmState.TERMINATED):
        if vm.end_code == "reclaimed":
            return RECLAIM_CAUSES[vm.reclaim_cause]
        return (
            "instance-terminated-by-user"
            if vm.end_code in ("user", "instance")
            else "instance-terminated-launch-failed"
        )
    return "fulfilled" if vm.notice_at is None else "marked-for-termination"


def _state(vm: Vm) -> str:
    return "active" if vm.state in (VmState.PENDING, VmState.RUNNING) else "closed"


def _updated_at(vm: Vm) -> float:
    return vm.ending_at or vm.notice_at or vm.launched_at


_FIELDS: dict[str, Callable[[Vm], str | Iterable[str] | None]] = {
    "instance-id": lambda vm: vm.id,
    "launched-availability-zone": lambda vm: vm.zone,
    "spot-instance-request-id": lambda vm: vm.spec["spot"]["id"],
    "state": _state,
    "status-code": status_code,
}


def describe_spot_instance_requests(call: Call) -> Result:
    """Requests of VMs that are still listed."""
    listed = [vm for vm in call.shelf.after(0) if vm.market is Market.SPOT and vm.visible_at <= call.now]
    request_ids = call.params.get("SpotInstanceRequestIds")
    if request_ids:
        listed = _named(listed, request_ids)
    matches = compiled(call.params.get("Filters", []), _FIELDS, lambda vm: vm.spec["spot"]["tags"])
    page_items, token = page(filter(matches, listed), lambda vm: f"{vm.seq:020}", call)
    return {"SpotInstanceRequests": [_request(vm) for vm in page_items], "NextToken": token}


def _named(listed: list[Vm], request_ids: list[str]) -> list[Vm]:
    by_id = {vm.spec["spot"]["id"]: vm for vm in listed}
    missing = [request_id for request_id in request_ids if request_id not in by_id]
    if missing:
        raise AwsError(
            "InvalidSpotInstanceRequestID.NotFound", f"The spot instance request ID '{missing[0]}' does not exist"
        )
    return [by_id[request_id] for request_id in request_ids]


def _request(vm: Vm) -> dict[str, Any]:
    code = status_code(vm)
    return {
        "SpotInstanceRequestId": vm.spec["spot"]["id"],
        "CreateTime": vm.launched_at,
        "InstanceId": vm.id,
        "InstanceInterruptionBehavior": "terminate",
        "LaunchedAvailabilityZone": vm.zone,
        "LaunchSpecification": {
            "ImageId": vm.image,
            "InstanceType": vm.instance_type,
            "Placement": {"AvailabilityZone": vm.zone},
            "SecurityGroups": vm.spec["groups"],
        },
        "ProductDescription": _PRODUCT,
        "SpotPrice": vm.spec["spot"].get("max_price"),
        "State": _state(vm),
        "Status": {"Code": code, "Message": _MESSAGES[code], "UpdateTime": _updated_at(vm)},
        "Tags": tag_list(vm.spec["spot"]["tags"]),
        "Type": "one-time",
    }


_PRICE_FIELDS: dict[str, Callable[[tuple[str, str]], str | Iterable[str] | None]] = {
    "availability-zone": lambda place: place[0],
    "instance-type": lambda place: place[1],
    "product-description": lambda _: _PRODUCT,
}


def describe_spot_price_history(call: Call) -> Result:
    """The price of now for every type and zone sold; it changed at the last full hour."""
    params = call.params
    matches = compiled(params.get("Filters", []), _PRICE_FIELDS)
    types, zone = params.get("InstanceTypes"), params.get("AvailabilityZone")
    products = params.get("ProductDescriptions") or [_PRODUCT]
    places = [
        place
        for place in call.world.offered[PROVIDER]
        if place[0] in call.zones
        and zone in (None, place[0])
        and (not types or place[1] in types)
        and _PRODUCT in products
        and matches(place)
    ]
    page_items, token = page(places, lambda place: f"{place[1]}/{place[0]}", call)
    since = call.now - call.now % _PRICE_PERIOD_SECONDS
    return {
        "SpotPriceHistory": [
            {
                "AvailabilityZone": place[0],
                "InstanceType": place[1],
                "ProductDescription": _PRODUCT,
                "SpotPrice": f"{_price(call, *place):.6f}",
                "Timestamp": since,
            }
            for place in page_items
        ],
        "NextToken": token or "",
    }
