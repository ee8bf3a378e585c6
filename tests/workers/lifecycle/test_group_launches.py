"""How members of a group are launched: together, in one place, and with what they need to find each other."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import func, insert, select, text, update

from app.db.core.ids import new_id
from app.db.fleet import jobs
from app.db.schema.tables import attempt, lease, lease_group
from app.domain.ids import LeaseId
from app.domain.tokens import agent_hash
from cloudsim.user_data import first_boot
from tests.workers.fleet import ACCOUNT, REGION, REQUEST, Fleet
from workers.jobs.runner import PeriodicRunner, ensure_jobs
from workers.jobs.schedule import job_specs
from workers.observation.leftovers import sweep_leftovers
from workers.providers.aws.adapter import AwsProvider
from workers.providers.types import BatchLaunched, Params, Vm

POOL = {"account": ACCOUNT, "region": REGION, "zone": f"{REGION}a", "instance_type": "g5.xlarge", "market": "on_demand"}
URL = "https://gpu.example.org"
PAUSE = """
    SELECT extract(epoch FROM next_due - last_started_at)::float8 AS pause FROM periodic_job WHERE kind = 'leftovers'
    """


def members(fleet: Fleet, size: int, name: str = "train", **changes: Any) -> tuple[str, list[LeaseId]]:
    """The id of a group that forms in one pool, and its members."""
    group_id = new_id("group")
    leases = [fleet.create(name=f"{name}-{rank}", wait_seconds=600, **changes) for rank in range(size)]
    shown = {"size": size, "min_size": size, "placement": "cluster", "interconnect": "preferred"}
    terms = {"form_seconds": 900, "on_member_loss": "end", "wait_until": func.now(), "next_due": None}
    with fleet.runtime.database.begin() as connection:
        connection.execute(
            insert(lease_group).values(
                id=group_id,
                tenant_id=fleet.tenant_id,
                name=name,
                lease=REQUEST,
                state="forming",
                pool=POOL,
                pool_started_at=func.now(),
                **shown,
                **terms,
            )
        )
        for rank, lease_id in enumerate(leases):
            values = {"group_id": group_id, "rank": rank, "group_pool": POOL}
            connection.execute(update(lease).where(lease.c.id == lease_id).values(**values))
    return group_id, leases


def drive_all(fleet: Fleet, leases: Sequence[LeaseId], state: str) -> None:
    fleet.drive_all_to(leases, state)


def shared(fleet: Fleet) -> set[str]:
    return {one["kind"] for one in fleet.sim.resources() if "gpulease-shared" in one["tags"]}


def settings_in(params: Params) -> Any:
    """What the program in the VM reads, as the user data have it."""
    files = {one["path"]: one["content"] for one in first_boot(params["UserData"]).config.get("write_files", [])}
    text = files.get("/etc/gpulease/group.json")
    return None if text is None else json.loads(text)


def test_members_of_one_group_take_one_call_and_share_a_placement(fleet: Fleet) -> None:
    first, of_first = members(fleet, 5)
    second, of_second = members(fleet, 3, "tune")
    drive_all(fleet, [*of_first, *of_second], "active")
    assert (fleet.runs(), len(fleet.vms())) == (2, 8)
    groups = [vm["tags"]["gpulease-group"] for vm in fleet.vms()]
    assert {group: groups.count(group) for group in groups} == {first: 5, second: 3}
    assert shared(fleet) == {"placement_group", "security_group"}
    assert fleet.sim.calls()["CreatePlacementGroup"] == 2


def group_without_members(fleet: Fleet) -> str:
    """A group that has not ended, and whose members are released."""
    group_id, leases = members(fleet, 2)
    drive_all(fleet, leases, "active")
    for lease_id in leases:
        fleet.end(lease_id)
    drive_all(fleet, leases, "released")
    return group_id


def end_group(fleet: Fleet, group_id: str) -> None:
    ended = {"state": "ended", "ended_at": func.now()}
    fleet.runtime.database.run(update(lease_group).where(lease_group.c.id == group_id).values(**ended))


def test_what_members_share_stays_until_the_group_has_ended(fleet: Fleet) -> None:
    group_id = group_without_members(fleet)
    fleet.observe()
    assert sweep_leftovers(fleet.runtime, ACCOUNT, REGION) == 0
    assert shared(fleet) == {"placement_group", "security_group"}
    end_group(fleet, group_id)
    assert sweep_leftovers(fleet.runtime, ACCOUNT, REGION) == 2
    assert shared(fleet) == set()


def test_a_sweep_that_removed_something_is_soon_followed_by_another(fleet: Fleet) -> None:
    """A group's resources go one after the other where one of them names another."""
    end_group(fleet, group_without_members(fleet))
    database = fleet.runtime.database
    sweeping = {"leftovers": job_specs(fleet.runtime.settings).refresh["leftovers"]}
    ensure_jobs(fleet.runtime, sweeping)
    pauses = []
    for _ in range(2):
        database.run(jobs.hurry("leftovers", [(ACCOUNT, REGION)]))
        assert PeriodicRunner(fleet.runtime, sweeping).run_one()
        pauses += [row.pause for row in database.all(text(PAUSE))]
    assert shared(fleet) == set()
    interval = fleet.runtime.settings.inventory_interval
    assert pauses == [interval, 10 * interval]


class Recording(AwsProvider):
    """Keeps the parameters of the create calls."""

    sent: list[Params]

    def launch(self, region: str, params: Params) -> Vm:
        self.sent.append(params)
        return super().launch(region, params)

    def launch_batch(self, region: str, params: Params) -> BatchLaunched:
        self.sent.append(params)
        return super().launch_batch(region, params)


def test_a_vm_asks_with_the_token_that_the_database_knows(make_fleet: Callable[..., Fleet]) -> None:
    Recording.sent = []
    fleet = make_fleet(connect_account=Recording, agent="on", public_url=URL, launch_batch=1)
    _, (lease_id, other) = members(fleet, 2, proof="off")
    drive_all(fleet, [lease_id, other], "active")
    found = [settings_in(params) for params in Recording.sent]
    assert {one["url"] for one in found} == {f"{URL}/v1/group-hosts"}
    assert len({one["ssh"]["private"] for one in found}) == 1, "all members have the group's key"
    hashes = {row.agent_hash for row in fleet.runtime.database.all(select(attempt.c.agent_hash))}
    assert {agent_hash(one["token"]) for one in found} == hashes


def test_where_no_vm_runs_an_agent_no_member_asks(make_fleet: Callable[..., Fleet]) -> None:
    Recording.sent = []
    fleet = make_fleet(connect_account=Recording, agent="off", public_url=URL)
    _, leases = members(fleet, 2)
    drive_all(fleet, leases, "active")
    assert [settings_in(params) for params in Recording.sent] == [None]
    assert {row.agent_hash for row in fleet.runtime.database.all(select(attempt.c.agent_hash))} == {None}
