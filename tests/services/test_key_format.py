"""The text of a key."""

from hypothesis import given
from hypothesis import strategies as st

from app.domain.ids import KeyId
from app.services import key_format

KEY = key_format.generate(KeyId("key_01jz0000000000000000000000"))


def test_a_key_is_read_as_it_was_written() -> None:
    assert key_format.parse(KEY.text) == KEY
    assert KEY.text.startswith(key_format.prefix(KEY.key_id) + "_")


def test_two_secrets_differ() -> None:
    assert key_format.generate(KEY.key_id).secret != KEY.secret


def test_a_secret_does_not_show_in_a_repr() -> None:
    assert KEY.secret not in repr(KEY)


@given(st.integers(0, len(KEY.text) - 1), st.characters(codec="ascii"))
def test_one_wrong_character_is_noticed(place: int, character: str) -> None:
    text = KEY.text[:place] + character + KEY.text[place + 1 :]
    assert text == KEY.text or key_format.parse(text) is None


@given(st.text())
def test_any_text_may_be_asked_about(text: str) -> None:
    assert key_format.parse(text) is None
