"""Checks of accounts as a table for people, at most 80 columns wide, and as JSON."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from app.domain.account_checks import AccountCheck, CheckResult, failures
from workers.account_checks.account_checks import count

WIDTH = 80
_MARKS: Mapping[CheckResult, str] = {
    CheckResult.PASSED: "ok",
    CheckResult.FAILED: "FAIL",
    CheckResult.NOT_CHECKED: "?",
}
_INDENT = " " * 7
_ANY_REGION = "<region>"
"""Stands for the name of the region in a row of several regions."""


def table(account: str, checks: Sequence[AccountCheck]) -> Iterator[str]:
    """The lines of one account: a heading for the whole account and for regions, then a row for each check.

    A row that is equal in several regions stands once, below all of their names.
    """
    for regions, rows in _sections(checks).items():
        yield ""
        names = ", ".join(region or "whole account" for region in regions)
        yield from _wrapped(f"{account}, {names}", "  ")
        for check in rows:
            yield from _row(check)


def _sections(checks: Sequence[AccountCheck]) -> dict[tuple[str | None, ...], list[AccountCheck]]:
    """Rows by the regions that have them. Sections and rows are in the order of the checks."""
    regions: dict[AccountCheck, list[str | None]] = {}
    for check in checks:
        regions.setdefault(_without_region(check), []).append(check.region)
    first = {(check.region, _without_region(check)): check for check in checks}
    sections: dict[tuple[str | None, ...], list[AccountCheck]] = {}
    for row, of_row in regions.items():
        check = row if len(of_row) > 1 else first[of_row[0], row]
        sections.setdefault(tuple(of_row), []).append(check)
    return sections


def _without_region(check: AccountCheck) -> AccountCheck:
    """The check as it reads in any region."""
    region = check.region
    if region is None:
        return check
    name, detail, fix = (text and text.replace(region, _ANY_REGION) for text in (check.name, check.detail, check.fix))
    return replace(check, name=name or "", detail=detail or "", fix=fix, region=_ANY_REGION)


def _row(check: AccountCheck) -> Iterator[str]:
    head = f"  {_MARKS[check.result]:<5}{check.subject:<12}{check.name}"
    line = f"{head}  {check.detail}".rstrip()
    if len(line) <= WIDTH:
        yield line
    else:
        yield from _wrapped(head, _INDENT)
        yield from _wrapped(f"{_INDENT}{check.detail}", _INDENT)
    if check.fix is not None:
        yield from _wrapped(f"{_INDENT}Fix: {check.fix}", f"{_INDENT}     ")


def _wrapped(text: str, indent: str) -> list[str]:
    """Lines of at most 80 columns. A longer word, such as the id of an Azure subnet, is broken."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def summary(checks: Sequence[AccountCheck]) -> str:
    """One line for all accounts."""
    counts = count(checks)
    return (
        f"{counts[CheckResult.PASSED]} passed, {counts[CheckResult.FAILED]} failed, "
        f"{counts[CheckResult.NOT_CHECKED]} not checked"
    )


def as_json(checks: Mapping[str, Sequence[AccountCheck]]) -> str:
    """One object: `passed`, and the checks by account."""
    accounts = [{"name": name, "checks": [check.as_json() for check in of]} for name, of in checks.items()]
    is_passed = not any(failures(of) for of in checks.values())
    return json.dumps({"passed": is_passed, "accounts": accounts}, indent=2)
