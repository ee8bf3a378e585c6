"""All checks of one account, in the order in which an operator can fix what fails."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import cast

from app.domain.account_checks import AccountCheck, CheckResult, CheckSubject, failures
from workers.providers.common.checks import not_checked
from workers.providers.ports import Checking, Provider

_NO_CHECKS = "the adapter of this provider offers no checks"


def check_account(
    provider: Provider, regions: Iterable[str], installation: str, *, announce: Callable[[str], None] = lambda _: None
) -> Iterator[AccountCheck]:
    """The checks of the whole account, then those of each region. Announces each part before it begins.

    Failed credentials end the checks, because every later call would fail for the same reason. Raises ProviderError
    only where a wrapper of the adapter does.
    """
    if not hasattr(provider, "check_region"):
        yield not_checked(CheckSubject.ADAPTER, "checks", _NO_CHECKS)
        return
    checking = cast(Checking, provider)
    announce("whole account")
    of_account = checking.check_account(installation)
    yield from of_account
    if any(check.subject is CheckSubject.CREDENTIALS for check in failures(of_account)):
        return
    for region in regions:
        announce(region)
        for check in checking.check_region(region, installation):
            yield replace(check, region=region)


def count(checks: Iterable[AccountCheck]) -> dict[CheckResult, int]:
    """The number of checks by result."""
    results = [check.result for check in checks]
    return {result: results.count(result) for result in CheckResult}
