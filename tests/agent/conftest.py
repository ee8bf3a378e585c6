from pathlib import Path

import pytest

from tests.agent.vms import FakeVm


@pytest.fixture
def vm(tmp_path: Path) -> FakeVm:
    """A VM with one idle A100 and no way out."""
    machine = FakeVm(tmp_path)
    machine.configure(None)
    machine.set(model="A100")
    return machine
