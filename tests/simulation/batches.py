"""Create calls for several machines: filled in part, answered in part, with wrong launch indexes, or not at all."""

from collections.abc import Mapping, Sequence

from app.domain.tags import DEADLINE, NAME, OwnerTags, batch_tags
from tests.simulation.cloud import Machine, Violation
from tests.simulation.machines import SeenMachines
from workers.providers.errors import CredentialsRejected, InsufficientCapacity, OutcomeUnknown, ProviderError, Throttled
from workers.providers.types import BatchLaunched, BatchResult, LaunchSpec, Params, Slot, Vm

_SOON_AFTER = 5.0
_THROTTLED_AGAIN = 3.0
"""A second create call of a batch, soon after another one, is throttled so many times as often."""


class Batches(SeenMachines):
    """The launch batches of one process at one account, where the cloud has a call for them."""

    def plan_batch(self, spec: LaunchSpec, batch_id: str, token: str, slots: Sequence[Slot]) -> Params:
        """The lease and the attempt of a slot are what the simulation compares with. A cloud does not know them."""
        return {
            "token": token,
            "zone": spec.zone,
            "type": spec.instance_type,
            "market": str(spec.market),
            "tags": batch_tags(spec.owner, batch_id),
            "agent": None if spec.agent is None else {"url": spec.agent.url},
            "secret": spec.slot_secret,
            "batch": batch_id,
            "slots": [
                {"index": slot.index, "token": slot.token, "lease": slot.owner.lease_id, "n": slot.owner.n}
                for slot in slots
            ],
        }

    def launch_batch(self, region: str, params: Params) -> BatchLaunched:
        cloud, issued = self._cloud, self._process.acting_since()

        def act() -> BatchLaunched:
            if self._stranger:
                raise CredentialsRejected("somebody else's", code="AuthFailure")
            self._throttle_again()
            return self._answer(params, cloud.launch_batch(params, issued))

        cloud.scheduler.count("batch: create call")
        cloud.tell(f"{cloud.name} is asked for {len(params['slots'])} VMs of {params['batch']}")
        return self._call("launch_batch", act, later=lambda: cloud.launch_batch(params, issued))

    def _throttle_again(self) -> None:
        """Raises Throttled."""
        cloud = self._cloud
        now, before = cloud.scheduler.now, cloud.batch_at
        cloud.batch_at = now
        often = _THROTTLED_AGAIN * cloud.weather.throttled
        if now - before < _SOON_AFTER and cloud.scheduler.random.random() < often:
            cloud.scheduler.count("batch: a second one throttled")
            raise Throttled("slow down", code="Throttling", retry_after=2.0)

    def _answer(self, params: Params, made: Mapping[int, Machine]) -> BatchLaunched:
        """Which slots the answer names, in any order. As real adapters do, this one reports an index twice as a malformed answer."""
        cloud, size = self._cloud, len(params["slots"])
        random, weather, count = cloud.scheduler.random, cloud.weather, cloud.scheduler.count
        order = random.sample(sorted(made), len(made))
        vms = {index: self._vm(made[index]) for index in order}
        short = InsufficientCapacity(f"{len(made)} of {size} VMs were made", code="InsufficientInstanceCapacity")
        missing: dict[int, ProviderError] = {index: short for index in range(size) if index not in made}
        if random.random() < weather.wrong_index:
            if random.random() < 0.5:
                count("batch: an index twice")
                raise OutcomeUnknown("two VMs have one launch index", code="MalformedAnswer")
            count("batch: an unknown index")
            index = random.choice(sorted(vms))
            vms[size + index] = vms.pop(index)
        if cloud.nature.names_slots and random.random() < weather.silent_slots:
            count("batch: an answer without some slots")
            silent = {index for index in range(size) if random.random() < 0.5}
            vms = {index: vm for index, vm in vms.items() if index not in silent}
            missing = {index: error for index, error in missing.items() if index not in silent}
        if not vms and not missing:
            raise OutcomeUnknown("none of the VMs shows yet", code="NotShownYet")
        return BatchLaunched(vms=vms, missing=missing)

    def find_batch(self, region: str, params: Params) -> Mapping[int, Vm]:
        def look() -> Mapping[int, Vm]:
            machines = [machine for machine in self._known() if machine.batch is not None and not machine.copied]
            return {m.batch[1]: self._vm(m) for m in machines if m.batch is not None and m.batch[0] == params["batch"]}

        return self._call("find_batch", look)

    def label_slots(
        self, region: str, owners: Mapping[str, OwnerTags], names: Mapping[str, str] | None = None
    ) -> BatchResult:
        def act() -> BatchResult:
            known = [machine for machine in self._known() if machine.id in owners]
            for machine in known:
                owner = owners[machine.id]
                if machine.key != (owner.lease_id, owner.n):
                    raise Violation(f"{machine.id} of {machine.key} is tagged as {owner.lease_id}/{owner.n}")
                machine.tags |= {**owner.as_tags(), NAME: (names or {}).get(machine.id, "")}
                self._cloud.tell(
                    f"{machine.id} is tagged as {owner.lease_id}/{owner.n}, until {machine.tags[DEADLINE]}"
                )
            self._cloud.scheduler.count("batch: VMs tagged")
            return BatchResult(done=frozenset(machine.id for machine in known))

        return self._call("label_slots", act, later=act)
