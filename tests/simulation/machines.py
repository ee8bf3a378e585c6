"""What a caller sees of machines: late, and sometimes in an earlier state."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from app.domain.leases import VmState
from app.domain.offerings import Market
from tests.simulation.calls import Calls, Process
from tests.simulation.cloud import Cloud, Machine
from tests.simulation.scheduler import EPOCH
from workers.providers.types import Vm

REGION = "somewhere"


class SeenMachines(Calls):
    """The machines of an account, as one process sees them."""

    def __init__(self, cloud: Cloud, process: Process) -> None:
        super().__init__(cloud, process)
        self._seen_wrong = False

    @property
    def _stranger(self) -> bool:
        """Wrong credentials are noticed only when `identity` is asked; right ones are back for everybody at once."""
        return self._seen_wrong and self._cloud.wrong

    def _known(self) -> Iterator[Machine]:
        cloud = self._cloud
        if not self._stranger:
            for machine in cloud.machines.values():
                if machine.gets_from <= cloud.scheduler.now and cloud.shows(machine):
                    yield machine

    def _vm(self, machine: Machine) -> Vm:
        cloud = self._cloud
        lag = cloud.scheduler.random.uniform(0, 10) if cloud.scheduler.random.random() < cloud.weather.stale else 0.0
        state = machine.state_at(cloud.scheduler.now - lag)
        over = state in (VmState.GONE, VmState.ENDING, VmState.STOPPED)
        return Vm(
            id=machine.id,
            region=REGION,
            zone=machine.zone,
            instance_type=machine.kind,
            market=Market(machine.market),
            state=state,
            tags=dict(machine.tags),
            launch_identity=machine.token,
            batch=machine.batch,
            launched_at=time_at(machine.born),
            ended_at=time_at(machine.gone_at) if state is VmState.GONE and machine.gone_at is not None else None,
            public_ip="203.0.113.1" if state is VmState.RUNNING else None,
            private_ip="10.0.0.1",
            state_reason=machine.reason if over else None,
            interrupted=machine.interrupted and over,
            refusal=machine.refusal if over else None,
            price_per_hour=None,
        )


def time_at(seconds: float) -> datetime:
    """The time so many seconds after the start."""
    return EPOCH + timedelta(seconds=seconds)
