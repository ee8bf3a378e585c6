"""Charges in the FOCUS files of providers, and what their columns mean in each provider's dialect.

FOCUS (https://focus.finops.org) fixes names and meanings of columns. It leaves open how a resource is named and how tags
are written: a `FocusDialect` holds that as data.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from app.domain import tags

RESOURCE, CATEGORY, TAGS, SERVICE = "ResourceId", "ChargeCategory", "Tags", "ServiceName"
ACCOUNT, PERIOD, START = "BillingAccountId", "BillingPeriodStart", "ChargePeriodStart"
COST, CURRENCY = "EffectiveCost", "BillingCurrency"
REQUIRED = (ACCOUNT, PERIOD, START, CATEGORY, COST, CURRENCY, RESOURCE, TAGS)
PROVIDER_COLUMNS = ("ProviderName", "ServiceProviderName")
"""The second one replaces the first in FOCUS 1.3."""
OPTIONAL = (SERVICE, *PROVIDER_COLUMNS)
_USD = "USD"
_MOST_DIGITS = 12
"""Before the point: no month of anybody costs a trillion USD."""
_PLACES = 15
"""Decimal places that are kept."""
_REMEMBERED = 4096
"""Texts of times and tags whose values are kept: a resource has a line for each hour, with the same tags."""


class InvalidCharge(ValueError):
    """A value of a line cannot be read. `column`: its name in FOCUS."""

    def __init__(self, column: str, detail: str) -> None:
        super().__init__(f"{column} {detail}")
        self.column = column
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusDialect:
    """What FOCUS leaves to one provider.

    `names`: the provider in ProviderName, in lower case. `vm`: the ResourceId of a VM; its group is the part that an
    instance id of gpulease contains too. `tag_prefixes`: what stands before the keys of users' tags. `usd_cost`: a column
    with the cost in USD, whatever the billing currency is.
    """

    names: frozenset[str]
    vm: re.Pattern[str]
    tag_prefixes: tuple[str, ...] = ()
    usd_cost: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A line of a file. `month`: the first day of its billing period. `cost`: USD.

    `resource_id`: of a VM, the part that its instance id contains; otherwise as the provider names it. `lease_id` and
    `installation` are those of the tags. The disk of a volume has the volume's id as its lease.
    """

    day: date
    month: date
    billing_account: str
    resource_id: str
    charge_category: str
    service: str | None
    cost: Decimal
    lease_id: str | None
    installation: str | None
    is_vm: bool

    @property
    def is_relevant(self) -> bool:
        """It is for a VM, or for another resource that gpulease has tagged."""
        return self.is_vm or self.installation is not None


Row = Mapping[str, Any]
"""Values by the names of columns in lower case. An absent value is None or empty."""


def parse(row: Row, dialect: FocusDialect) -> Charge:
    """Reads one line. Raises InvalidCharge."""
    tag_values = {key: _storable(text, TAGS) for key, text in _tags(row.get(TAGS.lower()), dialect).items()}
    resource = _storable(str(row.get(RESOURCE.lower()) or ""), RESOURCE)
    vm = dialect.vm.fullmatch(resource)
    month = _time(row, PERIOD).date().replace(day=1)
    return Charge(
        day=_day(row, month),
        month=month,
        billing_account=_text(row, ACCOUNT),
        resource_id=resource if vm is None else vm[1].lower(),
        charge_category=_text(row, CATEGORY),
        service=_storable(str(row.get(SERVICE.lower()) or ""), SERVICE) or None,
        cost=_cost(row, dialect),
        lease_id=tag_values.get(tags.LEASE) or tag_values.get(tags.VOLUME),
        installation=tag_values.get(tags.INSTALLATION),
        is_vm=vm is not None,
    )


def provider_named(row: Row, dialects: Mapping[str, FocusDialect]) -> str | None:
    """The provider whose file this is, as far as the line says it."""
    names = [str(row.get(column.lower()) or "").lower() for column in PROVIDER_COLUMNS]
    return next((provider for provider, dialect in dialects.items() if dialect.names.intersection(names)), None)


def missing_columns(present: Iterable[str], dialect: FocusDialect) -> list[str]:
    """Required columns that a file does not have. `present`: in lower case."""
    has_usd = dialect.usd_cost is not None and dialect.usd_cost.lower() in present
    needed = [name for name in REQUIRED if not (has_usd and name in {COST, CURRENCY})]
    return [name for name in needed if name.lower() not in present]


