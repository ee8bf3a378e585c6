"""Every operation of the AWS front: who does the work, and how often it may be called.

Rates are per account and region. RunInstances, describe and TerminateInstances figures follow EC2's published
throttling page; the rest are of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.ec2 import (
    iam,
    instances,
    interfaces,
    launch,
    networks,
    offerings,
    placement_groups,
    pricing,
    quotas,
    reservations,
    security_groups,
    spot,
    ssm,
    sts,
    tags,
    volumes,
)
from cloudsim.ec2.call import Handler
from cloudsim.world.limits import Rate

READS = ("reads", Rate(100, 20))
WRITES = ("writes", Rate(100, 5))
LAUNCHES = ("launches", Rate(5, 2))
LAUNCHED_VMS = ("launched-vms", Rate(1_000, 2))
ENDINGS = ("endings", Rate(100, 5))
PARAMETERS = ("parameters", Rate(40, 40))
QUOTA_READS = ("quotas", Rate(10, 10))
PRICE_LISTS = ("price-lists", Rate(100, 10))
IDENTITIES = ("identities", Rate(600, 600))


@dataclass(frozen=True, slots=True)
class Operation:
    """`buckets` are named: operations with the same name share one."""

    service: str
    name: str
    handler: Handler
    buckets: tuple[tuple[str, Rate], ...]

    @property
    def action(self) -> str:
        """The right to it, as a policy names it."""
        return f"{self.service.replace('-', '')}:{self.name}"


_ALL = (
    Operation("ec2", "RunInstances", launch.run_instances, (LAUNCHES, LAUNCHED_VMS)),
    Operation("ec2", "TerminateInstances", instances.terminate_instances, (ENDINGS,)),
    Operation("ec2", "RebootInstances", instances.reboot_instances, (WRITES,)),
    Operation("ec2", "DescribeInstances", instances.describe_instances, (READS,)),
    Operation("ec2", "DescribeInstanceStatus", instances.describe_instance_status, (READS,)),
    Operation("ec2", "GetConsoleOutput", instances.get_console_output, (READS,)),
    Operation("ec2", "DescribeSpotInstanceRequests", spot.describe_spot_instance_requests, (READS,)),
    Operation("ec2", "DescribeSpotPriceHistory", spot.describe_spot_price_history, (READS,)),
    Operation("ec2", "DescribeRegions", offerings.describe_regions, (READS,)),
    Operation("ec2", "DescribeAvailabilityZones", offerings.describe_availability_zones, (READS,)),
    Operation("ec2", "DescribeInstanceTypeOfferings", offerings.describe_instance_type_offerings, (READS,)),
    Operation("ec2", "DescribeInstanceTypes", offerings.describe_instance_types, (READS,)),
    Operation("ec2", "DescribeImages", offerings.describe_images, (READS,)),
    Operation("ec2", "DescribeCapacityReservations", reservations.describe_capacity_reservations, (READS,)),
    Operation("ec2", "DescribeVpcs", networks.describe_vpcs, (READS,)),
    Operation("ec2", "DescribeSubnets", networks.describe_subnets, (READS,)),
    Operation("ec2", "DescribeSecurityGroups", security_groups.describe_security_groups, (READS,)),
    Operation("ec2", "CreateSecurityGroup", security_groups.create_security_group, (WRITES,)),
    Operation("ec2", "AuthorizeSecurityGroupIngress", security_groups.authorize_security_group_ingress, (WRITES,)),
    Operation("ec2", "AuthorizeSecurityGroupEgress", security_groups.authorize_security_group_egress, (WRITES,)),
    Operation("ec2", "CreatePlacementGroup", placement_groups.create_placement_group, (WRITES,)),
    Operation("ec2", "DescribePlacementGroups", placement_groups.describe_placement_groups, (READS,)),
    Operation("ec2", "DeletePlacementGroup", placement_groups.delete_placement_group, (WRITES,)),
    Operation("ec2", "DeleteSecurityGroup", security_groups.delete_security_group, (WRITES,)),
    Operation("ec2", "DescribeVolumes", volumes.describe_volumes, (READS,)),
    Operation("ec2", "CreateVolume", volumes.create_volume, (WRITES,)),
    Operation("ec2", "AttachVolume", volumes.attach_volume, (WRITES,)),
    Operation("ec2", "DeleteVolume", volumes.delete_volume, (WRITES,)),
    Operation("ec2", "DescribeNetworkInterfaces", interfaces.describe_network_interfaces, (READS,)),
    Operation("ec2", "DeleteNetworkInterface", interfaces.delete_network_interface, (WRITES,)),
    Operation("ec2", "DescribeAddresses", interfaces.describe_addresses, (READS,)),
    Operation("ec2", "AllocateAddress", interfaces.allocate_address, (WRITES,)),
    Operation("ec2", "ReleaseAddress", interfaces.release_address, (WRITES,)),
    Operation("ec2", "CreateTags", tags.create_tags, (WRITES,)),
    Operation("ec2", "DeleteTags", tags.delete_tags, (WRITES,)),
    Operation("ec2", "DescribeTags", tags.describe_tags, (READS,)),
    Operation("ssm", "GetParameter", ssm.get_parameter, (PARAMETERS,)),
    Operation("ssm", "GetParameters", ssm.get_parameters, (PARAMETERS,)),
    Operation("service-quotas", "ListServiceQuotas", quotas.list_service_quotas, (QUOTA_READS,)),
    Operation("service-quotas", "GetServiceQuota", quotas.get_service_quota, (QUOTA_READS,)),
    Operation("service-quotas", "GetAWSDefaultServiceQuota", quotas.get_default_service_quota, (QUOTA_READS,)),
    Operation("pricing", "GetProducts", pricing.get_products, (PRICE_LISTS,)),
    Operation("sts", "GetCallerIdentity", sts.get_caller_identity, (IDENTITIES,)),
    Operation("sts", "AssumeRole", sts.assume_role, (IDENTITIES,)),
    Operation("iam", "SimulatePrincipalPolicy", iam.simulate_principal_policy, (IDENTITIES,)),
)
OPERATIONS = {(operation.service, operation.name): operation for operation in _ALL}
EVERY_NAME = frozenset(operation.name for operation in _ALL)
ACTIONS = frozenset((*(operation.action for operation in _ALL), "iam:CreateServiceLinkedRole"))
"""Rights that can be denied. The last one belongs to no call that is simulated here."""
