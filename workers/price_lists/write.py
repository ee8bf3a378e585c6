"""`gpulease-server prices --write`: the providers' own price lists become the lists that come with the adapters.

The command asks one account per provider, because a price list is the same for all accounts. A price stays without a
new confirmation only when the provider could not be asked about its type.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from app.domain.money import format_money
from app.settings import AccountSettings, Settings, StartupError, load_accounts, load_settings
from workers.providers.errors import ProviderError
from workers.providers.price_list import parse, render
from workers.providers.registry import catalogue, connect, price_list_path
from workers.providers.types import ListedKey, Price, PriceList, PricePage

_MOST_LINES = 20
"""Changed prices, and prices that are gone, that the summary lists one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A price list before and after. `unconfirmed`: prices of types that could not be asked, with the errors in `failed`."""

    before: PriceList
    after: PriceList
    unconfirmed: frozenset[ListedKey]
    failed: Mapping[str, ProviderError]

    @property
    def added(self) -> list[ListedKey]:
        """New prices, sorted."""
        return sorted(self.after.keys() - self.before.keys())

    @property
    def gone(self) -> list[ListedKey]:
        """Prices that the provider lists no more, sorted."""
        return sorted(self.before.keys() - self.after.keys())

    @property
    def changed(self) -> list[ListedKey]:
        """Prices with another amount, sorted."""
        both = self.before.keys() & self.after.keys()
        return sorted(key for key in both if self.before[key].per_hour != self.after[key].per_hour)


def write(*, folder: Path | None, allow_fewer: bool) -> int:
    """Writes the list of each provider that has an account. 0, or 1 when a list is incomplete or was not written.

    `folder`: where the files `<provider>.csv` go; None: the lists that come with the adapters. Raises StartupError when
    no list can be written.
    """
    settings = load_settings()
    accounts = _by_provider(load_accounts(settings.config).values())
    if not accounts:
        raise StartupError("no account is configured: name an accounts file in GPULEASE_CONFIG")
    if folder is None:
        _require_public_lists(accounts)
    complete = True
    for provider, candidates in accounts.items():
        path = price_list_path(provider) if folder is None else folder / f"{provider}.csv"
        complete &= _write_list(path, provider, candidates, settings, allow_fewer=allow_fewer)
    return 0 if complete else 1


def updated(before: PriceList, pages: Iterable[PricePage]) -> Update:
    """The list after a provider's answer."""
    prices: dict[ListedKey, Price] = {}
    failed: dict[str, ProviderError] = {}
    for page in pages:
        prices |= page.prices
        if page.error is not None:
            failed |= dict.fromkeys(page.types, page.error)
    unconfirmed = {key: price for key, price in before.items() if key[1] in failed}
    return Update(before=before, after={**unconfirmed, **prices}, unconfirmed=frozenset(unconfirmed), failed=failed)


def summarize(update: Update) -> Iterator[str]:
    """Lines for a person."""
    added, changed, gone = update.added, update.changed, update.gone
    yield f"{len(update.after)} prices: {len(added)} added, {len(changed)} changed, {len(gone)} gone"
    yield from _shortened(f"changed: {_name(key)} {_change(update, key)}" for key in changed)
    yield from _shortened(f"gone: {_name(key)} {format_money(update.before[key].per_hour)}" for key in gone)
    for reason, names in _by_reason(update.failed).items():
        count = sum(key[1] in names for key in update.unconfirmed)
        yield f"no answer about {', '.join(names)}, so {count} prices stay unconfirmed: {reason}"


def _write_list(
    path: Path, provider: str, accounts: Sequence[AccountSettings], settings: Settings, *, allow_fewer: bool
) -> bool:
    """Whether the list is written and complete."""
    pages = _ask(provider, accounts, settings)
    if all(page.error is not None for page in pages):
        _print(f"{provider}: not written, because no account got an answer")
        return False
    update = updated(_before(path, provider), pages)
    for line in summarize(update):
        _print(f"{provider}: {line}")
    if len(update.after) < len(update.before) and not allow_fewer:
        _print(f"{provider}: not written, because the list would have fewer prices. --allow-fewer writes it")
        return False
    _replace(path, render(update.after))
    _print(f"{provider}: {path} written")
    return not update.failed


def _ask(provider: str, accounts: Sequence[AccountSettings], settings: Settings) -> list[PricePage]:
    """The answer of the first account that gets one, or the errors of the last."""
    pages: list[PricePage] = []
    for account in accounts:
        pages = list(_read(account, settings))
        failed = {name: page.error for page in pages for name in page.types if page.error is not None}
        if any(page.error is None for page in pages):
            break
        _print(f"{provider}: account {account.name} got no answer: {'; '.join(_by_reason(failed))}")
    return pages


def _read(account: AccountSettings, settings: Settings) -> Iterator[PricePage]:
    """Shows progress on stderr."""
    every, done, prices = len(catalogue(account.provider).types), 0, 0
    for page in connect(account, settings).price_list():
        done, prices = done + len(page.types), prices + len(page.prices)
        sys.stderr.write(f"\r{account.provider}: {done} of {every} types, {prices} prices")
        sys.stderr.flush()
        yield page
    sys.stderr.write("\n")


def _before(path: Path, provider: str) -> PriceList:
    """The file that is replaced; the adapter's own list where there is no file yet."""
    if not path.exists():
        return catalogue(provider).prices
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"cannot read {path}: {error}. Move the file away to start from the adapter's list"
        raise StartupError(msg) from None


def _replace(path: Path, text: str) -> None:
    """The old file stays whole until the new one is."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}. Name a folder with --write FOLDER"
        raise StartupError(msg) from None


def _by_provider(accounts: Iterable[AccountSettings]) -> Mapping[str, list[AccountSettings]]:
    by_provider: dict[str, list[AccountSettings]] = {}
    for account in sorted(accounts, key=lambda account: (account.provider, account.name)):
        by_provider.setdefault(account.provider, []).append(account)
    return by_provider


def _require_public_lists(accounts: Mapping[str, Sequence[AccountSettings]]) -> None:
    """The lists that come with the adapters contain no prices of a simulated cloud."""
    for account in (account for candidates in accounts.values() for account in candidates):
        if account.endpoint_url is not None:
            msg = f"account {account.name} has an endpoint_url, so its prices may be simulated: use --write FOLDER"
            raise StartupError(msg)


def _shortened(lines: Iterable[str]) -> Iterator[str]:
    every = iter(lines)
    yield from islice(every, _MOST_LINES)
    rest = sum(1 for _ in every)
    if rest:
        yield f"and {rest} more"


def _by_reason(failed: Mapping[str, ProviderError]) -> Mapping[str, list[str]]:
    """Names of types by what went wrong, sorted."""
    names: dict[str, list[str]] = {}
    for name, error in sorted(failed.items()):
        names.setdefault(f"{error.code}: {error.message}", []).append(name)
    return names


def _name(key: ListedKey) -> str:
    return " ".join(key)


def _change(update: Update, key: ListedKey) -> str:
    old, new = update.before[key].per_hour, update.after[key].per_hour
    percent = f"{(new - old) / old:+.1%}" if old else "from 0"
    return f"{format_money(old)} -> {format_money(new)} ({percent})"


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
