"""The tags of a resource, put together from gpulease's own, the operator's and the tenant's."""

from collections.abc import Mapping, Sequence

from app.settings import AccountSettings
from app.settings.account_tags import TagRules
from workers.providers.types import LaunchSpec


def of_account(spec: LaunchSpec, account: AccountSettings, rules: TagRules) -> list[Mapping[str, str]]:
    """The operator's tags, and the labels of the lease that the account copies without a prefix."""
    copied = {key: rules.value(spec.labels[key]) for key in account.copy_labels if key in spec.labels}
    return [account.tags, copied]


def combine(groups: Sequence[Mapping[str, str]], most: int) -> dict[str, str]:
    """The tags of all groups, at most `most`, those of the first groups first.

    A key never overwrites one of an earlier group. Keys that differ only in case are the same.
    """
    combined: dict[str, tuple[str, str]] = {}
    for group in groups:
        for key, value in group.items():
            if len(combined) < most:
                combined.setdefault(key.lower(), (key, value))
    return dict(combined.values())
