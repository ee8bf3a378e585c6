"""One stack for all tests of a package: its conftest says `stack, cloud, operator = sharing("aws")`."""

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.e2e.cloud import Cloud
from tests.e2e.people import Operator
from tests.e2e.stack import Stack, running
from tests.harness.forks import ForkServer


def sharing(
    *clouds: str,
    api: int = 1,
    workers: int = 1,
    inventories: int = 1,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Any, Any, Any]:
    """Fixtures: a stack with an account at each of these simulated clouds, their remote control, and its operator.

    `api`, `workers`, `inventories`: the numbers of processes. A second inventory costs ten seconds of CPU time; tests that
    kill processes need it.
    `settings` go before those of all stacks.
    """

    processes = {"--api": api, "--workers": workers, "--inventories": inventories}
    arguments = ("--clouds", ",".join(clouds), *(str(part) for pair in processes.items() for part in pair))

    @pytest.fixture(scope="package")
    def stack(forks: ForkServer) -> Iterator[Stack]:
        with (
            tempfile.TemporaryDirectory(prefix="gpulease-e2e-") as folder,
            running(Path(folder), *arguments, settings=settings, forks=forks) as up,
        ):
            yield up

    @pytest.fixture(scope="package")
    def cloud(stack: Stack) -> Iterator[Cloud]:
        with Cloud(stack.credentials.cloudsim_url) as simulated:
            yield simulated

    @pytest.fixture(scope="package")
    def operator(stack: Stack) -> Iterator[Operator]:
        with Operator(stack.credentials.api_url, stack.credentials.operator_key) as person:
            person.wait_for_offerings(*clouds)
            yield person

    return stack, cloud, operator


def named_after(request: pytest.FixtureRequest) -> str:
    """A tenant's name that tells which test it belongs to."""
    return re.sub(r"\W", "_", request.node.name)[:60].strip("_")
