"""The settings of one account, and what the program knows of the provider."""

from typing import Literal

from pydantic import Field

from app.settings.providers import AccountSettings, ProviderInfo


class AwsAccount(AccountSettings):
    """One AWS account. Credentials come from boto3's own chain, `profile` and `role_arn` narrow it."""

    provider: Literal["aws"]
    role_arn: str | None = None
    profile: str | None = None
    subnet_ids: tuple[str, ...] = ()
    security_group_ids: tuple[str, ...] = ()
    image: str | None = Field(default=None, description="Pin: an AMI id or an SSM parameter name.")
    events_queue_url: str | None = Field(default=None, description="An SQS queue with EC2's events of EventBridge.")

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
    spot_price_by_zone=True,
)
