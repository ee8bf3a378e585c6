"""Checks of accounts as a table for people, at most 80 columns wide, and as JSON."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from app.domain.account_checks import AccountCheck, CheckResult, failures
from workers.account_checks.account_checks import count

WIDTH = 80
_MARKS: Mapping[CheckResult, str] = {
    CheckResult.PASSED: "ok",
    CheckResult.FAILED: "FAIL",
    CheckResult.NOT_CHECKED: "?",
}
_INDENT = " " * 7


def table(account: str, checks: Sequence[AccountCheck]) -> Iterator[str]:
    """The lines of one account: a heading for the whole account and for each region, then a row for each check."""
    for region, of_region in groupby(checks, key=lambda check: check.region):
        yield ""
        yield f"{account}, {region or 'whole account'}"
        for check in of_region:
            yield from _row(check)


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