def _text(row: Row, column: str) -> str:
    value = row.get(column.lower())
    if value is None or value == "":
        raise InvalidCharge(column, "is empty")
    return _storable(str(value), column)


def _storable(text: str, column: str) -> str:
    """The same text. PostgreSQL stores neither U+0000 nor half of a surrogate pair."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InvalidCharge(column, f"is {text[:40]!r}, with a character that is no text")
    return text


def _day(row: Row, month: date) -> date:
    """The day of a charge: in the month before its billing period, in that month, or in the one after."""
    day = _time(row, START).date()
    months = (day.year - month.year) * 12 + day.month - month.month
    if abs(months) > 1:
        raise InvalidCharge(
            START, f"is on {day.isoformat()}, more than a month away from the billing period {month:%Y-%m}"
        )
    return day


def _time(row: Row, column: str) -> datetime:
    """BigQuery writes ` UTC` for the zone, and FOCUS 1.0 of Azure leaves out the seconds. Without a zone it is UTC."""
    value = row.get(column.lower())
    if not isinstance(value, datetime):
        text = _text(row, column)
        try:
            return _parsed_time(text)
        except ValueError:
            raise InvalidCharge(column, f"is {text[:40]!r}, which is not a time such as 2026-11-01T00:00:00Z") from None
    return _in_utc(value)


@lru_cache(maxsize=_REMEMBERED)
def _parsed_time(text: str) -> datetime:
    return _in_utc(datetime.fromisoformat(text.removesuffix(" UTC")))


def _in_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _cost(row: Row, dialect: FocusDialect) -> Decimal:
    column = dialect.usd_cost
    if column is None or row.get(column.lower()) in {None, ""}:
        column, currency = COST, _text(row, CURRENCY)
        if currency != _USD:
            raise InvalidCharge(CURRENCY, f"is {currency[:10]}: only costs in USD can be compared")
    text = _text(row, column)
    try:
        cost = Decimal(text)
    except InvalidOperation:
        raise InvalidCharge(column, f"is {text[:40]!r}, which is not a number") from None
    if not cost.is_finite():
        raise InvalidCharge(column, f"is {text[:40]!r}, which is not a finite number")
    if not cost:
        return Decimal(0)
    if cost.adjusted() >= _MOST_DIGITS:
        raise InvalidCharge(column, f"is {text[:40]!r}, which has more than {_MOST_DIGITS} digits before the point")
    return round(cost, _PLACES)


def _tags(value: Any, dialect: FocusDialect) -> dict[str, str]:
    """Our tags. A file has them as a JSON object, as a list of `{key, value}`, or (Parquet) as a list of pairs."""
    if value is None or value == "":
        return {}
    return _parsed_tags(value, dialect) if isinstance(value, str) else _read_tags(value, dialect)


@lru_cache(maxsize=_REMEMBERED)
def _parsed_tags(text: str, dialect: FocusDialect) -> dict[str, str]:
    return _read_tags(_json(text), dialect)


def _read_tags(value: Any, dialect: FocusDialect) -> dict[str, str]:
    if isinstance(value, Mapping):
        pairs: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list):
        pairs = [_pair(entry) for entry in value]
    else:
        raise InvalidCharge(TAGS, "is neither a JSON object nor a list of keys and values")
    return {_key(str(key), dialect): str(text) for key, text in pairs if text is not None}


def _json(text: str) -> Any:
    for form in (text, f"{{{text}}}"):  # Azure's older exports leave out the braces
        try:
            return json.loads(form)
        except ValueError:
            continue
        except RecursionError:
            raise InvalidCharge(TAGS, f"is {text[:40]!r}, which is nested too deeply") from None
    raise InvalidCharge(TAGS, f"is {text[:40]!r}, which is not JSON")


def _pair(entry: Any) -> tuple[Any, Any]:
    if isinstance(entry, Mapping) and "key" in entry:
        return entry["key"], entry.get("value")
    if isinstance(entry, (tuple, list)) and len(entry) == 2:
        return entry[0], entry[1]
    raise InvalidCharge(TAGS, "has an entry without a key")


def _key(key: str, dialect: FocusDialect) -> str:
    """Keys as gpulease writes them. AWS puts a prefix before them and `_` for characters that its columns do not take."""
    for prefix in dialect.tag_prefixes:
        if key.startswith(prefix):
            key = key.removeprefix(prefix)
            break
    return key.lower().replace("_", "-")
