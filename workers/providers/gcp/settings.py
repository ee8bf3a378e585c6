"""The settings of one account, and what the program knows of the provider."""

from typing import Literal

from pydantic import Field

from app.settings.providers import AccountSettings, ProviderInfo


class GcpAccount(AccountSettings):
    """One GCP project. Credentials are Google's application default ones, or those of `credentials_file`."""

    provider: Literal["gcp"]
    project: str = Field(pattern=r"^[a-z][a-z0-9:.-]{4,60}[a-z0-9]$")
    credentials_file: str | None = None
    impersonate: str | None = Field(default=None, description="A service account to act as.")
    network: str = Field(
        default="default", description="The VPC network of the firewall rules and, by default, of the VMs."
    )
    subnetworks: dict[str, str] = Field(
        default_factory=dict, description="Region to subnetwork; none: the network's own."
    )
    image: str | None = Field(default=None, description="Pin: projects/P/global/images/NAME or .../images/family/NAME.")
    extendable: bool = Field(
        default=True,
        description="Whether leases can be extended in this account. false: Google ends a VM at the expiry that its lease has at launch.",
    )
    events_subscription: str | None = Field(
        default=None,
        pattern=r"^projects/[^/]+/subscriptions/[^/]+$",
        description="A Pub/Sub pull subscription with the audit log of VMs.",
    )

    @property
    def is_extendable(self) -> bool:
        """As configured."""
        return self.extendable

    @property
    def tells_events(self) -> bool:
        """Whether there is a subscription to pull from."""
        return self.events_subscription is not None


PROVIDER = ProviderInfo(
    name="gcp",
    label="Google Cloud",
    account=GcpAccount,
    adapter="workers.providers.gcp.adapter:GcpProvider",
    catalogue="workers.providers.gcp.catalogue",
)
