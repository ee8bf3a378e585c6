"""The error codes of each provider, what each means, and the tables of them in the pages of the providers.

`python -m tests.workers.providers.error_tables` writes the tables into the pages.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.providers.errors import ProviderError

PROVIDERS = ("aws", "gcp", "azure")
COMMON = "common"
"""The page of all clouds: what gpulease does after each class of error."""
_HERE = Path(__file__).parent
_PAGES = _HERE.parents[2] / "docs" / "providers"
_BEGIN, _END = "<!-- errors: begin -->\n", "<!-- errors: end -->\n"
_MOST_SHOWN = 40
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

FOR_OPERATORS = frozenset(ACTIONS) - {"Throttled", "NotReady", "OutcomeUnknown", "TokenConflict"}
"""The classes whose codes name something that an operator can change at the cloud."""


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


def table(name: str) -> str:
    """The table of a provider's page, or of that of all clouds."""
    return _table_of_classes() if name == COMMON else _table_of_codes(name)


def _table_of_classes() -> str:
    rows = ["| class | after a launch, gpulease … |", "|---|---|"]
    rows += [f"| `{verdict}` | {action} |" for verdict, action in ACTIONS.items()]
    return "\n".join(rows) + "\n"


def _table_of_codes(provider: str) -> str:
    """The codes that an operator can act on. Groups of many codes are about resources that a launch does not use."""
    rows = ["| codes | meaning | class |", "|---|---|---|"]
    order = list(ACTIONS)
    some = [one for one in groups(provider) if one.verdict in FOR_OPERATORS and len(one.codes) <= _MOST_SHOWN]
    for group in sorted(some, key=lambda group: order.index(group.verdict)):
        where = "in a finished operation: " if group.operation else ""
        codes = ", ".join(f"`{code}`" for code in group.codes)
        rows.append(f"| {where}{codes} | {group.why} | `{group.verdict}` |")
    return "\n".join(rows) + "\n"


def page(name: str) -> Path:
    """The page of a provider, or that of all clouds."""
    return _PAGES / f"{name}.md"


def with_table(text: str, name: str) -> str:
    """The page's text with the present table between its markers. Raises ValueError without markers."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        msg = f"the page {name} has no place for the table of errors"
        raise ValueError(msg)
    return f"{before}{begin}\n{table(name)}\n{end}{after}"


def main() -> None:
    """Writes the tables into the pages."""
    for name in (*PROVIDERS, COMMON):
        path = page(name)
        path.write_text(with_table(path.read_text(encoding="utf-8"), name), encoding="utf-8")


if __name__ == "__main__":
    main()
