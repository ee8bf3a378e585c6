"""The settings of one account, and what the program knows of the provider."""

from typing import Literal

from pydantic import Field

from app.settings.providers import AccountSettings, ProviderInfo


class AzureAccount(AccountSettings):
    """One Azure subscription and the resource group in which VMs are made. Credentials: azure-identity's default chain."""

    provider: Literal["azure"]
    subscription_id: str = Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
    resource_group: str = Field(pattern=r"^[A-Za-z0-9_().-]{1,90}$")
    tenant_id: str | None = Field(default=None, description="The directory to sign in to, where there are several.")
    subnet_ids: dict[str, str] = Field(min_length=1, description="Region to the resource id of the VMs' subnet.")
    image: str | None = Field(default=None, description="Pin: publisher:offer:sku:version, or an image's resource id.")
    events_queue_url: str | None = Field(
        default=None, description="A storage queue with Event Grid's events of the group."
    )

    @property
    def tells_events(self) -> bool:
        """Whether there is a queue to listen to."""
        return self.events_queue_url is not None


PROVIDER = ProviderInfo(
    name="azure",
    label="Azure",
    account=AzureAccount,
    adapter="workers.providers.azure.adapter:AzureProvider",
    catalogue="workers.providers.azure.catalogue",
    needs_deadman=True,
)
