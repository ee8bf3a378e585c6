"""Labels of a lease: keys as in Kubernetes, values any text of one line.

A key is `name` or `prefix/name`. The prefix is a DNS name. Each cloud's adapter encodes labels into the tags that the
cloud accepts.
"""

import re
import unicodedata
from collections.abc import Mapping

LONGEST_NAME = 63
LONGEST_PREFIX = 253
LONGEST_VALUE = 63
MOST = 20

_PART = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
KEY_PATTERN = rf"({_PART}(\.{_PART})*/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
"""The form of a key, without its lengths."""
KEY_RULE = (
    "must be a name of at most 63 letters, digits, '_', '.' and '-' that begins and ends with a letter or digit, "
    "perhaps after a DNS name and '/', such as example.org/team"
)
VALUE_RULE = "must have at most 63 characters, none of them a control character"

_CONTROLS = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode's categories of control characters, lone surrogates, and separators of lines and paragraphs."""
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""They change the direction of the text that follows, on every page that shows the label."""
_KEY = re.compile(KEY_PATTERN)


def is_key(text: str) -> bool:
    """Whether a label may have this key."""
    prefix, _, name = text.rpartition("/")
    lengths = len(name) <= LONGEST_NAME and len(prefix) <= LONGEST_PREFIX
    return lengths and _KEY.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Whether a label may have this value. Unassigned characters may: they are assigned in a later Unicode."""
    return len(text) <= LONGEST_VALUE and not any(
        character in _DIRECTIONS or unicodedata.category(character) in _CONTROLS for character in text
    )


def valid_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels, read from a cloud, that a lease may have: at most MOST."""
    valid = {key: value for key, value in sorted(labels.items()) if is_key(key) and is_value(value)}
    return dict([*valid.items()][:MOST])
