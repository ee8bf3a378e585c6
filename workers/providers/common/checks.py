"""Checks that adapters make of their accounts: the results, and calls that show whether something works."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal

from app.domain.account_checks import AccountCheck, CheckResult, CheckSubject
from workers.providers.errors import CredentialsRejected, OutcomeUnknown, ProviderError, Throttled, Unreachable

TRY_AGAIN = "run the check again later"


def passed(subject: CheckSubject, name: str, detail: str = "") -> AccountCheck:
    """A passed check."""
    return AccountCheck(subject=subject, name=name, result=CheckResult.PASSED, detail=detail)


def failed(subject: CheckSubject, name: str, detail: str, fix: str) -> AccountCheck:
    """A failed check with its fix."""
    return AccountCheck(subject=subject, name=name, result=CheckResult.FAILED, detail=detail, fix=fix)


def not_checked(subject: CheckSubject, name: str, detail: str, fix: str | None = None) -> AccountCheck:
    """No harmless call shows it. `fix`: what would make the check possible."""
    return AccountCheck(subject=subject, name=name, result=CheckResult.NOT_CHECKED, detail=detail, fix=fix)


def refused(subject: CheckSubject, name: str, error: ProviderError, fix: str) -> AccountCheck:
    """A failed check whose call raised an error. Throttling, silence and an HTTP 5xx ask for another try, not for the fix."""
    transient = isinstance(error, (Throttled, OutcomeUnknown, Unreachable)) or not error.answered
    return failed(subject, name, words_of(error), TRY_AGAIN if transient else fix)


def words_of(error: ProviderError) -> str:
    """The provider's words. The message of CredentialsRejected ends with general advice, which a fix replaces."""
    detail = error.message.rpartition("; ")[0] if isinstance(error, CredentialsRejected) else ""
    return detail or error.message


def attempt(subject: CheckSubject, name: str, call: Callable[[], str], fix: str) -> AccountCheck:
    """Passed with the detail that `call` returns, or failed with the ProviderError that it raises."""
    try:
        return passed(subject, name, call())
    except ProviderError as error:
        return refused(subject, name, error, fix)


def check_images(resolve: Callable[[str | None], str], named: Iterable[str], fix: str) -> list[AccountCheck]:
    """The default image and the images that leases may name. `resolve` returns the id for a name, None: the default.

    `fix` contains `{setting}`, which becomes the setting of the image.
    """
    settings: Mapping[str | None, str] = {None: "`image`", **{name: f"`images.{name}`" for name in named}}
    return [
        attempt(
            CheckSubject.IMAGE,
            name or "default",
            lambda name=name: resolve(name),
            fix.format(setting=setting),
        )
        for name, setting in settings.items()
    ]


def plain(number: Decimal) -> str:
    """Without trailing zeros and without an exponent."""
    return f"{number.normalize():f}"


def check_quota(name: str, *, amount: Decimal, least: int, state: str, fix: str) -> AccountCheck:
    """Whether `amount` lets at least the smallest type launch, which needs `least`. `state` describes the amount."""
    if amount >= least:
        return passed(CheckSubject.QUOTA, name, f"{state}; room for {int(amount // least)} of the smallest type")
    return failed(CheckSubject.QUOTA, name, f"{state}; the smallest type needs {least}", fix)
