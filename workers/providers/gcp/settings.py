"""The settings of one account, and what the program knows of the provider."""

from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from app.domain.offerings import Market
from app.domain.vm_parts import PartsFacts
from app.settings.account_tags import TagRules
from app.settings.providers import AccountSettings, ProviderInfo
from app.settings.reservations import ReservationKind
from workers.providers.gcp import catalogue, resource_tags
from workers.providers.gcp.focus import FOCUS

HYPERDISK = "hyperdisk-"
"""With this the names of Hyperdisk types begin."""
RESERVATION, RESERVATION_BOUND, FLEX_START = "reservation", "reservation_bound", "flex_start"
_PROJECT = r"^[a-z][a-z0-9:.-]{4,60}[a-z0-9]$"
_KEY_NAME = r"[A-Za-z0-9_-]+"
_KmsKey = Annotated[
    str, Field(pattern=rf"^projects/[^/]+/locations/[a-z0-9-]+/keyRings/{_KEY_NAME}/cryptoKeys/{_KEY_NAME}$")
]
_NAME = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
_GpuNetwork = Annotated[str, Field(pattern=rf"^{_NAME}/{_NAME}$")]
_Subnetwork = Annotated[str, Field(pattern=rf"^{_NAME}$")]
_Scope = Annotated[str, Field(pattern=r"^https://www\.googleapis\.com/auth/[a-z_.-]+$")]
_CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"


class GcpAccount(AccountSettings):
    """One GCP project. Credentials are Google's application default ones, or those of `credentials_file`."""

    tag_rules: ClassVar[TagRules] = resource_tags.RULES
    reservation_kinds: ClassVar[tuple[ReservationKind, ...]] = (
        ReservationKind(name=RESERVATION),
        ReservationKind(name=RESERVATION_BOUND),
        ReservationKind(name=FLEX_START, has_id=False),
    )

    provider: Literal["gcp"]
    project: str = Field(pattern=_PROJECT)
    credentials_file: str | None = None
    impersonate: str | None = Field(default=None, description="A service account to act as.")
    network: str = Field(
        default="default", description="The VPC network of the firewall rules and, by default, of the VMs."
    )
    subnetworks: dict[str, str] = Field(
        default_factory=dict, description="Region to subnetwork; none: the network's own."
    )
    gpu_networks: dict[str, tuple[_GpuNetwork, ...]] = Field(
        default_factory=dict,
        description="Region to NETWORK/SUBNETWORK of the further GVNIC interfaces of a group's VMs, in order.",
    )
    rdma_subnetworks: dict[str, tuple[_Subnetwork, ...]] = Field(
        default_factory=dict, description="Zone to the subnetworks of its RDMA network for a group's VMs, in order."
    )
    host_project: str | None = Field(
        default=None, pattern=_PROJECT, description="The project of `network` and its firewall rules, in a shared VPC."
    )
    service_account: str | None = Field(
        default=None,
        pattern=r"^[^@\s]+@[^@\s]+$",
        description="The VM's service account. Its tenant has the rights of that account, within the scopes.",
    )
    service_account_scopes: tuple[_Scope, ...] = Field(
        default=(_CLOUD_PLATFORM,), min_length=1, description="Access scopes of `service_account`."
    )
    kms_keys: dict[str, _KmsKey] = Field(
        default_factory=dict, description="Region to the Cloud KMS key of the disks; none: Google's own keys."
    )
    disk_type: str | None = Field(
        default=None, pattern=r"^[a-z][a-z0-9-]{0,62}$", description="The type of the disks; none: the machine type's."
    )
    shielded_vm: bool = Field(default=False, description="Whether VMs have a virtual TPM and integrity monitoring.")
    secure_boot: bool = Field(default=False, description="Whether a shielded VM refuses drivers without a signature.")
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

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        if self.service_account is None and "service_account_scopes" in self.model_fields_set:
            raise ValueError("service_account_scopes needs service_account: without one a VM has no rights")
        if self.secure_boot and not self.shielded_vm:
            raise ValueError("secure_boot needs shielded_vm = true")
        for region, named in self.gpu_networks.items():
            if len({self.network, *(network_and_subnet.partition("/")[0] for network_and_subnet in named)}) <= len(
                named
            ):
                raise ValueError(
                    f"gpu_networks: each interface in {region} needs a network of its own, none is `network`"
                )
        for zone, subnetworks in self.rdma_subnetworks.items():
            if len(set(subnetworks)) < len(subnetworks):
                raise ValueError(f"rdma_subnetworks: each interface in {zone} needs a subnetwork of its own")
        self.require_each_region("kms_keys", self.kms_keys)
        return self

    @property
    def network_project(self) -> str:
        """The project of the network and its firewall rules."""
        return self.host_project or self.project

    @property
    def volume_kind(self) -> str:
        """The type of new volumes."""
        return self.disk_type or "pd-balanced"

    @property
    def vm_parts(self) -> PartsFacts:
        """A type that boots from Hyperdisk attaches no other disk."""
        machines = catalogue.load().machines.items()
        alone = {name: HYPERDISK for name, machine in machines if machine.boot_disk.startswith(HYPERDISK)}
        return replace(super().vm_parts, volume_kind=self.volume_kind, attached_kinds=alone)

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
    repriced_markets=frozenset({Market.SPOT}),
    focus=FOCUS,
    fabric_settings=("gpu_networks", "rdma_subnetworks"),
)
