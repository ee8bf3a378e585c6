"""Keys and values of labels."""

import pytest

from app.domain.labels import MOST, is_key, is_value, valid_labels


@pytest.mark.parametrize(
    "key", ["a", "A", "0", "team", "Team_1.x-y", "example.org/team", "a/b", "a" * 63, f"{'b' * 63}.{'c' * 60}/x"]
)
def test_keys_of_kubernetes_are_keys(key: str) -> None:
    assert is_key(key)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "-a",
        "a-",
        "_a",
        "a.",
        "a b",
        "ä",
        "a\n",
        "a:b",
        "a/b/c",
        "/a",
        "a/",
        "Example.org/team",
        "-x/a",
        "x..y/a",
        "a" * 64,
        f"{'b.' * 126}bb/x",
    ],
)
def test_other_texts_are_no_keys(key: str) -> None:
    assert not is_key(key)


@pytest.mark.parametrize("value", ["", " ", "Größe", "機械", "😀" * 63, "a=b, c", "\u200b"])
def test_values_are_any_text(value: str) -> None:
    assert is_value(value)


@pytest.mark.parametrize("value", ["\x00", "a\nb", "\x7f", "\x85", "\ud800", "x\u2028y", "\u202ex", "x" * 64])
def test_control_characters_and_long_texts_are_no_values(value: str) -> None:
    assert not is_value(value)


def test_of_labels_from_outside_only_the_valid_ones_count() -> None:
    many = {f"k{number:02}": "v" for number in range(30)}
    assert len(valid_labels({**many, "-": "x", "a": "\n"})) == MOST
