"""Settings from environment variables. Durations are in seconds."""

import os
import re
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from app.domain.operator_messages import MessageKind
from app.domain.request_rates import RequestRate
from app.settings.errors import StartupError
from app.settings.passwords import insert_password, read_password
from app.settings.timing import TIMING, parse_times

PREFIX = "GPULEASE_"


def _networks(value: object) -> object:
    """Networks from a comma-separated list. Raises ValueError naming the invalid entry."""
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


def _seconds(value: object) -> object:
    """Whole seconds from a comma-separated list, the longest first. Raises ValueError naming the invalid entry."""
    if not isinstance(value, str):
        return value
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    for entry in entries:
        if not entry.isdecimal() or not 0 < int(entry) <= _DAY:
            raise ValueError(f"{entry!r} is not a number of seconds from 1 to {_DAY}; write for example 1800,300")
    return tuple(sorted({int(entry) for entry in entries}, reverse=True))


def _redis(url: str) -> str:
    if _REDIS.fullmatch(url) is None:
        raise ValueError("must be redis://user:password@host:port/database, or the same with rediss://")
    return url


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


_DAY = 86_400
_YEAR = 365 * _DAY
_REDIS = re.compile(r"rediss?://([^/?#]*@)?(\[[0-9a-fA-F:.]+\]|[^/:@?#\[\]]+)(:[0-9]+)?(/[0-9]*)?(\?.*)?")
_LONGEST_DAYS = 36_500


def _kinds(value: object) -> object:
    """Kinds of messages from a comma-separated list. Raises ValueError naming the invalid entry."""
    if not isinstance(value, str):
        return value
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    for entry in entries:
        if entry not in set(MessageKind):
            raise ValueError(f"{entry!r} is none of {', '.join(MessageKind)}")
    return tuple(MessageKind(entry) for entry in entries)


Kinds = Annotated[tuple[MessageKind, ...], NoDecode, BeforeValidator(_kinds)]
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)]
RedisUrl = Annotated[str, AfterValidator(_redis)]
SecondsList = Annotated[tuple[int, ...], NoDecode, BeforeValidator(_seconds)]
RateText = Annotated[str, AfterValidator(_rate)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode, BeforeValidator(_networks)]


def _time(*, le: float = _YEAR, **field: Any) -> Any:
    """A field that is read from GPULEASE_TIMING."""
    return Field(json_schema_extra=_TIME, le=le, **field)


_TIME: dict[str, Any] = {"variable": TIMING}


def _is_time(field: FieldInfo) -> bool:
    return field.json_schema_extra is _TIME


class _Environment(EnvSettingsSource):
    """Times come from GPULEASE_TIMING, every other field from its own variable."""

    times: Mapping[str, str] = {}

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """The value, its key, and whether it is complex."""
        if _is_time(field):
            return self.times.get(field_name), field_name, False
        return super().get_field_value(field, field_name)


