"""From RunInstances parameters to an order for the world, checked the way EC2 checks them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from cloudsim.ec2 import default_vpc, existing, launch_interfaces, reservations
from cloudsim.ec2.call import Call
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.disks import read_disks
from cloudsim.ec2.errors import AwsError, bad_value
from cloudsim.ec2.images import Image, available
from cloudsim.ec2.tag_rules import check_metadata_keys, specified_tags
from cloudsim.world import Market, Order, ResourceKind

USER_DATA_BYTES = 16_384
TOKEN_CHARACTERS = 64
_AMI = re.compile(r"ami-([0-9a-f]{8}|[0-9a-f]{17})")
METADATA_DEFAULTS = {
    "HttpTokens": "optional",
    "HttpPutResponseHopLimit": 1,
    "HttpEndpoint": "enabled",
    "HttpProtocolIpv6": "disabled",
    "InstanceMetadataTags": "disabled",
}


def read_order(call: Call) -> Order:
    """The order for the first VM of a RunInstances call. Raises AwsError as EC2 would refuse it."""
    params = call.params
    _check_counts(params)
    image = _image(call)
    machine = _machine(call)
    market, spot = _market(call)
    reservation = reservations.target(call)
    interfaces = launch_interfaces.read(params, machine) or [{}]
    nic = interfaces[0]
    subnet = nic.get("SubnetId") or params.get("SubnetId")
    zones, scope = _zones(call, subnet)
    _check_sold(call, machine, zones)
    if reservation is None:
        _check_sold_as(call, machine, market)
    groups_of = [
        _groups(call, interface.get("Groups") or params.get("SecurityGroupIds") or []) for interface in interfaces
    ]
    tags = specified_tags(params.get("TagSpecifications", []), spot=market is Market.SPOT)
    metadata = {**METADATA_DEFAULTS, **params.get("MetadataOptions", {})}
    check_metadata_keys(metadata, tags["instance"])
    _check_small_print(params)
    placement_group = params.get("Placement", {}).get("GroupName", "")
    return Order(
        provider=PROVIDER,
        account=call.account,
        region=call.region,
        zones=_sold_zones(call, machine, zones),
        id=f"i-{call.world.hex(17)}",
        name=tags["instance"].get("Name", ""),
        instance_type=machine,
        market=market,
        image=image.id,
        tags=tags["instance"],
        token=_token(params),
        token_scope=scope,
        params_hash=_params_hash(params),
        public_ip=nic.get("AssociatePublicIpAddress", len(interfaces) == 1),
        disks=read_disks(call, image, tags["volume"]),
        nics=tuple(
            launch_interfaces.order(call, interface, groups, tags["network-interface"])
            for interface, groups in zip(interfaces, groups_of, strict=True)
        ),
        spec={
            **_spec(call, groups_of[0], metadata),
            "capacity": reservations.placement_view(reservation),
            "spot": {**spot, "id": f"sir-{call.world.hex(8)}", "tags": tags["spot-instances-request"]},
        },
        placement_group=f"{PROVIDER}/{call.account}/{call.region}/{placement_group}" if placement_group else None,
        reservation=reservation.key if reservation is not None else None,
        spec_by_zone={zone: {"subnet": subnet or default_vpc.subnet_id(call.account, zone)} for zone in call.zones},
    )


def _spec(call: Call, groups: list[dict[str, str]], metadata: dict[str, Any]) -> dict[str, Any]:
    """What only this front understands of the VM."""
    params = call.params
    return {
        "reservation": f"r-{call.world.hex(17)}",
        "groups": groups,
        "metadata": metadata,
        "ebs_optimized": params.get("EbsOptimized", False),
        "protected": params.get("DisableApiTermination", False),
        "shutdown": params.get("InstanceInitiatedShutdownBehavior", "stop"),
        "user_data": params.get("UserData", ""),
        "profile": existing.profile_name(params.get("IamInstanceProfile", {})),
        "placement_group": params.get("Placement", {}).get("GroupName", ""),
    }


def _check_counts(params: Mapping[str, Any]) -> None:
    if params["MinCount"] < 1:
        raise bad_value(params["MinCount"], "minCount", "It must be at least 1.")
    if params["MaxCount"] < params["MinCount"]:
        raise bad_value(params["MaxCount"], "maxCount", "It must be at least minCount.")


def _image(call: Call) -> Image:
    image_id = call.params.get("ImageId")
    if image_id is None:
        raise AwsError("MissingParameter", "The request must contain the parameter ImageId")
    if not _AMI.fullmatch(image_id):
        raise AwsError("InvalidAMIID.Malformed", f'Invalid id: "{image_id}" (expecting "ami-...")')
    known = available(call.world, call.region)
    if image_id not in known:
        raise AwsError("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
    return known[image_id]


def _machine(call: Call) -> str:
    name = call.params.get("InstanceType", "m1.small")
    if name not in call.world.catalogs[PROVIDER].machines:
        raise AwsError("InvalidParameterValue", f"Invalid value '{name}' for InstanceType.")
    return str(name)


def _market(call: Call) -> tuple[Market, dict[str, Any]]:
    options = call.params.get("InstanceMarketOptions", {})
    if options.get("MarketType") in (None, reservations.BLOCK):
        return Market.ON_DEMAND, {}
    if options["MarketType"] != "spot":
        raise bad_value(options["MarketType"], "InstanceMarketOptions.MarketType", "It is not simulated.")
    spot = options.get("SpotOptions", {})
    kind, behaviour = spot.get("SpotInstanceType", "one-time"), spot.get("InstanceInterruptionBehavior", "terminate")
    if (kind, behaviour) != ("one-time", "terminate"):
        raise AwsError(
            "InvalidParameterCombination", f"{kind} requests that {behaviour} on interruption are not simulated"
        )
    return Market.SPOT, {"max_price": _max_price(spot.get("MaxPrice"))}


def _max_price(text: str | None) -> str | None:
    try:
        if text is not None and Decimal(text) <= 0:
            raise bad_value(text, "MaxPrice", "It must be positive.")
    except InvalidOperation:
        raise bad_value(text, "MaxPrice", "Not a price.") from None
    return text


def _zones(call: Call, subnet: str | None) -> tuple[tuple[str, ...], str]:
    """Candidate zones, and the scope of the client token: zonal when a zone or subnet is given."""
    zone_name = call.params.get("Placement", {}).get("AvailabilityZone")
    if zone_name is not None and zone_name not in call.zones:
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{zone_name}]")
    if subnet is not None:
        zone = default_vpc.zone_of_subnet(call.account, call.region, subnet)
        if zone is None:
            raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{subnet}' does not exist")
        if zone_name not in (None, zone):
            raise bad_value(zone_name, "availabilityZone", f"The subnet is in {zone}.")
        zone_name = zone
    return ((zone_name,), zone_name) if zone_name else (call.zones, call.region)


def _sold_zones(call: Call, machine: str, zones: Iterable[str]) -> tuple[str, ...]:
    offered = call.world.offered[PROVIDER]
    return tuple(zone for zone in zones if (zone, machine) in offered)


def _check_sold(call: Call, machine: str, zones: tuple[str, ...]) -> None:
    if _sold_zones(call, machine, zones):
        return
    others = _sold_zones(call, machine, call.zones)
    if not others:
        raise AwsError(
            "Unsupported", f"The requested configuration is currently not supported: {machine} in {call.region}."
        )
    raise AwsError(
        "Unsupported",
        f"Your requested instance type ({machine}) is not supported in your requested Availability Zone "
        f"({zones[0]}). Please retry your request by not specifying an Availability Zone or choosing "
        f"{', '.join(others)}.",
    )


def _check_sold_as(call: Call, machine: str, market: Market) -> None:
    if market not in call.world.machine(PROVIDER, machine).sold_as:
        raise AwsError("Unsupported", f"The requested configuration is currently not supported: {machine} {market}.")


def _groups(call: Call, group_ids: list[str]) -> list[dict[str, str]]:
    default = default_vpc.default_group_id(call.account, call.region)
    return [_group(call, group_id, default) for group_id in group_ids or [default]]


def _group(call: Call, group_id: str, default: str) -> dict[str, str]:
    if group_id == default:
        return {"GroupId": default, "GroupName": "default"}
    group = call.resource(ResourceKind.SECURITY_GROUP, group_id)
    if group is None:
        raise AwsError("InvalidGroup.NotFound", f"The security group '{group_id}' does not exist")
    return {"GroupId": group.id, "GroupName": group.spec["name"]}


def _token(params: Mapping[str, Any]) -> str | None:
    token = params.get("ClientToken") or None
    if token is not None and (len(token) > TOKEN_CHARACTERS or not token.isascii()):
        raise bad_value(token, "clientToken", f"At most {TOKEN_CHARACTERS} ASCII characters are allowed.")
    return token


def _params_hash(params: Mapping[str, Any]) -> str:
    compared = {name: value for name, value in params.items() if name not in ("ClientToken", "DryRun")}
    return hashlib.sha256(json.dumps(compared, sort_keys=True, default=repr).encode()).hexdigest()


def _check_small_print(params: Mapping[str, Any]) -> None:
    _check_user_data(params.get("UserData", ""))
    if params.get("KeyName"):
        raise AwsError("InvalidKeyPair.NotFound", f"The key pair '{params['KeyName']}' does not exist")
    profile = existing.profile_name(params.get("IamInstanceProfile", {}))
    if profile and profile not in existing.INSTANCE_PROFILES:
        raise bad_value(profile, "iamInstanceProfile.name", "Invalid IAM Instance Profile name")
    if params.get("LaunchTemplate"):
        raise AwsError("InvalidLaunchTemplateId.NotFound", "The specified launch template does not exist")


def _check_user_data(encoded: str) -> None:
    try:
        user_data = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise AwsError("InvalidParameterValue", "Invalid BASE64 encoding of user data") from None
    if len(user_data) > USER_DATA_BYTES:
        raise AwsError("InvalidParameterValue", f"User data is limited to {USER_DATA_BYTES} bytes")
