"""A backup is restored while VMs run: nothing that a tenant uses is ended, whatever is created before the first listing."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import text

from app.domain.ids import LeaseId
from app.local import embedded_postgres
from tests.harness.databases import Databases
from tests.workers.cloud_samples import CloudSample
from tests.workers.fleet import ACCOUNT, Fleet
from tests.workers.virtual_time import VirtualTime, virtual
from workers.observation.inventory import take_inventory

Start = Callable[..., Fleet]


@dataclass
class Backups:
    """Dumps of the test's database, restored into databases of their own on the same server."""

    databases: Databases
    folder: Path
    time: VirtualTime
    restored: list[str] = field(default_factory=list)
    times: ExitStack = field(default_factory=ExitStack)

    def take(self) -> Path:
        """What docs/howto/backup.md does, without the tables that the tests keep."""
        dump = self.folder / "gpulease.dump"
        self._run("pg_dump", "--schema=public", "--format=custom", f"--file={dump}", self.databases.owner_url)
        return dump

    def restore(self, dump: Path) -> str:
        """The URL of the program's role into a new database with the rows of the dump."""
        name = f"{urlsplit(self.databases.url).path[1:]}_restored_{len(self.restored)}"
        owner = urlsplit(self.databases.url).username
        with psycopg.connect(self.databases.owner_url, autocommit=True) as connection:
            make = sql.SQL("CREATE DATABASE {} OWNER {}")
            connection.execute(make.format(sql.Identifier(name), sql.Identifier(str(owner))))
            self.restored.append(name)
        with psycopg.connect(self._url(self.databases.owner_url, name), autocommit=True) as connection:
            connection.execute("DROP SCHEMA public")  # the dump brings its own
        owner_url = self._url(self.databases.owner_url, name)
        self.times.enter_context(self.time.of(owner_url))
        self._run("pg_restore", "--exit-on-error", f"--dbname={owner_url}", str(dump))
        return virtual(self._url(self.databases.url, name))

    def close(self) -> None:
        self.times.close()
        with psycopg.connect(self.databases.owner_url, autocommit=True) as connection:
            for name in self.restored:
                connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    @staticmethod
    def _url(url: str, name: str) -> str:
        return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))

    @staticmethod
    def _run(name: str, *arguments: str) -> None:
        argv = [str(embedded_postgres.program(name)), *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def backups(databases: Databases, tmp_path: Path, virtual_time: VirtualTime) -> Iterator[Backups]:
    made = Backups(databases, tmp_path, virtual_time)
    yield made
    made.close()


def take(fleet: Fleet) -> None:
    take_inventory(fleet.runtime, ACCOUNT, fleet.listed_region)


def own_id(row: Any) -> str:
    """The id of a lease's VM as the cloud itself has it."""
    return str(row.placement["instance_id"].rpartition(":")[2])


def expire_soon(fleet: Fleet, lease_id: LeaseId) -> None:
    """The term as it was asked for is nearly over."""
    statement = "UPDATE lease SET expires_at = now() + interval '1 second', deadline_applied = NULL, next_due = now()"
    fleet.runtime.database.run(text(f"{statement} WHERE id = '{lease_id}'"))


def settle(fleet: Fleet) -> None:
    while fleet.step():
        pass


def test_a_restored_backup_ends_nothing_that_a_tenant_uses(
    start_at_cloud: Start, cloud: CloudSample, backups: Backups
) -> None:
    """One lease is extended after the backup, one is created after it; and one is created after the restore, at once."""
    before = start_at_cloud()
    extended = before.active(**cloud.request)
    expire_soon(before, extended)
    settle(before)
    dump = backups.take()
    before.extend(extended, 7200)
    before.make_due(extended)
    settle(before)
    lost = before.create(**cloud.request, name="train")
    before.drive_to(lost, "active", "failed")
    promised = before.lease(extended)
    vms = {lease_id: own_id(before.lease(lease_id)) for lease_id in (extended, lost)}
    before.drive(lambda: before.lease(extended).deadline_applied == promised.expires_at + timedelta(seconds=1800))
    before.let_pass(1.0)

    after = start_at_cloud(database_url=backups.restore(dump), observe=False)
    assert after.lease(lost) is None
    created = after.create(**cloud.request)
    settle(after)
    assert after.lease(extended).state == "active", "nothing expires before the tags have been read"
    for _ in range(4):
        take(after)
        settle(after)
        after.let_pass(0.2)
    assert after.hold() is not None
    assert [(one.cause, one.state, one.lease_id) for one in after.orphans()] == [("lost_row", "seen", lost)]
    assert all(map(after.is_alive, vms.values()))
    assert after.lease(created).state == "queued", "no launch under the hold"

    after.resume()
    for _ in range(4):
        take(after)
        settle(after)
        after.let_pass(0.2)
    assert after.hold() is None, "an operator has seen the orphan"
    assert all(map(after.is_alive, vms.values())), "also of a lease that nobody has adopted"
    assert after.lease(extended).state == "active"
    assert abs((after.lease(extended).expires_at - promised.expires_at).total_seconds()) < 1

    after.adopt()
    take(after)
    again = after.drive_to(lost, "active", "failed")
    assert (again.state, again.name, own_id(again)) == ("active", "train", vms[lost])
    assert after.drive_to(created, "active", "failed").state == "active"
    for lease_id in (extended, lost, created):
        after.end(lease_id)
        assert after.drive_to(lease_id, "released", "failed").state == "released"
    assert after.vms() == []
    assert after.used() == {}


def lose_extension(fleet: Fleet, lease_id: LeaseId) -> Any:
    """The database goes back to a time before the lease was extended; its old term is over. The row as it was."""
    before = fleet.lease(lease_id)
    old = (
        "expires_at = now() - interval '1 second', deadline_applied = now() + interval '1799 seconds', next_due = now()"
    )
    fleet.runtime.database.run(text(f"UPDATE lease SET {old} WHERE id = '{lease_id}'"))
    return before


def test_no_lease_expires_after_a_hold_before_its_tag_was_read(fleet: Fleet) -> None:
    """An operator resumes before the first listing, or the listing of one region fails for long."""
    lease_id = fleet.active()
    before = lose_extension(fleet, lease_id)
    fleet.put_on_hold()
    fleet.resume()
    settle(fleet)
    assert fleet.lease(lease_id).state == "active"
    assert 0 < fleet.rests(lease_id) <= 30
    fleet.sim.fault("DescribeInstances", "error", code="InternalError", times=None)
    fleet.observe()
    fleet.make_due(lease_id)
    settle(fleet)
    assert fleet.lease(lease_id).state == "active"
    fleet.sim.clear_faults()
    take(fleet)
    settle(fleet)
    after = fleet.lease(lease_id)
    assert (after.state, after.expires_at) == ("active", before.expires_at.replace(microsecond=0))
    assert after.deadline_applied == after.expires_at + timedelta(seconds=1800)
    assert fleet.events(lease_id)[-1] == "lease.extended"
    assert fleet.sim.calls().get("CreateTags", 0) == 0, "the tag was right"


def test_a_lease_that_nobody_had_extended_expires_once_its_tag_was_read(fleet: Fleet) -> None:
    lease_id = fleet.active()
    lose_extension(fleet, lease_id)
    (vm,) = fleet.vms()
    fleet.runtime.accounts.provider(ACCOUNT).set_deadline(
        fleet.listed_region, [vm["id"]], fleet.lease(lease_id).deadline_applied
    )
    fleet.put_on_hold()
    fleet.resume()
    settle(fleet)
    assert fleet.lease(lease_id).state == "active"
    assert fleet.drive_to(lease_id, "released").reason["code"] == "expired"


def test_a_release_is_stronger_than_a_later_tag(fleet: Fleet) -> None:
    lease_id = fleet.active()
    fleet.put_on_hold()
    fleet.end(lease_id)
    lose_extension(fleet, lease_id)
    expires_at = fleet.lease(lease_id).expires_at
    take(fleet)
    assert fleet.lease(lease_id).expires_at == expires_at
    fleet.resume()
    assert fleet.drive_to(lease_id, "released").state == "released"


def test_two_installations_on_one_account_leave_each_others_vms_alone(
    start_at_cloud: Start, cloud: CloudSample, backups: Backups
) -> None:
    url = backups.restore(backups.take())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "UPDATE installation SET id = 'gpl-another', token_key = sha256('another'), database_identity = NULL, "
            "system_identifier = NULL, timeline = NULL"
        )
    ours, theirs = start_at_cloud(), start_at_cloud(database_url=url)
    mine, other = ours.active(**cloud.request), theirs.active(**cloud.request)
    vms = {fleet: own_id(fleet.lease(lease_id)) for fleet, lease_id in ((ours, mine), (theirs, other))}

    def look(times: int) -> None:
        for _ in range(times):
            for fleet in (ours, theirs):
                take(fleet)
                settle(fleet)
                fleet.let_pass(2 * fleet.runtime.settings.rowless_grace_seconds)

    look(4)
    assert all(fleet.is_alive(vm_id) for fleet, vm_id in vms.items())
    assert [(fleet.orphans(), fleet.hold()) for fleet in vms] == [([], None), ([], None)]
    ours.end(mine)
    ours.drive_to(mine, "released")
    look(2)
    assert not ours.is_alive(vms[ours])
    assert theirs.is_alive(vms[theirs])
    assert theirs.lease(other).state == "active"
