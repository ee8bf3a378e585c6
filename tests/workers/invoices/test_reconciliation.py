"""Invoices are imported in whole or not at all, and compared with what leases cost."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from sqlalchemy import delete, func, insert, select, update

from app.db.core.ids import new_id
from app.db.operations import reconciliation
from app.db.schema.tables import installation, invoice_import, invoice_line, usage_record
from app.domain.list_filters import ReconciliationFilter
from app.settings.providers import providers
from tests.db.store import Store
from tests.workers.invoices.exports import Export, disk_id, instance_id
from workers.invoices import command
from workers.invoices.files import InvalidFile
from workers.invoices.importing import AlreadyImported, ImportSummary, import_files
from workers.jobs.housekeeping import recount_charges
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

MONTH = date(2026, 10, 1)
DIALECTS = {name: info.focus for name, info in providers().items() if info.focus is not None}
CLOUDS = pytest.mark.parametrize("cloud", sorted(DIALECTS))


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    database = WorkerDatabase(database_url, pool_size=4)
    yield Store(database)
    database.close()


def used(store: Store, cloud: str, number: int, day: int, cost: str) -> str:
    """An hour of a VM in which it cost so much. Returns the lease."""
    lease_id = store.lease(name=f"lease-{number}")
    values: dict[str, Any] = dict.fromkeys(("account", "region", "zone", "instance_type", "market"), "x")
    values |= dict.fromkeys(("list_cost", "disk_gib_hours", "gpu_hours", "price_per_hour"), 0)
    parts = {"compute_cost": Decimal(cost) - 1, "disk_cost": Decimal("0.9"), "address_cost": Decimal("0.1")}
    about = {"lease_id": lease_id, "tenant_id": store.tenant_id, "lease_name": "t", "n": 1, "labels": {}, "revision": 0}
    place = {"provider": cloud, "instance_id": instance_id(cloud, number), "starts_at": at(day), "seconds": 3600}
    store.run(insert(usage_record).values(attempt_id=new_id("attempt"), **about, **place, **parts, **values))
    return lease_id


def used_volume(store: Store, cloud: str, number: int, day: int, cost: str) -> str:
    """An hour of a volume, as its job records it. Returns the volume."""
    volume_id = new_id("vol")
    values: dict[str, Any] = dict.fromkeys(("account", "region", "zone", "market"), "x")
    values |= dict.fromkeys(("seconds", "compute_cost", "address_cost", "list_cost", "gpu_hours", "n", "revision"), 0)
    about = {"attempt_id": volume_id, "lease_id": volume_id, "lease_name": "data", "labels": {}}
    disk = {"instance_type": "volume", "instance_id": disk_id(cloud, number), "price_per_hour": Decimal(cost)}
    place = {"provider": cloud, "starts_at": at(day), "tenant_id": store.tenant_id}
    store.run(
        insert(usage_record).values(
            **values, **about, **disk, **place, disk_cost=Decimal(cost), disk_gib_hours=Decimal(100)
        )
    )
    return volume_id


def at(day: int) -> datetime:
    return datetime(2026, 10, day, 23, tzinfo=UTC)


def load(store: Store, *paths: Path, provider: str | None = None) -> ImportSummary:
    return import_files(store.database, paths, DIALECTS, provider=provider, progress=lambda _: None)


def report(store: Store, **wanted: Any) -> list[Any]:
    return store.all(reconciliation.items(ReconciliationFilter(month=MONTH, **wanted), after=None, limit=100))


def ours(store: Store) -> str:
    found = store.first(select(installation.c.id))
    assert found is not None
    return str(found.id)


@CLOUDS
def test_a_foreign_row_a_missing_charge_and_another_price_are_found(store: Store, tmp_path: Path, cloud: str) -> None:
    dearer, uncharged = used(store, cloud, 1, 5, "20"), used(store, cloud, 2, 5, "7")
    export = Export(cloud)
    export.vm(1, 5, "15", installation=ours(store), lease=dearer).vm(1, 5, "5")
    export.disk(1, 5, "1", installation=ours(store), lease=dearer)
    export.vm(3, 6, "9", installation=ours(store), lease="lease_unknown")
    export.vm(4, 6, "3", installation="another").add("", 6, "0.5", {})
    done = load(store, export.write(tmp_path / "focus.csv"))
    assert (done.provider, done.month, done.lines, done.stored) == (cloud, MONTH, 6, 5)
    assert (done.unlisted, done.unlisted_cost, done.gpulease_only) == (1, Decimal(9), 1)
    rows = {row.kind + str(row.ours): row for row in report(store)}
    assert rows.keys() == {"matchedTrue", "gpulease_onlyTrue", "cloud_onlyTrue", "cloud_onlyFalse"}
    matched, missing = rows["matchedTrue"], rows["gpulease_onlyTrue"]
    assert (matched.lease_id, matched.estimated, matched.invoiced) == (dearer, 20, 21)
    assert (matched.invoiced - matched.estimated) / matched.estimated == Decimal("0.05")
    assert (matched.resource_id, matched.day) == (instance_id(cloud, 1), date(2026, 10, 5))
    assert (missing.lease_id, missing.estimated, missing.invoiced) == (uncharged, 7, 0)
    assert (rows["cloud_onlyTrue"].invoiced, rows["cloud_onlyTrue"].lease_id) == (9, "lease_unknown")
    (imported,) = store.rows(invoice_import)
    assert (imported.unlisted_resources, imported.unlisted_cost, imported.lines) == (1, 9, 6)
    totals = {row.tenant_id: row for row in store.all(reconciliation.totals(ReconciliationFilter(month=MONTH)))}
    mine, nobodys = totals[store.tenant_id], totals[None]
    assert (mine.estimated, mine.invoiced, mine.gpulease_only, mine.cloud_only) == (27, 21, 1, 0)
    assert (nobodys.invoiced, nobodys.cloud_only, nobodys.unlisted) == (12, 2, 1)
    assert [row.lease_id for row in report(store, kind="gpulease_only", tenant_id=store.tenant_id)] == [uncharged]


@CLOUDS
def test_charges_for_volumes_are_theirs_and_those_for_copies_of_their_disks_are_not(
    store: Store, tmp_path: Path, cloud: str
) -> None:
    """The second is charged the day after its end, the third is not charged. A fourth disk has the tags of the first."""
    first, late, uncharged = (used_volume(store, cloud, number, 5, "0.02") for number in (1, 2, 3))
    tags = {"installation": ours(store)}
    export = Export(cloud).volume(1, 5, "0.03", **tags, volume=first).volume(2, 6, "0.01", **tags)
    export.volume(4, 5, "0.04", **tags, volume=first).volume(5, 5, "0.05", **tags, volume="vol_unknown")
    done = load(store, export.write(tmp_path / "focus.csv"))
    assert (done.stored, done.unlisted, done.unlisted_cost) == (4, 2, Decimal("0.09"))
    rows = {(row.kind, row.volume_id, row.day.day, row.estimated, row.invoiced, row.lease_id) for row in report(store)}
    paid = Decimal("0.02")
    assert rows == {
        ("matched", first, 5, paid, Decimal("0.03"), None),
        ("gpulease_only", late, 5, paid, 0, None),
        ("matched", late, 6, 0, Decimal("0.01"), None),
        ("gpulease_only", uncharged, 5, paid, 0, None),
        ("cloud_only", first, 5, 0, Decimal("0.04"), None),
        ("cloud_only", "vol_unknown", 5, 0, Decimal("0.05"), None),
    }
    assert {row.leases for row in store.all(reconciliation.totals(ReconciliationFilter(month=MONTH)))} == {0}


@CLOUDS
def test_the_same_file_is_imported_once_and_a_newer_one_replaces_it(store: Store, tmp_path: Path, cloud: str) -> None:
    used(store, cloud, 1, 5, "20")
    first = Export(cloud).vm(1, 5, "19").write(tmp_path / "first.csv")
    load(store, first)
    with pytest.raises(AlreadyImported, match="was imported at"):
        load(store, first)
    newer = Export(cloud).vm(1, 5, "20").write(tmp_path / "newer.csv.gz")
    assert load(store, newer).replaced == 1
    assert [row.invoiced for row in report(store)] == [20]
    with pytest.raises(AlreadyImported, match="replaced by a newer file"):
        load(store, first)
    other = Export(cloud, account="payer-2").vm(2, 5, "4").write(tmp_path / "other.csv")
    assert load(store, other).replaced == 0
    assert sorted(row.invoiced for row in report(store)) == [4, 20]


def test_the_parts_of_an_export_are_one_import_in_any_order(store: Store, tmp_path: Path) -> None:
    used(store, "aws", 1, 5, "20")
    one = Export("aws").vm(1, 5, "12").write(tmp_path / "1.csv")
    two = Export("aws").vm(1, 5, "8").write(tmp_path / "2.csv")
    load(store, one, two)
    assert [row.invoiced for row in report(store)] == [20]
    with pytest.raises(AlreadyImported):
        load(store, two, one)


def test_parquet_is_read_like_csv(store: Store, tmp_path: Path) -> None:
    used(store, "aws", 1, 5, "20")
    (row,) = Export("aws").vm(1, 5, "20").rows
    times = {name: [datetime(2026, 10, 5, 3, tzinfo=UTC)] for name in ("BillingPeriodStart", "ChargePeriodStart")}
    tags = pa.array([[("user:gpulease-installation", ours(store))]], pa.map_(pa.string(), pa.string()))
    columns = {**{name: [value] for name, value in row.items()}, **times, "EffectiveCost": [20.5]}
    parquet.write_table(pa.table({**columns, "Tags": tags}), tmp_path / "focus.parquet")
    assert load(store, tmp_path / "focus.parquet").stored == 1
    assert [(row.kind, row.invoiced) for row in report(store)] == [("matched", Decimal("20.5"))]
    (line,) = store.rows(invoice_line)
    assert line.installation == ours(store)


def test_a_charge_a_day_beside_the_use_is_the_leases_and_a_later_one_is_not(store: Store, tmp_path: Path) -> None:
    used(store, "gcp", 1, 5, "20")
    export = Export("gcp").vm(1, 5, "20").vm(1, 6, "0.1", installation=ours(store))
    load(store, export.vm(1, 9, "8", installation=ours(store)).write(tmp_path / "focus.csv"))
    kinds = [(row.kind, row.day.day, row.estimated, row.invoiced) for row in report(store)]
    assert kinds == [("matched", 5, 20, 20), ("matched", 6, 0, Decimal("0.1")), ("cloud_only", 9, 0, 8)]


def test_days_and_clouds_that_no_file_reaches_are_not_compared(store: Store, tmp_path: Path) -> None:
    used(store, "aws", 1, 5, "20")
    used(store, "aws", 2, 8, "20")
    used(store, "gcp", 3, 5, "20")
    load(store, Export("aws").vm(1, 5, "20").write(tmp_path / "focus.csv"))
    assert [(row.kind, row.day.day) for row in report(store)] == [("matched", 5)]


def broken(column: str, value: str) -> Export:
    export = Export("aws").vm(1, 5, "20").vm(2, 5, "7")
    export.rows[1][column] = value
    return export


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("EffectiveCost", "7,5", r"line 3: EffectiveCost is '7,5', which is not a number"),
        ("EffectiveCost", "NaN", r"line 3: EffectiveCost is 'NaN', which is not a finite number"),
        ("ChargePeriodStart", "yesterday", r"line 3: ChargePeriodStart is 'yesterday', which is not a time"),
        ("BillingCurrency", "EUR", r"line 3: BillingCurrency is EUR: only costs in USD"),
        ("Tags", "{no", r"line 3: Tags is '\{no', which is not JSON"),
        ("ChargeCategory", "", r"line 3: ChargeCategory is empty"),
        (
            "BillingPeriodStart",
            "2026-11-01T00:00:00Z",
            r"line 3: BillingPeriodStart is in 2026-11.*one month at a time",
        ),
        ("ProviderName", "Microsoft", r"line 3: ProviderName is that of azure"),
    ],
)
def test_bad_input_names_line_and_column_and_nothing_is_imported(
    store: Store, tmp_path: Path, column: str, value: str, message: str
) -> None:
    path = broken(column, value).write(tmp_path / "focus.csv")
    with pytest.raises(InvalidFile, match=message):
        load(store, path)
    assert (store.rows(invoice_import), store.rows(invoice_line)) == ([], [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: ProviderName|line 1: there is no column|has no lines"),
        (b"a,b\n1,2\n", r"line 2: ProviderName is none of aws, azure, gcp: name one with --provider"),
        (b"ProviderName,Tags\nAWS\n", r"line 2: has 1 values, and the header has 2"),
        (b'ProviderName,Tags\nAWS,"x', r"line 2: is no CSV"),
        (b"ProviderName,Tags\nAWS,\xff\n", r"line 2: is not UTF-8|line 1: is not UTF-8"),
        (b"\x1f\x8bno gzip at all", "cannot be read"),
        (b"PAR1 no parquet", "cannot be read"),
        (b"ProviderName,Tags\nAWS,\n", r"line 1: there is no column BillingAccountId, no column BillingPeriodStart"),
    ],
)
def test_a_file_that_is_none_is_refused(store: Store, tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "focus").write_bytes(content)
    with pytest.raises(InvalidFile, match=message):
        load(store, tmp_path / "focus")


def test_the_command_reports_and_its_exit_code_tells_of_an_alarm(
    store: Store, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPULEASE_DATABASE_URL", database_url)
    used(store, "aws", 1, 5, "20")
    fine = Export("aws").vm(1, 5, "20").write(tmp_path / "fine.csv")
    assert command.main(["--file", str(fine)]) == 0
    assert "imported 1 lines of aws for 2026-10" in capsys.readouterr().out
    assert command.main(["--file", str(fine)]) == 2
    assert "was imported at" in capsys.readouterr().err
    alarm = Export("aws").vm(3, 5, "20", installation=ours(store)).write(tmp_path / "alarm.csv")
    assert command.main(["--file", str(alarm), "--provider", "aws"]) == 1
    assert (
        "ALARM: 1 resources of this installation belong to no lease or volume and cost 20.00 USD"
        in capsys.readouterr().out
    )
    assert command.main(["--file", str(tmp_path / "missing.csv")]) == 2


@pytest.mark.parametrize("names", [("1.csv", "1.csv"), ("1.csv", "1.csv.gz"), ("1.csv.gz", "copy.csv.gz")])
def test_the_same_part_twice_is_refused(store: Store, tmp_path: Path, names: tuple[str, str]) -> None:
    export = Export("aws").vm(1, 5, "19")
    paths = [export.write(tmp_path / name) for name in names]
    with pytest.raises(InvalidFile, match=r"has the same content as .*1\.csv.*name each part of an export once"):
        load(store, *paths)
    assert store.rows(invoice_import) == []


def test_a_gzipped_copy_is_the_same_file(store: Store, tmp_path: Path) -> None:
    export = Export("aws").vm(1, 5, "19")
    load(store, export.write(tmp_path / "1.csv"))
    with pytest.raises(AlreadyImported):
        load(store, export.write(tmp_path / "1.csv.gz"))


def test_a_replacement_with_less_says_so(store: Store, tmp_path: Path) -> None:
    whole = Export("aws").vm(1, 5, "19").vm(2, 6, "19").vm(3, 6, "1")
    assert load(store, whole.write(tmp_path / "whole.csv")).shrunk == ()
    part = load(store, Export("aws").vm(1, 5, "20").write(tmp_path / "part.csv"))
    assert part.shrunk == ("payer-1: 1 charges on 1 days replace 3 charges on 2 days",)
    assert "WARNING: payer-1: 1 charges" in command.report(part)
    more = Export("aws").vm(1, 5, "20").vm(2, 6, "20")
    assert load(store, more.write(tmp_path / "more.csv")).shrunk == ()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("EffectiveCost", "1E+200000", r"line 3: EffectiveCost is '1E\+200000', which has more than 12 digits"),
        ("EffectiveCost", "-1e12", r"line 3: EffectiveCost is '-1e12', which has more than 12 digits"),
        ("Tags", "[" * 200_000, r"line 3: Tags is '\[+', which is nested too deeply"),
        ("Tags", '{"a":' * 200_000, r"line 3: Tags is .*, which is nested too deeply"),
        ("Tags", '{"user_gpulease_lease": "a\\u0000b"}', r"line 3: Tags is .*no text"),
        ("Tags", '{"user_gpulease_lease": "a\\ud800b"}', r"line 3: Tags is .*no text"),
        ("ChargePeriodStart", "0001-01-01T00:00:00Z", r"line 3: ChargePeriodStart is on 0001-01-01, more than a month"),
        ("ChargePeriodStart", "9999-12-31T00:00:00Z", r"line 3: ChargePeriodStart is on 9999-12-31, more than a month"),
        ("ChargePeriodStart", "2026-08-31T00:00:00Z", r"line 3: ChargePeriodStart is on 2026-08-31, more than a month"),
        ("ResourceId", "i-1\0", r"line 3: ResourceId is 'i-1\\x00', with a character that is no text"),
        ("ServiceName", "\0", r"line 3: ServiceName is"),
        ("BillingAccountId", "a\0", r"line 3: BillingAccountId is"),
    ],
)
def test_values_out_of_bounds_name_line_and_column(
    store: Store, tmp_path: Path, column: str, value: str, message: str
) -> None:
    path = broken(column, value).write(tmp_path / "focus.csv")
    with pytest.raises(InvalidFile, match=message):
        load(store, path)
    assert (store.rows(invoice_import), store.rows(invoice_line)) == ([], [])


@pytest.mark.parametrize(
    "value", ["0E+200000", "1E-200000", "0.0000000000000000000001", "999999999999.123456789012345"]
)
def test_small_and_large_amounts_are_stored(store: Store, tmp_path: Path, value: str) -> None:
    assert load(store, broken("EffectiveCost", value).write(tmp_path / "focus.csv")).lines == 2


def test_a_charge_of_the_month_before_reaches_no_day(store: Store, tmp_path: Path) -> None:
    used(store, "aws", 1, 5, "20")
    used(store, "aws", 2, 2, "20")
    path = broken("ChargePeriodStart", "2026-09-30T00:00:00Z").write(tmp_path / "focus.csv")
    load(store, path)
    (imported,) = store.rows(invoice_import)
    assert (imported.first_day, imported.last_day) == (date(2026, 10, 5), date(2026, 10, 5))
    assert [row.day.day for row in report(store)] == [5]


def metric(store: Store) -> int:
    """As /metrics would have it in that month."""
    rows = [row for row in store.rows(invoice_import) if row.replaced_at is None]
    return sum(row.unlisted_resources for row in rows)


def reported(store: Store) -> tuple[int, Decimal]:
    rows = store.all(reconciliation.totals(ReconciliationFilter(month=MONTH)))
    return sum(row.unlisted for row in rows), sum((row.unlisted_cost for row in rows), Decimal(0))


def test_an_alarm_is_of_the_file_with_the_fault(store: Store, tmp_path: Path) -> None:
    orphan = Export("aws").vm(3, 6, "9", installation=ours(store))
    assert load(store, orphan.write(tmp_path / "aws.csv")).unlisted == 1
    for number, cloud in enumerate(("gcp", "azure"), 1):
        used(store, cloud, number, 5, "20")
        done = load(store, Export(cloud).vm(number, 5, "20").write(tmp_path / f"{cloud}.csv"))
        assert (done.unlisted, done.unlisted_cost) == (0, 0)
        assert (metric(store), reported(store)) == (1, (1, Decimal(9)))


@CLOUDS
def test_an_orphan_that_the_provider_has_refunded_is_no_alarm(store: Store, tmp_path: Path, cloud: str) -> None:
    """Whole or in parts, and on another day. What is not refunded entirely still is one."""
    export = Export(cloud)
    for machine, days in ((3, {6: "1.25", 7: "-1.25"}), (4, {6: "2", 7: "-0.5"}), (5, {6: "1", 7: "-0.5", 8: "-0.5"})):
        for day, cost in days.items():
            export.vm(machine, day, cost, installation=ours(store))
    done = load(store, export.write(tmp_path / "focus.csv"))
    assert (done.unlisted, done.unlisted_cost) == (1, Decimal("1.5"))
    assert (metric(store), reported(store)) == (1, (1, Decimal("1.5")))


IMPORTS = st.lists(
    st.tuples(
        st.sampled_from(["aws", "gcp"]),
        st.sets(st.sampled_from(["payer-1", "payer-2", "payer-3"]), min_size=1),
        st.sets(st.integers(1, 4), min_size=1),
    ),
    min_size=1,
    max_size=6,
)


@given(IMPORTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_metric_is_the_report_after_any_order_of_imports(
    store: Store, tmp_path: Path, imports: list[tuple[str, set[str], set[int]]]
) -> None:
    """Files of several accounts, corrections of them, and orphans that a later file no longer has. VM 1 has a lease."""
    for table in (invoice_line, invoice_import):
        store.run(delete(table))
    if not store.rows(usage_record):
        used(store, "aws", 1, 5, "20")
    installation_id = ours(store)
    for number, (cloud, accounts, machines) in enumerate(imports):
        parts = [Export(cloud, account=account) for account in sorted(accounts)]
        for part in parts:
            for machine in sorted(machines):
                part.vm(machine, 5, f"{number + 1}", installation=installation_id)
        whole = Export(cloud, rows=[row for part in parts for row in part.rows])
        done = load(store, whole.write(tmp_path / f"{number}.csv"))
        assert done.unlisted == len({machine for machine in machines if (cloud, machine) != ("aws", 1)})
        count, cost = reported(store)
        assert metric(store) == count
        assert sum(row.unlisted_cost for row in store.rows(invoice_import)) == cost


def test_a_charge_that_finds_its_lease_leaves_the_metric_without_another_import(store: Store, tmp_path: Path) -> None:
    ours_is = ours(store)
    load(
        store,
        Export("aws").vm(1, 5, "9", installation=ours_is).vm(2, 5, "7", installation=ours_is).write(tmp_path / "x.csv"),
    )
    store.run(update(invoice_import).values(month=func.date_trunc("month", func.now())))
    days = {"day": invoice_line.c.day + (func.current_date() - date(2026, 10, 5))}
    store.run(update(invoice_line).values(**days))
    runtime = cast(Runtime, SimpleNamespace(database=store.database))
    assert (recount_charges(runtime), metric(store)) == (1, 2)
    used(store, "aws", 1, 5, "20")
    store.run(update(usage_record).values(starts_at=func.date_trunc("day", func.now())))
    assert (recount_charges(runtime), metric(store)) == (1, 1)
    used(store, "aws", 2, 5, "20")
    store.run(update(usage_record).values(starts_at=func.date_trunc("day", func.now())))
    assert (recount_charges(runtime), metric(store)) == (1, 0)
    assert recount_charges(runtime) == 0
