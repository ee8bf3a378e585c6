"""Each provider's page shows the class of every error code, and the page of all clouds what follows from a class."""

import pytest

from app.domain.error_kinds import ErrorKind
from tests.workers.providers.error_tables import ACTIONS, COMMON, PROVIDERS, groups, page, with_table


@pytest.mark.parametrize("name", [*PROVIDERS, COMMON])
def test_the_page_shows_the_table_of_errors(name: str) -> None:
    text = page(name).read_text(encoding="utf-8")
    assert text == with_table(text, name), "run `python -m tests.workers.providers.error_tables`"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_each_code_stands_in_one_group(provider: str) -> None:
    codes = [(code, group.operation) for group in groups(provider) for code in group.codes]
    assert len(codes) == len(set(codes))
    assert {group.verdict for group in groups(provider)} <= ACTIONS.keys()
    assert ACTIONS.keys() <= {str(kind) for kind in ErrorKind}
