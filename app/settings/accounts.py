"""The accounts file `gpulease.toml`. It names the cloud accounts and contains no secrets."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from app.settings.errors import StartupError

PROVIDERS = ("aws", "gcp", "azure")


ImageName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]


class _Account(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    regions: tuple[str, ...] = Field(min_length=1)
    endpoint_url: str | None = None
    images: dict[ImageName, Annotated[str, Field(min_length=1, max_length=512)]] = Field(
        default_factory=dict,
        max_length=100,
        description="Images that leases can request by name. Each is written in the format of `image`.",
    )


class AwsAccount(_Account):
    """One AWS account. Credentials come from boto3's own chain; `profile` and `role_arn` narrow it."""

    provider: Literal["aws"]
    role_arn: str | None = None
    profile: str | None = None
    subnet_ids: tuple[str, ...] = ()
    security_group_ids: tuple[str, ...] = ()
    image: str | None = Field(default=None, description="A fixed image: an AMI id or an SSM parameter name.")
    events_queue_url: str | None = Field(
        default=None, description="An SQS queue that receives EC2 events from EventBridge."
    )

    @property
    def extendable(self) -> bool:
        """This cloud does not end VMs at a time fixed at launch."""
        return True

    @property
    def tells_events(self) -> bool:
        """Whether the account has an event queue."""
        return self.events_queue_url is not None


class GcpAccount(_Account):
    """One GCP project. Credentials are Google's application default credentials, or those in `credentials_file`."""

    provider: Literal["gcp"]
    project: str = Field(pattern=r"^[a-z][a-z0-9:.-]{4,60}[a-z0-9]$")
    credentials_file: str | None = None
    impersonate: str | None = Field(default=None, description="A service account to impersonate.")
    network: str = Field(
        default="default", description="The VPC network of the firewall rules and, by default, of the VMs."
    )
    subnetworks: dict[str, str] = Field(
        default_factory=dict, description="Region to subnetwork. None: the network's own subnetworks."
    )
    image: str | None = Field(
        default=None, description="A fixed image: projects/P/global/images/NAME or .../images/family/NAME."
    )
    extendable: bool = Field(
        default=True,
        description=(
            "Whether leases can be extended in this account. false: Google ends a VM at the expiry that "
            "its lease has at launch."
        ),
    )
    events_subscription: str | None = Field(
        default=None,
        pattern=r"^projects/[^/]+/subscriptions/[^/]+$",
        description="A Pub/Sub pull subscription that receives the audit log of VMs.",
    )

    @property
    def tells_events(self) -> bool:
        """Whether the account has an event subscription."""
        return self.events_subscription is not None


class AzureAccount(_Account):
    """One Azure subscription and the resource group of its VMs. Credentials come from azure-identity's default chain."""

    provider: Literal["azure"]
    subscription_id: str = Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
    resource_group: str = Field(pattern=r"^[A-Za-z0-9_().-]{1,90}$")
    tenant_id: str | None = Field(default=None, description="The directory to sign in to, if there are several.")
    subnet_ids: dict[str, str] = Field(min_length=1, description="Region to the resource id of the VMs' subnet.")
    image: str | None = Field(
        default=None, description="A fixed image: publisher:offer:sku:version, or an image's resource id."
    )
    events_queue_url: str | None = Field(
        default=None, description="A storage queue that receives the group's events from Event Grid."
    )

    @property
    def extendable(self) -> bool:
        """This cloud does not end VMs at a time fixed at launch."""
        return True

    @property
    def tells_events(self) -> bool:
        """Whether the account has an event queue."""
        return self.events_queue_url is not None


Account = AwsAccount | GcpAccount | AzureAccount
AccountConfig = Annotated[Account, Field(discriminator="provider")]
_ADAPTER: TypeAdapter[Account] = TypeAdapter(AccountConfig)


def load_accounts(path: Path | None) -> dict[str, Account]:
    """Accounts by name. Without a path there are none. Raises StartupError naming file, account and field."""
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"cannot read {path} (GPULEASE_CONFIG): {error.strerror}"
        raise StartupError(msg) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path} is not valid TOML: {error}"
        raise StartupError(msg) from None
    unknown = sorted(set(document) - {"accounts"})
    if unknown:
        msg = f"{path}: unknown section {unknown[0]!r}, expected [[accounts]]"
        raise StartupError(msg)
    return _by_name(path, document.get("accounts", []))


def account_from_json(value: dict[str, Any]) -> Account:
    """The account settings in the form that the database stores."""
    return _ADAPTER.validate_python(value)


def _by_name(path: Path, entries: Any) -> dict[str, Account]:
    if not isinstance(entries, list):
        msg = f"{path}: accounts must be written as [[accounts]]"
        raise StartupError(msg)
    accounts: dict[str, Account] = {}
    for number, entry in enumerate(entries, start=1):
        account = _parse(path, number, entry)
        if account.name in accounts:
            msg = f"{path}: two accounts are named {account.name!r}"
            raise StartupError(msg)
        accounts[account.name] = account
    return accounts


def _parse(path: Path, number: int, entry: Any) -> Account:
    try:
        return _ADAPTER.validate_python(entry)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in PROVIDERS) or "accounts"
        msg = f"{path}: account {number}: {where}: {first['msg']}"
        raise StartupError(msg) from None