class Settings(BaseSettings):
    """One frozen model. Every field is the environment variable `GPULEASE_<NAME>`, or a time of GPULEASE_TIMING."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    database_url: str = Field(
        default="postgresql://gpulease@127.0.0.1:5432/gpulease",
        repr=False,
        description=(
            "PostgreSQL 15 or newer, as postgresql://user:password@host:port/database. Percent-encode the "
            "password, or set GPULEASE_DATABASE_PASSWORD instead."
        ),
    )
    database_password: SecretStr | None = Field(
        default=None,
        description="Password of the user in GPULEASE_DATABASE_URL. It needs no encoding.",
    )
    database_password_file: Path | None = Field(default=None, description="Path of a file that contains the password.")
    broker_url: RedisUrl = Field(
        default="redis://127.0.0.1:6379/0", description="Redis 6.2 or newer. Redis holds only hints."
    )
    installation_id: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9-]{4,40}$",
        description="Must equal the id stored in the database; workers refuse to start on a mismatch.",
    )
    config: Path | None = Field(
        default=None,
        description="Path of gpulease.toml with the provider accounts. Workers and inventories do not start without it.",
    )
    log_level: LogLevel = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR.")

    # migrate
    api_password: SecretStr | None = Field(
        default=None,
        description=(
            "`migrate` creates the API's database login with this password, or changes the password of "
            "that login. None: `migrate` leaves the login unchanged."
        ),
    )
    api_password_file: Path | None = Field(default=None, description="Path of a file that contains the password.")
    worker_password: SecretStr | None = Field(
        default=None,
        description=(
            "Password for the login of `worker` and `inventory`. `migrate` sets it as it sets GPULEASE_API_PASSWORD."
        ),
    )
    worker_password_file: Path | None = Field(default=None, description="Path of a file that contains the password.")

    # API
    host: str = Field(default="127.0.0.1", description="Address the API listens on.")
    port: int = Field(default=8000, ge=1, le=65535, description="Port the API listens on.")
    api_pool_size: int = Field(default=16, ge=1, description="Database connections per API process.")
    key_cache_seconds: float = _time(
        default=3.0,
        ge=0,
        le=4.5,
        description="How long an API process caches a verified key. A revocation takes effect within 5 s.",
    )
    catalogue_cache_seconds: float = _time(
        default=1.0,
        ge=0,
        description=(
            "Maximum age of cached offerings and of the operators' summary. The summary's figures of "
            "ended leases, of the month and of the last day may be 15 times as old."
        ),
    )
    max_streams: int = Field(
        default=2000,
        ge=2,
        description=(
            "Maximum number of event streams and long polls per API process. One tenant may open a "
            "quarter of them, and one key 50."
        ),
    )
    body_limit_bytes: int = Field(
        default=1_048_576, ge=1024, description="The API rejects larger request bodies (413)."
    )
    rate_limit: RateText = Field(
        default="12000/minute",
        description=(
            "Requests per tenant, as 'count/period'. All API processes share the limit through Redis. A costly request "
            "(a plan, a quote, offerings, an explanation, a group, a report) counts as 20."
        ),
    )
    write_rate_limit: RateText = Field(
        default="3600/hour",
        description=(
            "Changes per tenant, as 'count/period': leases, extensions, labels, keys, webhooks. Each "
            "change stores rows. The limit never applies to releases. Rejected changes count too."
        ),
    )
    login_rate_limit: RateText = Field(
        default="60/minute",
        description=(
            "Failed logins per address (IPv6: per /64 network) before the API returns 429, as 'count/period'. The limit never "
            "applies to valid keys."
        ),
    )
    trusted_proxies: Networks = Field(
        default=(),
        description=(
            "Networks of the proxies in front of the API, for example `10.0.0.0/8,192.0.2.7`. The API "
            "reads the client's address from `X-Forwarded-For` only for these proxies. Empty: no proxy is "
            "trusted."
        ),
    )
    default_max_ttl_seconds: int = Field(
        default=86_400,
        ge=60,
        le=_YEAR,
        description="Maximum ttl_seconds of a new tenant. At most GPULEASE_DEFAULT_MAX_TOTAL_SECONDS.",
    )
    default_max_total_seconds: int = Field(
        default=604_800, ge=60, le=_YEAR, description="Maximum total term of a new tenant."
    )

    public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~-]+)*$",
        description=(
            "URL at which VMs and people reach this API, for example https://gpu.example.org. VMs report their SSH "
            "host keys there, and messages to people link to the dashboard. None: VMs report no host keys."
        ),
    )

    # workers
    worker_threads: int = Field(default=32, ge=1, description="Leases that one worker process handles concurrently.")
    sweep_interval: float = _time(default=1.0, gt=0, description="Interval at which each worker looks for due leases.")
    claim_seconds: float = _time(
        default=90.0,
        gt=0,
        description=(
            "Duration of a worker's claim on a lease. After it, another worker can take over from a "
            "worker that vanished. At least twice the sum of `call_timeout` and `connect_timeout`."
        ),
    )
    call_timeout: float = _time(default=30.0, gt=0, description="Maximum wait for one response of a provider.")
    connect_timeout: float = _time(default=5.0, gt=0, description="Maximum wait for a connection to a provider.")
    provider_rate_limits: bool = Field(
        default=True,
        description="Stay below the providers' documented request rates. Disable only for simulated clouds.",
    )
    launch_batch: int = Field(
        default=1000,
        ge=1,
        description=(
            "Maximum number of VMs of one create call. Leases of one tenant that want the same VM are launched together, "
            "up to the provider's own limit. 1: each lease is launched alone."
        ),
    )

    metrics_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description=(
            "Each worker and inventory process exposes its metrics on the first free port, starting with "
            "this one. None: no metrics."
        ),
    )
    metrics_host: str = Field(default="127.0.0.1", description="Address on which these ports listen.")

    # protocol
    unknown_retry_seconds: float = _time(
        default=300.0, ge=0, description="How long gpulease repeats a create of unknown outcome with the same token."
    )
    unreachable_seconds: float = _time(
        default=30.0, ge=0, description="How long a launch waits for a cloud that accepts no connections."
    )
    settle_seconds: float = _time(
        default=600.0, ge=0, description="Time after the last create call during which an unseen VM may still appear."
    )
    settle_gap_seconds: float = _time(
        default=120.0, ge=0, description="Minimum time between the lookups that declare an attempt dead."
    )
    not_found_grace_seconds: float = _time(
        default=300.0,
        ge=0,
        description=(
            "Grace period after a launch during which 'not found' means unknown, not deleted, unless the "
            "VM was observed running."
        ),
    )
    launch_timeout: float = _time(default=300.0, gt=0, description="Maximum time from an accepted launch to running.")
    boot_timeout: float = _time(
        default=900.0, gt=0, description="Maximum time from running to ready, of a VM with fewer than eight GPUs."
    )
    boot_timeout_large: float = _time(
        default=1800.0,
        gt=0,
        description=(
            "Maximum time from running to ready, of a VM with eight or more GPUs. At least `boot_timeout` applies."
        ),
    )
    release_alarm_seconds: float = _time(
        default=900.0, gt=0, description="A release that takes longer counts as stuck."
    )
    max_backoff_seconds: float = _time(default=300.0, gt=0, description="Maximum delay between two retries of a call.")
    cool_off_capacity_seconds: float = _time(
        default=180.0,
        gt=0,
        description="First cool-off of an offering without capacity. It doubles with each repetition.",
    )
    cool_off_quota_seconds: float = _time(
        default=600.0, gt=0, description="Cool-off when the provider's quota is used up."
    )
    cool_off_unoffered_seconds: float = _time(
        default=3600.0, gt=0, description="Cool-off of an offering that the provider does not offer."
    )
    deadline_grace_seconds: int = Field(
        default=1800, ge=0, le=_YEAR, description="Time between the lease's expiry and the deadline in the VM's tags."
    )

    # GPUs
    agent: Literal["on", "off"] = Field(
        default="on",
        description=(
            "Whether VMs run gpulease's agent. It proves the GPUs before the lease becomes active, and reports their "
            "health and use. `off`: no VM does."
        ),
    )
    proof_seconds: float = _time(
        default=60.0, gt=0, description="How long a ready VM may take to prove its GPUs before it counts as silent."
    )
    sample_seconds: int = Field(
        default=60, ge=1, le=600, description="Interval at which agents sample the GPUs and report."
    )
    idle_grace_seconds: int = Field(
        default=1800, ge=0, le=_YEAR, description="Time after `active` during which idle GPUs do not count."
    )
    raw_sample_days: int = Field(default=7, ge=1, le=90, description="Days after which samples are deleted.")
    metrics_days: int = Field(
        default=400,
        ge=1,
        le=_LONGEST_DAYS,
        description="Days after which the hourly values made of samples are deleted.",
    )

    # webhooks
    webhook_threads: int = Field(
        default=8, ge=2, description="Webhooks to which one worker process delivers concurrently."
    )
    webhook_timeout: float = _time(
        default=10.0, gt=0, description="Maximum time for a webhook's receiver to respond, from connection to status."
    )
    webhook_local: bool = Field(
        default=False,
        description=(
            "Allow webhooks with http, to every port, and to loopback and private addresses. Enable only if all tenants "
            "are trusted."
        ),
    )
    expiry_warnings_seconds: SecondsList = Field(
        default=(1800, 300),
        description=(
            "How long before its end a lease sends `lease.expiring_soon`, separated by commas. Empty: never. Leases may "
            "set their own."
        ),
    )

    # messages to operators
    notify_urls: SecretStr | None = Field(
        default=None,
        description=(
            "Where to send messages to the operators: Apprise URLs, separated by spaces. They are secrets. None: no messages."
        ),
    )
    notify_urls_file: Path | None = Field(default=None, description="Path of a file that contains these URLs.")
    notify_kinds: Kinds = Field(
        default=tuple(MessageKind),
        description="What to report to the operators: orphan, brake, reconciliation and budget, separated by commas.",
    )

    # observation
    inventory_interval: float = _time(
        default=60.0,
        gt=0,
        description=(
            "Interval of full listings of each account. If a cloud lists regions separately, the interval "
            "applies to each region."
        ),
    )
    inventory_first_interval: float = _time(
        default=10.0, gt=0, description="Interval of full listings during the first 20 cycles."
    )
    watch_interval: float = _time(default=5.0, gt=0, description="Interval of bulk lookups of VMs that boot or end.")
    rowless_grace_seconds: float = _time(
        default=900.0,
        ge=0,
        description=(
            "How long gpulease reports a VM with copied tags before ending it. gpulease did not launch such a VM."
        ),
    )
    offerings_interval: float = _time(
        default=3600.0,
        gt=0,
        description="Interval of refreshing offered types, service quotas and the spot prices of AWS.",
    )
    prices_interval: float = _time(
        default=21_600.0, gt=0, description="Interval of refreshing prices from the providers' price lists."
    )
    price_stale_seconds: float = _time(
        default=604_800.0, gt=0, description="A price that the provider reported longer ago is marked `stale`."
    )
    recount_interval: float = _time(
        default=300.0, gt=0, description="Interval of recounting quota use and checking the other invariants."
    )
    lease_retention_days: int = Field(
        default=90,
        ge=35,
        le=_LONGEST_DAYS,
        description="Days after which an ended lease and its attempts are deleted. Its cost record is kept.",
    )
    sequencer_interval: float = _time(default=0.2, gt=0, description="Delay between two runs that number new events.")

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[PydanticBaseSettingsSource, ...]:
        """No `.env` file is read. To look for each setting in none takes as long as to look in the environment."""
        environment = _Environment(cls)
        environment.times = _times(cls)
        return sources["init_settings"], environment


def _times(settings: type[BaseSettings]) -> Mapping[str, str]:
    """Raises StartupError for an entry that is no time."""
    try:
        times = parse_times(os.environ.get(TIMING, ""))
    except ValueError as error:
        raise StartupError(f"{TIMING}: {error}") from None
    known = [name for name, field in settings.model_fields.items() if _is_time(field)]
    for name in times.keys() - set(known):
        raise StartupError(f"{TIMING}: {name!r} is none of {', '.join(known)}")
    return times


def load_settings(**overrides: Any) -> Settings:
    """Reads the environment. `database_url` includes its password. Raises StartupError naming each invalid variable."""
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        problems = "; ".join(
            f"{_variable(str(e['loc'][0]))}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()
        )
        raise StartupError(problems) from None
    if settings.default_max_ttl_seconds > settings.default_max_total_seconds:
        raise StartupError(
            f"{PREFIX}DEFAULT_MAX_TTL_SECONDS is {settings.default_max_ttl_seconds}, but must be at most "
            f"{PREFIX}DEFAULT_MAX_TOTAL_SECONDS, which is {settings.default_max_total_seconds}"
        )
    password = read_password(f"{PREFIX}DATABASE_PASSWORD", settings.database_password, settings.database_password_file)
    return settings.model_copy(update={"database_url": insert_password(settings.database_url, password)})


def dashboard_url(settings: Settings) -> str | None:
    """Where people find the dashboard. None: the API's public URL is not set."""
    return None if settings.public_url is None else f"{settings.public_url}/dashboard/"


def describe() -> Mapping[str, tuple[str, str]]:
    """Environment variable -> (default, meaning), for the documentation."""
    return {_variable(name): _described(field) for name, field in Settings.model_fields.items() if not _is_time(field)}


def describe_times() -> Mapping[str, tuple[str, str]]:
    """The same for each time of GPULEASE_TIMING."""
    return {name: _described(field) for name, field in Settings.model_fields.items() if _is_time(field)}


def _described(field: FieldInfo) -> tuple[str, str]:
    return _default(field.default), field.description or ""


def _variable(name: str) -> str:
    """What a message calls a field."""
    return f"{TIMING} {name}" if _is_time(Settings.model_fields[name]) else PREFIX + name.upper()


def _default(value: object) -> str:
    if value in (None, ()):
        return "–"
    return f"`{','.join(map(str, value))}`" if isinstance(value, tuple) else f"`{value}`"
