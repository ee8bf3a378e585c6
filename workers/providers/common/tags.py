"""The tags of a resource, put together from gpulease's own, the operator's and the tenant's. Their names: `app.domain.tags`."""

import re
from collections.abc import Callable, Mapping, Sequence

from app.domain.labels import is_value
from app.domain.tags import GROUP, LABEL_PREFIX, SHARED, OwnerTags
from app.settings import AccountSettings
from app.settings.account_tags import TagRules
from workers.providers.types import LaunchSpec

_ESCAPED = re.compile(r"=(10[0-9A-F]{4}|[0-9A-F]{1,5})=")


def group_tag(spec: LaunchSpec) -> dict[str, str]:
    """The tag that the members of a group have; none for a lease of its own."""
    return {} if spec.group is None else {GROUP: spec.group.group_id}


def shared_tag(spec: LaunchSpec) -> dict[str, str]:
    """The further tag of what the members of a group share."""
    return {} if spec.group is None else {SHARED: spec.group.group_id}


def of_account(spec: LaunchSpec, account: AccountSettings, rules: TagRules) -> list[Mapping[str, str]]:
    """The operator's tags, and the labels of the lease that the account copies without a prefix."""
    copied = {key: rules.value(spec.labels[key]) for key in account.copy_labels if key in spec.labels}
    return [account.tags, copied]


def escaped(text: str, accepts: Callable[[str], bool], longest: int) -> str:
    """`text` with characters that a cloud refuses as `=HEX=`, and at most `longest` long. `unescaped` reads it back.

    `=` itself is escaped too, and a space at an end, where clouds drop it. A text that becomes too long loses its last
    characters.
    """
    parts: list[str] = []
    for position, character in enumerate(text):
        plain = accepts(character) and character != "=" and (character != " " or 0 < position < len(text) - 1)
        parts.append(character if plain else f"={ord(character):X}=")
    while sum(map(len, parts)) > longest:
        parts.pop()
    return "".join(parts)


def unescaped(text: str) -> str:
    """The text of which `escaped` was made. What no label contains stays as it is."""
    return _ESCAPED.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if is_value(character) else match[0]


def label_key(key: str) -> str:
    """The tag's key of a label, for clouds that accept all of a label's key but `/`, which becomes `:`."""
    return LABEL_PREFIX + key.replace("/", ":")


def belongs(tags: Mapping[str, str], owner: OwnerTags) -> bool:
    """Whether tags name this installation, lease and attempt."""
    theirs = OwnerTags.parse(tags)
    return theirs is not None and (theirs.installation, theirs.lease_id, theirs.n) == (
        owner.installation,
        owner.lease_id,
        owner.n,
    )


def with_labels(tags: Mapping[str, str], read: Callable[[str], str]) -> dict[str, str]:
    """Tags as a cloud returns them, with labels under their own keys. `read` decodes a label's value."""
    others = {key: value for key, value in tags.items() if not key.startswith(LABEL_PREFIX)}
    labels = {key.replace(":", "/"): read(tags[key]) for key in tags.keys() - others.keys()}
    return others | labels


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
