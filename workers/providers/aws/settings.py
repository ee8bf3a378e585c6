"""The settings of one account, and what the program knows of the provider."""

import re
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from app.domain.offerings import Market
from app.settings.account_tags import TagRules
from app.settings.providers import AccountSettings, ProviderInfo
from app.settings.reservations import ReservationKind
from workers.providers.aws import resource_tags
from workers.providers.aws.focus import FOCUS

CAPACITY_RESERVATION, CAPACITY_BLOCK = "capacity_reservation", "capacity_block"
_ONE_REGION_KEY = re.compile(r"arn:[a-z-]+:kms:([a-z0-9-]+):")
_WORD = r"A-Za-z0-9_+=,.@\-"
_PROFILE = rf"^(arn:[a-z-]+:iam::[0-9]{{12}}:instance-profile/[{_WORD}/]+|[{_WORD}]+)$"
_KEY_NAME = r"[A-Za-z0-9/_-]+"
_KEY = (
    rf"^(alias/{_KEY_NAME}|arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{{12}}:(key|alias)/{_KEY_NAME}|(mrk-)?[0-9a-f-]{{32,36}})$"
)
_PER_IOPS = 4
"""IOPS that each MiB/s of a gp3 volume needs (EBS user guide, "General Purpose SSD volumes": 0.25 MiB/s per IOPS)."""
_LEAST_IOPS = 3_000


class AwsAccount(AccountSettings):
    """One AWS account. Credentials come from boto3's own chain, `profile` and `role_arn` narrow it."""

    tag_rules: ClassVar[TagRules] = resource_tags.RULES
    reservation_kinds: ClassVar[tuple[ReservationKind, ...]] = (
        ReservationKind(name=CAPACITY_RESERVATION),
        ReservationKind(name=CAPACITY_BLOCK),
    )

    provider: Literal["aws"]
    role_arn: str | None = None
    external_id: str | None = Field(
        default=None,
        min_length=2,
        max_length=1224,
        pattern=rf"^[:/\\{_WORD}]+$",
        description="The external id that the trust policy of `role_arn` requires.",
    )
    profile: str | None = None
    subnet_ids: tuple[str, ...] = ()
    security_group_ids: tuple[str, ...] = ()
    image: str | None = Field(default=None, description="Pin: an AMI id or an SSM parameter name.")
    instance_profile: str | None = Field(
        default=None,
        pattern=_PROFILE,
        description="Name or ARN. The VM, and so its tenant, has the rights of its role.",
    )
    kms_key_id: str | None = Field(
        default=None, pattern=_KEY, description="The KMS key of the volumes: id, ARN or alias; none: the account's own."
    )
    disk_iops: int | None = Field(default=None, ge=_LEAST_IOPS, le=80_000, description="IOPS of each gp3 volume.")
    disk_throughput_mib: int | None = Field(default=None, ge=125, le=2_000, description="MiB/s of each gp3 volume.")
    placement_group: str | None = Field(
        default=None, min_length=1, max_length=255, description="The placement group of every VM, in each region."
    )
    events_queue_url: str | None = Field(default=None, description="An SQS queue with EC2's events of EventBridge.")

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        if self.external_id is not None and self.role_arn is None:
            raise ValueError("external_id needs role_arn: only an assumed role has one")
        key = _ONE_REGION_KEY.match(self.kms_key_id or "")
        if key is not None and self.regions != (key[1],):
            raise ValueError(f"kms_key_id is a key of {key[1]} alone: use an alias that exists in each region")
        if (self.disk_throughput_mib or 0) * _PER_IOPS > (self.disk_iops or _LEAST_IOPS):
            raise ValueError(f"disk_throughput_mib needs disk_iops of at least {_PER_IOPS} times as many")
        return self

    @property
    def tells_events(self) -> bool:
        """Whether there is a queue to listen to."""
        return self.events_queue_url is not None


PROVIDER = ProviderInfo(
    name="aws",
    label="AWS",
    account=AwsAccount,
    adapter="workers.providers.aws.adapter:AwsProvider",
    catalogue="workers.providers.aws.catalogue",
    repriced_markets=frozenset({Market.SPOT}),
    focus=FOCUS,
    spot_price_by_zone=True,
)
