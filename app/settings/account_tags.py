"""The operator's own tags in an account's settings: what a cloud accepts, and what gpulease keeps for itself."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from app.domain.tags import NAME

_OWN_PREFIX = "gpulease"
MOST_TAGS = 20
"""Tags and copied labels of an account together. The rest of a cloud's limit remains for gpulease's own tags and the
tenant's labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRules:
    """What a cloud accepts as a tag or label.

    `key` and `value` replace what the cloud refuses. A text that they do not change is accepted as it is.
    `requirement`: the rule in words, for the operator.
    """

    key: Callable[[str], str]
    value: Callable[[str], str]
    requirement: str


def check_tags(tags: Mapping[str, str], rules: TagRules) -> None:
    """Raises ValueError for a tag that the cloud refuses, or that belongs to gpulease."""
    _check_keys(tags, rules)
    for key, value in tags.items():
        if rules.value(value) != value:
            raise ValueError(f"the value {value!r} of the tag {key!r} is not accepted there: {rules.requirement}")


def check_labels(labels: Iterable[str], tags: Mapping[str, str], rules: TagRules) -> None:
    """Raises ValueError for a label that cannot be a tag under its own name, or that `tags` sets already."""
    labels = tuple(labels)
    _check_keys(labels, rules)
    taken = {key.lower() for key in tags}
    for label in labels:
        if label.lower() in taken:
            raise ValueError(f"{label!r} is a key of tags too: a tenant's label must not replace your tag")
    if len(tags) + len(labels) > MOST_TAGS:
        raise ValueError(f"tags and copy_labels may have {MOST_TAGS} keys together")


def _check_keys(keys: Iterable[str], rules: TagRules) -> None:
    seen: set[str] = set()
    for key in keys:
        if key.lower() == NAME.lower() or key.lower().startswith(_OWN_PREFIX):
            raise ValueError(f"the key {key!r} belongs to gpulease: choose another one")
        if not key or rules.key(key) != key:
            raise ValueError(f"the key {key!r} is not accepted there: {rules.requirement}")
        if key.lower() in seen:
            raise ValueError(f"the key {key!r} occurs twice: keys that differ only in case are the same")
        seen.add(key.lower())
