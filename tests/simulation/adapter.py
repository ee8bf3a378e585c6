"""The provider interface over the simulated cloud, as one process sees it: late, lossy, and sometimes wrong."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from app.domain.offerings import LISTED_MARKETS, Driver, InstanceType, Market
from app.domain.tags import ATTEMPT, BATCH, DEADLINE, LEASE, OwnerTags
from tests.simulation.calls import Process
from tests.simulation.cloud import TYPES, Cloud, Machine, Violation, list_price
from tests.simulation.machines import REGION, time_at
from tests.simulation.scheduler import EPOCH
from tests.simulation.volumes import Volumes
from workers.providers.errors import CredentialsRejected
from workers.providers.types import (
    BatchResult,
    CallRate,
    Image,
    Interruption,
    LaunchSpec,
    Leftover,
    Leftovers,
    Limits,
    ListingPage,
    ObservedReservation,
    Params,
    PartPrice,
    Price,
    PricePage,
    Prices,
    ProviderEvent,
    ProviderOffering,
    ServiceQuota,
    Vm,
)

_PAGE = 2
_MOST_PAGES = 5
_OWNER = (LEASE, ATTEMPT, BATCH)
_RATES = {"launch": CallRate(burst=5, per_second=1), "terminate": CallRate(burst=5, per_second=1)}


class SimulatedProvider(Volumes):
    """One process's adapter of one account."""

    ssh_user = "ubuntu"

    def __init__(
        self,
        cloud: Cloud,
        process: Process,
        listed: Callable[[Cloud, bool, float], None],
        ending: Callable[[Cloud, Sequence[str]], None],
        rebooted: Callable[[Machine], None],
    ) -> None:
        super().__init__(cloud, process)
        self.limits = Limits(rates=_RATES, batch=cloud.nature.batch, named_slots=cloud.nature.names_slots)
        self.lists_all_regions = cloud.nature.lists_all_regions
        self._listed = listed
        self._ending = ending
        self._rebooted = rebooted

    # --- the account ------------------------------------------------------------------------------------------

    def identity(self) -> str:
        def ask() -> str:
            self._seen_wrong = self._cloud.wrong and self._cloud.introduced
            self._cloud.introduced = True
            return "stranger" if self._stranger else self._cloud.name

        return self._call("identity", ask)

    def trust(self, identity: str) -> None:
        """Here credentials change only when `identity` is asked: there is nothing to compare."""

    def offered(self, region: str) -> Sequence[ProviderOffering]:
        return self._call(
            "offered", lambda: [self._offer(z, t, m) for z in self._cloud.zones for t in TYPES for m in LISTED_MARKETS]
        )

    def _offer(self, zone: str, name: str, market: Market) -> ProviderOffering:
        gpu, _ = TYPES[name]
        return ProviderOffering(
            type=InstanceType(name=name, gpu=gpu, vcpus=4, memory_gib=Decimal(16)),
            region=REGION,
            zone=zone,
            market=market,
            price_per_hour=list_price(name, market),
            price_as_of=EPOCH,
            price_source="simulated",
        )

    def prices(self, region: str) -> Prices:
        """Of every type and market, as of now."""
        now = time_at(self._cloud.scheduler.now)

        def look() -> Prices:
            prices = self._cloud.prices.items()
            return {key: Price(per_hour=price, as_of=now, source="simulated") for key, price in prices}

        return self._call("prices", look)

    def disk_kinds(self) -> Mapping[str, str]:
        return {"*": "disk"}

    def part_prices(self, region: str) -> Mapping[str, PartPrice]:
        return {}

    def price_list(self) -> Iterator[PricePage]:
        """The same prices: the cloud has one region."""
        prices = self.prices(REGION)
        types = frozenset(name for name, _ in prices)
        yield PricePage(types=types, prices={(REGION, *key): price for key, price in prices.items()})

    def service_quotas(self, region: str) -> Sequence[ServiceQuota]:
        return []

    def reservations(self, region: str) -> Sequence[ObservedReservation]:
        return []

    def image(self, region: str, name: str | None = None, driver: Driver = Driver.NVIDIA) -> Image:
        return self._call("image", lambda: Image(id="image", name="image"))

    # --- machines ---------------------------------------------------------------------------------------------

    def plan(self, spec: LaunchSpec) -> Params:
        return {
            "token": spec.token,
            "zone": spec.zone,
            "type": spec.instance_type,
            "market": str(spec.market),
            "tags": {**spec.owner.as_tags(), "Name": spec.name},
            "agent": None if spec.agent is None else {"token": spec.agent.token, "url": spec.agent.url},
        }

    def launch(self, region: str, params: Params) -> Vm:
        issued = self._process.acting_since()

        def act() -> Vm:
            if self._stranger:
                raise CredentialsRejected("somebody else's", code="AuthFailure")
            return self._vm(self._cloud.launch(params, issued))

        return self._call("launch", act, later=act)

    def find(self, region: str, token: str, owner: OwnerTags) -> Vm | None:
        def look() -> Vm | None:
            for machine in self._known():
                if machine.token == token and machine.key == (owner.lease_id, owner.n):
                    return self._vm(machine)
            return None

        return self._call("find", look)

    def get(self, region: str, vm_ids: Sequence[str]) -> Mapping[str, Vm | None]:
        def look() -> Mapping[str, Vm | None]:
            known = {machine.id: machine for machine in self._known()}
            return {vm_id: self._vm(known[vm_id]) if vm_id in known else None for vm_id in vm_ids}

        return self._call("get", look)

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """An empty or cut listing looks as complete as any."""
        cloud, random = self._cloud, self._cloud.scheduler.random
        started = cloud.scheduler.now
        honest = not (self._stranger or cloud.listing_empty)
        cut = random.random() < cloud.weather.truncated
        silent = frozenset({random.choice(cloud.zones)} if random.random() < cloud.weather.zone_silent else ())
        ids = [machine.id for machine in cloud.machines.values()] if honest else []
        if cut and ids:
            ids = ids[: random.randrange(len(ids))]
        page = max(_PAGE, -(-len(ids) // _MOST_PAGES))
        for start in range(0, max(len(ids), 1), page):
            yield self._call("list", lambda part=ids[start : start + page]: self._page(part, silent))
        self._listed(cloud, honest and not cut and not silent, started)

    def list_everywhere(self, installation: str) -> Iterator[ListingPage]:
        return self.list(frozenset({REGION}), installation)

    def _page(self, ids: Sequence[str], silent: frozenset[str]) -> ListingPage:
        cloud = self._cloud
        found = [cloud.machines[one] for one in ids]
        shown = [m for m in found if m.lists_from <= cloud.scheduler.now and cloud.shows(m) and m.zone not in silent]
        return ListingPage(vms=[self._vm(machine) for machine in shown], unreachable=silent)

    def ready(self, region: str, vm_ids: Sequence[str]) -> frozenset[str]:
        now = self._cloud.scheduler.now
        return self._call(
            "ready", lambda: frozenset(m.id for m in self._known() if m.id in vm_ids and m.ready_from <= now)
        )

    def interruptions(self, regions: frozenset[str], installation: str) -> Sequence[Interruption]:
        def look() -> Sequence[Interruption]:
            noticed = [m for m in self._known() if m.notice_at is not None and m.alive]
            return [
                Interruption(vm_id=m.id, notice_at=time_at(m.notice_at or 0.0), deadline_at=None, action="terminate")
                for m in noticed
            ]

        return self._call("interruptions", look)

    def terminate(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        def act() -> BatchResult:
            known = [m for m in self._known() if m.id in vm_ids]
            for machine in known:
                self._cloud.end(machine, "as asked")
            return BatchResult(done=frozenset(m.id for m in known))

        self._ending(self._cloud, vm_ids)
        for vm_id in vm_ids:
            self._cloud.machines[vm_id].end_asked = True
        return self._call("terminate", act, later=act)

    def set_deadline(self, region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:
        def act() -> BatchResult:
            known = [m for m in self._known() if m.id in vm_ids]
            for machine in known:
                machine.tags[DEADLINE] = str(int(deadline.timestamp()))
            return BatchResult(done=frozenset(m.id for m in known))

        return self._call("set_deadline", act, later=act)

    def reboot(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        def act() -> BatchResult:
            for machine in self._known():
                if machine.id in vm_ids:
                    self._rebooted(machine)
            return BatchResult(done=frozenset(vm_ids))

        return self._call("reboot", act)

    def console_output(self, region: str, vm_id: str) -> str:
        def look() -> str:
            machine = self._cloud.machines[vm_id]
            return "\n".join(["no driver", *(machine.gpus.console if machine.gpus else ())])

        return self._call("console_output", look)

    # --- the rest ---------------------------------------------------------------------------------------------

    def leftovers(self, region: str, installation: str, lease_ids: Sequence[str] | None) -> Leftovers:
        def look() -> Leftovers:
            things = [] if self._stranger else [thing for thing in self._cloud.things.values() if not thing.gone]
            found = [
                Leftover(
                    kind="volume",
                    id=thing.id,
                    region=REGION,
                    tags={key: text for key, text in thing.machine.tags.items() if key in _OWNER},
                    in_use=thing.machine.alive,
                )
                for thing in things
                if lease_ids is None or thing.machine.tags.get(LEASE) in lease_ids
            ]
            return Leftovers(resources=found)

        return self._call("leftovers", look)

    def remove_leftover(self, leftover: Leftover) -> None:
        def act() -> None:
            thing = self._cloud.things[leftover.id]
            if thing.machine.alive:
                raise Violation(f"{thing.id} is removed under a living VM")
            thing.gone = True

        self._call("remove_leftover", act)

    def events(self) -> Sequence[ProviderEvent]:
        return []

    def acknowledge(self, used: Sequence[ProviderEvent]) -> None:
        return None
