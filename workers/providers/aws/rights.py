"""The rights that the adapter needs at AWS: the one list of them. The policy in `docs/providers/aws.md` grants these.

Each group says how `checks` finds out whether the identity has its rights.
"""

READS_OF_EC2 = (
    "ec2:DescribeAddresses",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceStatus",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstances",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribePlacementGroups",
    "ec2:DescribeRegions",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSpotInstanceRequests",
    "ec2:DescribeSpotPriceHistory",
    "ec2:DescribeSubnets",
    "ec2:DescribeVolumes",
)
"""By a call with `DryRun` and without other parameters."""

READS_OF_RESERVATIONS = ("ec2:DescribeCapacityReservations",)
"""In the same way, only where an account has reservations."""

RUN_INSTANCES = "ec2:RunInstances"
CREATE_SECURITY_GROUP = "ec2:CreateSecurityGroup"
CREATE_PLACEMENT_GROUP = "ec2:CreatePlacementGroup"
CREATE_VOLUME = "ec2:CreateVolume"
LAUNCH = (RUN_INSTANCES, CREATE_SECURITY_GROUP, CREATE_PLACEMENT_GROUP, CREATE_VOLUME)
"""By a call with `DryRun` and the parameters of a launch."""

OWN_RESOURCES = (
    "ec2:AttachVolume",
    "ec2:AuthorizeSecurityGroupEgress",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:CreateTags",
    "ec2:DeleteNetworkInterface",
    "ec2:DeletePlacementGroup",
    "ec2:DeleteSecurityGroup",
    "ec2:DeleteVolume",
    "ec2:GetConsoleOutput",
    "ec2:RebootInstances",
    "ec2:ReleaseAddress",
    "ec2:TerminateInstances",
)
"""By IAM's policy simulator: `DryRun` needs a resource with the installation's tag, and there is none before a lease."""

CREATE_SPOT_ROLE = "iam:CreateServiceLinkedRole"
"""By IAM's policy simulator too: the call has no `DryRun`."""

GET_PRODUCTS = "pricing:GetProducts"
GET_QUOTA = "servicequotas:GetServiceQuota"
GET_DEFAULT_QUOTA = "servicequotas:GetAWSDefaultServiceQuota"
GET_PARAMETER = "ssm:GetParameter"
GET_IDENTITY = "sts:GetCallerIdentity"
OTHER_READS = (GET_PRODUCTS, GET_QUOTA, GET_DEFAULT_QUOTA, GET_PARAMETER, GET_IDENTITY)
"""By the call itself."""

SIMULATE = "iam:SimulatePrincipalPolicy"
"""Only the check needs it. Without it, the check cannot show the rights on gpulease's own resources."""

RIGHTS = frozenset((*READS_OF_EC2, *LAUNCH, *OWN_RESOURCES, CREATE_SPOT_ROLE, *OTHER_READS))
"""What leases need."""
