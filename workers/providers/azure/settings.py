"""The settings of one account, and what the program knows of the provider."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from app.domain.offerings import Market
from app.settings.account_tags import TagRules
from app.settings.providers import AccountSettings, ProviderInfo
from app.settings.reservations import ReservationKind
from workers.providers.azure import resource_tags
from workers.providers.azure.focus import FOCUS

CAPACITY_RESERVATION_GROUP = "capacity_reservation_group"
_IN_A_GROUP = r"(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers"
_Identity = Annotated[str, Field(pattern=rf"{_IN_A_GROUP}/Microsoft\.ManagedIdentity/userAssignedIdentities/[^/]+$")]
_EncryptionSet = Annotated[str, Field(pattern=rf"{_IN_A_GROUP}/Microsoft\.Compute/diskEncryptionSets/[^/]+$")]
_SecurityGroup = Annotated[str, Field(pattern=rf"{_IN_A_GROUP}/Microsoft\.Network/networkSecurityGroups/[^/]+$")]
_DiskType = Literal["Premium_LRS", "Premium_ZRS", "StandardSSD_LRS", "StandardSSD_ZRS", "Standard_LRS"]
_LARGEST_DISK_GIB = 32_767
"""Of every disk type above (Azure docs, "Azure managed disk types")."""
_DISK_SIZES_GIB = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, _LARGEST_DISK_GIB)
"""A managed disk costs what the next larger one of these sizes costs (Azure docs, "Managed disk types")."""


class AzureAccount(AccountSettings):
    """One Azure subscription and the resource group in which VMs are made. Credentials: azure-identity's default chain."""

    tag_rules: ClassVar[TagRules] = resource_tags.RULES
    reservation_kinds: ClassVar[tuple[ReservationKind, ...]] = (ReservationKind(name=CAPACITY_RESERVATION_GROUP),)

    disk_sizes_gib: ClassVar[tuple[int, ...]] = _DISK_SIZES_GIB

    provider: Literal["azure"]
    subscription_id: str = Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
    resource_group: str = Field(pattern=r"^[A-Za-z0-9_().-]{1,90}$")
    tenant_id: str | None = Field(default=None, description="The directory to sign in to, where there are several.")
    subnet_ids: dict[str, str] = Field(min_length=1, description="Region to the resource id of the VMs' subnet.")
    network_security_group_ids: dict[str, _SecurityGroup] = Field(
        default_factory=dict,
        description="Region to the network security group of VMs without allowed_cidrs and group; none: lets nothing in.",
    )
    identity_ids: tuple[_Identity, ...] = Field(
        default=(),
        description="User-assigned managed identities of every VM. Its tenant has the rights of each of them.",
    )
    disk_encryption_set_ids: dict[str, _EncryptionSet] = Field(
        default_factory=dict, description="Region to the disk encryption set of the disks; none: Azure's own keys."
    )
    disk_type: _DiskType = Field(default="Premium_LRS", description="The type of the OS disk and of the data disk.")
    image: str | None = Field(default=None, description="Pin: publisher:offer:sku:version, or an image's resource id.")
    security_type: Literal["Standard", "TrustedLaunch"] = Field(
        default="Standard",
        description="The security type of VMs. Standard needs the registered feature Microsoft.Compute/UseStandardSecurityType.",
    )
    events_queue_url: str | None = Field(
        default=None, description="A storage queue with Event Grid's events of the group."
    )

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        self.require_each_region("disk_encryption_set_ids", self.disk_encryption_set_ids)
        self.require_each_region("network_security_group_ids", self.network_security_group_ids)
        if (self.data_disk_gib or 0) > _LARGEST_DISK_GIB:
            raise ValueError(f"data_disk_gib may be {_LARGEST_DISK_GIB} at most")
        return self

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
    repriced_markets=frozenset({Market.SPOT}),
    focus=FOCUS,
    needs_deadman=True,
    largest_cluster=200,  # VMs of an availability set: "Azure subscription and service limits", virtual machine limits
)
