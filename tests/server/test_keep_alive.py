"""Idle connections: the end that sends requests closes them first."""

import re

import pytest
from fastapi import FastAPI

from app.server.api import Server
from tests.described import document
from tests.harness.databases import ROOT


def test_an_idle_connection_is_open_for_longer_than_each_load_balancer_that_the_page_names_keeps_it() -> None:
    page = (ROOT / "docs/howto/deploy.md").read_text(encoding="utf-8")
    (paragraph,) = (text for text in page.split("\n\n") if text.startswith("An API closes an idle connection"))
    ours, *theirs = map(int, re.findall(r"after (\d+) seconds", paragraph))
    assert theirs == [60, 600]
    assert Server(FastAPI()).config.timeout_keep_alive == ours > max(theirs)


@pytest.mark.parametrize("page", ["howto/deploy.md", "running.md"])
def test_each_proxy_of_the_pages_waits_longer_than_the_longest_poll(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    waits = re.findall(r"(?:timeout (?:client|server)|proxy_read_timeout|idle_timeout\.timeout_seconds =) (\d+)", text)
    parameters = document()["paths"]["/v1/leases/{lease_id}"]["get"]["parameters"]
    (longest,) = (each["schema"]["maximum"] for each in parameters if each["name"] == "poll_seconds")
    assert waits
    assert min(map(int, waits)) > longest + 10
