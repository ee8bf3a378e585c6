"""Cursors."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.services.cursors import PageRequest, cursor, last_id
from app.services.errors import InvalidRequest

ID = "lease_01jz0000000000000000000000"


@given(st.lists(st.text(st.characters(categories=["L", "N"])), min_size=1))
def test_a_cursor_is_read_as_it_was_written(parts: list[str]) -> None:
    page = PageRequest(cursor=cursor("list", *parts))
    assert page.after("list", parts=len(parts)) == tuple(parts)


def test_no_cursor_is_the_first_page() -> None:
    assert PageRequest().after("list") is None


@given(st.text())
def test_any_text_is_refused_politely(text: str) -> None:
    with pytest.raises(InvalidRequest):
        PageRequest(cursor=text).after("list")


@pytest.mark.parametrize(
    "content",
    [["other", "x"], ["list"], ["list", "x", "y"], ["list", 1], {"list": "x"}, ["list", "a\x00"], ["list", "\ud800"]],
)
def test_a_cursor_of_something_else_is_refused(content: object) -> None:
    text = base64.urlsafe_b64encode(json.dumps(content).encode()).decode()
    with pytest.raises(InvalidRequest):
        PageRequest(cursor=text).after("list")


def test_a_list_by_id_takes_ids_of_its_type_only() -> None:
    assert last_id(PageRequest(cursor=cursor("leases", ID)), "leases", "lease") == ID
    with pytest.raises(InvalidRequest):
        last_id(PageRequest(cursor=cursor("leases", ID)), "leases", "tenant")
