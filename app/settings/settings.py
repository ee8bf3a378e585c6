"""Settings from the environment. Durations are seconds."""

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.domain.request_rates import RequestRate
from app.settings.errors import StartupError
from app.settings.passwords import insert_password, read_password

PREFIX = "GPULEASE_"


def _networks(value: object) -> object:
    """Networks from a list in one text. Raises ValueError naming the entry that is none."""
    if not isinstance(value, str):
        return value
    return tuple(_network(entry.strip()) for entry in value.split(",") if entry.strip())


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(f"{error}; write networks such as 10.0.0.0/8, separated by commas") from None


def _rate(text: str) -> str:
    RequestRate.parse(text)
    return text


RateText = Annotated[str, AfterValidator(_rate)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode, BeforeValidator(_networks)]


class Settings(BaseSettings):
    """One frozen model; every field is the environment variable `GPULEASE_<NAME>`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    database_url: str = Field(
        default="postgresql://gpulease@127.0.0.1:5432/gpulease",
        repr=False,
        description="PostgreSQL 15 or newer, as postgresql://user:password@host:port/database; the password percent-encoded, "
        "or left out and given by itself.",
    )
    database_password: SecretStr | None = Field(
        default=None,
        description="Password of the user in GPULEASE_DATABASE_URL, as it is: nothing needs to be encoded.",
    )
    database_password_file: Path | None = Field(default=None, description="A file that holds it instead.")
    broker_url: str = Field(default="redis://127.0.0.1:6379/0", description="Redis 6.2 or newer. Holds only hints.")
    installation_id: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9-]{4,40}$",
        description="Must equal the id stored in the database; workers refuse to start on a mismatch.",
    )
    config: Path | None = Field(default=None, description="Path of gpulease.toml with the provider accounts.")
    log_level: str = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR.")

    # migrate
    api_password: SecretStr | None = Field(
        default=None,
        description="`migrate` makes the API's database login, or changes its password to this. None: it is left alone.",
    )
    api_password_file: Path | None = Field(default=None, description="A file that holds it instead.")
    worker_password: SecretStr | None = Field(
        default=None, description="The same for the login of `worker` and `inventory`."
    )
    worker_password_file: Path | None = Field(default=None, description="A file that holds it instead.")

    # API
    host: str = Field(default="127.0.0.1", description="Address the API listens on.")
    port: int = Field(default=8000, ge=1, le=65535, description="Port the API listens on.")
    api_pool_size: int = Field(default=16, ge=1, description="Database connections of one API process.")
    key_cache_seconds: float = Field(
        default=3.0, ge=0, le=4.5, description="How long a checked key is believed. A revocation counts within 5 s."
    )
    catalogue_cache_seconds: float = Field(
        default=1.0,
        ge=0,
        description="How old the API's view of offerings, and the operators' summary, may be. What the summary tells of ended "
        "leases, of the month and of the last day may be 15 times as old.",
    )
    max_streams: int = Field(
        default=2000,
        ge=2,
        description="Event streams and long polls open at one API process; a quarter of them for one tenant, 50 for one key.",
    )
    body_limit_bytes: int = Field(default=1_048_576, ge=1024, description="Larger request bodies are refused (413).")
    rate_limit: RateText = Field(
        default="12000/minute", description="Requests per tenant, as 'count/period'. Shared through Redis."
    )
    write_rate_limit: RateText = Field(
        default="3600/hour",
        description="Changes that one tenant may make, as 'count/period': leases, extensions, labels, keys, webhooks. Each leaves rows "
        "behind. Releases are never refused, and what is refused does not count.",
    )
    login_rate_limit: RateText = Field(
        default="60/minute",
        description="Failed logins per address before 429, as 'count/period'. A valid key is never refused for them.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Networks of the proxies in front of the API, such as `10.0.0.0/8,192.0.2.7`. Only from these is the client's "
        "address taken out of `X-Forwarded-For`. Empty: from nobody.",
    )
    default_max_ttl_seconds: int = Field(default=86_400, description="A new tenant's longest ttl_seconds.")
    default_max_total_seconds: int = Field(default=604_800, description="A new tenant's longest total term.")

    public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~-]+)*$",
        description="Where VMs reach this API, such as https://gpu.example.org, to tell their SSH host keys. None: they do not.",
    )

    # workers
    worker_threads: int = Field(default=32, ge=1, description="Leases one worker process handles at the same time.")
    sweep_interval: float = Field(default=1.0, gt=0, description="How often each worker looks for due leases.")
    claim_seconds: float = Field(
        default=90.0,
        gt=0,
        description="A worker's claim on a lease, should it vanish unnoticed. Must exceed twice the call time-out.",
    )
    call_timeout: float = Field(default=30.0, gt=0, description="Longest wait for one answer of a provider.")
    connect_timeout: float = Field(default=5.0, gt=0, description="Longest wait for a connection to a provider.")
    provider_rate_limits: bool = Field(
        default=True, description="Keep below the providers' documented request rates. Off only for simulated clouds."
    )

    metrics_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Each worker and inventory process tells its metrics on the first free port from this one on. None: nowhere.",
    )
    metrics_host: str = Field(default="127.0.0.1", description="Address of those ports.")
    failpoints: Path | None = Field(
        default=None,
        description="A folder whose files tell workers where to fail on purpose. For tests; refused unless every account "
        "has its `endpoint_url` on this machine.",
    )

    # protocol
    unknown_retry_seconds: float = Field(
        default=300.0, ge=0, description="How long a create of unknown outcome is repeated with the same token."
    )
    unreachable_seconds: float = Field(
        default=30.0, ge=0, description="How long a launch waits for a cloud to which no connection can be made."
    )
    settle_seconds: float = Field(
        default=600.0, ge=0, description="How long after the last send an unseen VM may still appear."
    )
    settle_gap_seconds: float = Field(
        default=120.0, ge=0, description="Least time between the looks that declare an attempt dead."
    )
    not_found_grace_seconds: float = Field(
        default=300.0,
        ge=0,
        description="How long after a launch 'not found' means unknown, never gone, unless the VM was seen to run.",
    )
    launch_timeout: float = Field(default=300.0, gt=0, description="From accepted launch to running.")
    boot_timeout: float = Field(default=900.0, gt=0, description="From running to ready.")
    release_alarm_seconds: float = Field(default=900.0, gt=0, description="A release older than this is stuck.")
    max_backoff_seconds: float = Field(default=300.0, gt=0, description="Longest pause between two tries of a call.")
    cool_off_capacity_seconds: float = Field(
        default=180.0, gt=0, description="First pause of an offering without capacity; doubles while it repeats."
    )
    cool_off_quota_seconds: float = Field(
        default=600.0, gt=0, description="Pause when our quota at the provider is used up."
    )
    cool_off_unoffered_seconds: float = Field(
        default=3600.0, gt=0, description="Pause of an offering that is not offered."
    )
    deadline_grace_seconds: int = Field(
        default=1800, ge=0, description="How long after the expiry the tagged deadline lies."
    )

    # webhooks
    webhook_threads: int = Field(
        default=8, ge=2, description="Webhooks that one worker process delivers to at the same time."
    )
    webhook_timeout: float = Field(
        default=10.0, gt=0, description="Longest time for a webhook's receiver to answer, from connection to status."
    )
    webhook_local: bool = Field(
        default=False,
        description="Webhooks may use http, and lead to loopback and private addresses. Only where all tenants are trusted.",
    )
    expiry_notice_seconds: float = Field(
        default=600.0, ge=0, description="How long before its expires_at a lease's owner is told `lease.expiring_soon`."
    )

    # observation
    inventory_interval: float = Field(
        default=60.0,
        gt=0,
        description="One full listing of each account, or of each of its regions where its cloud lists them one by one.",
    )
    inventory_first_interval: float = Field(default=10.0, gt=0, description="The same for the first 20 cycles.")
    watch_interval: float = Field(default=5.0, gt=0, description="Bulk look at VMs that boot or end.")
    rowless_grace_seconds: float = Field(
        default=900.0,
        ge=0,
        description="How long a VM with copied tags, which gpulease did not launch, is shown before it is ended.",
    )
    offerings_interval: float = Field(
        default=3600.0, gt=0, description="Refresh of offered types, service quotas and the spot prices of AWS."
    )
    prices_interval: float = Field(default=21_600.0, gt=0, description="Refresh of prices from the providers' lists.")
    price_stale_seconds: float = Field(
        default=604_800.0, gt=0, description="A price that the provider told longer ago is shown as `stale`."
    )
    recount_interval: float = Field(default=300.0, gt=0, description="Recount of quota use and the other invariants.")
    lease_retention_days: int = Field(
        default=90,
        ge=35,
        description="Days after which an ended lease is deleted, with its attempts. What it cost is kept.",
    )
    sequencer_interval: float = Field(default=0.2, gt=0, description="Pause between two numberings of new events.")


def load_settings(**overrides: Any) -> Settings:
    """Reads the environment; `database_url` has its password in it. Raises StartupError naming each variable that is wrong."""
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        problems = "; ".join(
            f"{PREFIX}{str(e['loc'][0]).upper()}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()
        )
        raise StartupError(problems) from None
    password = read_password(f"{PREFIX}DATABASE_PASSWORD", settings.database_password, settings.database_password_file)
    return settings.model_copy(update={"database_url": insert_password(settings.database_url, password)})


def describe() -> Mapping[str, tuple[str, str]]:
    """Environment variable -> (default, meaning), for the documentation."""
    return {
        PREFIX + name.upper(): ("–" if field.default in (None, ()) else f"`{field.default}`", field.description or "")
        for name, field in Settings.model_fields.items()
    }
