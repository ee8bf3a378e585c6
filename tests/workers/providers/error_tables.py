"""The error codes of each provider, what each means, and the table of them in the provider's page.

`python -m tests.workers.providers.error_tables` writes the tables into the pages.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.providers.errors import ProviderError

PROVIDERS = ("aws", "gcp", "azure")
_HERE = Path(__file__).parent
_PAGES = _HERE.parents[2] / "docs" / "providers"
_BEGIN, _END = "<!-- errors: begin -->\n", "<!-- errors: end -->\n"
_MOST_SHOWN = 40
_EXAMPLES = 3
_BY_STATUS = "HTTP "

ACTIONS: Mapping[str, str] = {
    "InsufficientCapacity": "cools the offering off for minutes, tries the next one",
    "NotOffered": "cools the offering off for an hour, tries the next one",
    "ProviderQuotaExceeded": "cools the offering off, tries the next one",
    "PriceTooLow": "cools the offering off for minutes, tries the next one",
    "NotPermitted": "cools the offering or the named image off, tries the next one",
    "AccountBlocked": "sets the account aside for ten minutes to an hour, tries the next one",
    "RegionBlocked": "sets the region of the account aside for ten minutes to an hour, tries the next one",
    "CredentialsRejected": "checks the account's identity. If that fails, sets the account aside; else as `NotPermitted`",
    "InvalidSpec": "cools the offering or the named image off, tries the next one",
    "Refused": "cools the offering off, tries the next one",
    "Throttled": "slows the account down and repeats the call",
    "NotReady": "repeats this call",
    "OutcomeUnknown": "repeats the same call with the same token, then only looks for the VM",
    "TokenConflict": "reads what exists. Adopts its own VM, else only looks for it",
}
"""What gpulease does after each class of error of a create call. The order is that of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Codes with the same meaning. `verdict`: after a create call. `elsewhere`: after other calls.

    `operation`: the codes stand in a finished operation and not in an answer. `status`: of the answer, 0 without one.
    """

    verdict: str
    elsewhere: str
    why: str
    codes: tuple[str, ...]
    status: int = 0
    operation: bool = False

    def answers(self) -> Iterator[tuple[str, int]]:
        """Code and HTTP status of each answer. The code is empty where the status alone counts."""
        for code in self.codes:
            by_status = code.startswith(_BY_STATUS)
            yield ("", int(code.removeprefix(_BY_STATUS))) if by_status else (code, self.status)


def groups(provider: str) -> tuple[Group, ...]:
    """The groups of a provider's file."""
    document = tomllib.loads((_HERE / provider / "error_codes.toml").read_text(encoding="utf-8"))
    entries: list[dict[str, Any]] = document["groups"]
    return tuple(
        Group(**({"elsewhere": entry["verdict"]} | entry | {"codes": tuple(entry["codes"])})) for entry in entries
    )


def listed(provider: str, *, operation: bool = False) -> frozenset[str]:
    """Every code of a provider's file."""
    return frozenset(code for group in groups(provider) if group.operation is operation for code in group.codes)


def wrong(
    entries: Iterable[Group], classify: Callable[[str, int], ProviderError], *, elsewhere: bool = False
) -> dict[tuple[str, int], str]:
    """The answers that the adapter reads in another way than the file says, with the adapter's verdict."""
    verdicts = {
        answer: (type(classify(*answer)).__name__, group.elsewhere if elsewhere else group.verdict)
        for group in entries
        for answer in group.answers()
    }
    return {answer: verdict for answer, (verdict, expected) in verdicts.items() if verdict != expected}


def table(provider: str) -> str:
    """The table of a provider's page."""
    rows = ["| codes | meaning | after a launch, gpulease … |", "|---|---|---|"]
    order = list(ACTIONS)
    for group in sorted(groups(provider), key=lambda group: order.index(group.verdict)):
        where = "in a finished operation: " if group.operation else ""
        rows.append(f"| {where}{_shown(group)} | {group.why} | {_action(group.verdict)} |")
    return "\n".join(rows) + "\n"


def _action(verdict: str) -> str:
    return f"**{verdict}**: {ACTIONS[verdict]}"


def _shown(group: Group) -> str:
    if len(group.codes) <= _MOST_SHOWN:
        return ", ".join(f"`{code}`" for code in group.codes)
    examples = ", ".join(f"`{code}`" for code in group.codes[:_EXAMPLES])
    return f"{len(group.codes)} codes, such as {examples}"


def page(provider: str) -> Path:
    """The provider's page."""
    return _PAGES / f"{provider}.md"


def with_table(text: str, provider: str) -> str:
    """The page's text with the present table between its markers. Raises ValueError without markers."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        msg = f"the page of {provider} has no place for the table of errors"
        raise ValueError(msg)
    return f"{before}{begin}\n{table(provider)}\n{end}{after}"


def main() -> None:
    """Writes the tables into the pages."""
    for provider in PROVIDERS:
        path = page(provider)
        path.write_text(with_table(path.read_text(encoding="utf-8"), provider), encoding="utf-8")


if __name__ == "__main__":
    main()
