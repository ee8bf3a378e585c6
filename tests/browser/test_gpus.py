"""GPUs in the dashboard: sparklines, charts, the check, idleness and the heat map. The samples are made up here."""

import json
import re
from datetime import timedelta
from typing import Any

from playwright.sync_api import expect

from app.cli.render import times
from tests.browser.test_every_view import look_at
from tests.browser.test_money import computed
from tests.browser.test_usage import chart, must_be_drawn
from tests.browser.visitor import Visitor
from tests.e2e.people import ONE_A10G, Tenant
from tests.e2e.stack import Stack

Json = dict[str, Any]
STEPS = 12
FINDING = {"code": "xid_79", "severity": "fatal", "gpu": "GPU-1", "message": "The GPU fell off the bus."}
LEASE_SERIES = ("sm_clock_mhz", "cpu_percent", "host_memory_percent", "disk_percent")
GPU_SERIES = ("gpu_percent", "memory_percent", "power_w", "temperature_c")
WAVE = [None, 90, 91, 92, None, 30, 20, 10, 0, 0, 50, 93]


def ago(**span: float) -> str:
    return times.rfc3339(times.now() - timedelta(**span))


def series(lease_id: str, gpus: int) -> Json:
    start = times.now().replace(second=0, microsecond=0) - timedelta(minutes=STEPS)
    own: Json = dict.fromkeys(GPU_SERIES, WAVE)
    return {
        "lease_id": lease_id,
        "from": start.isoformat(),
        "to": (start + timedelta(minutes=STEPS)).isoformat(),
        "step_seconds": 60,
        "at": [(start + timedelta(minutes=n)).isoformat() for n in range(STEPS)],
        "series": {**own, **dict.fromkeys(LEASE_SERIES, [None] * STEPS)},
        "gpus": [{"uuid": f"GPU-{n}", **own} for n in range(gpus)],
    }


def answering(document: Json) -> Any:
    return lambda route: route.fulfill(body=json.dumps(document), content_type="application/json")


def active(tenant: Tenant, **request: Any) -> str:
    lease_id = tenant.create({**ONE_A10G, **request})
    tenant.wait(lease_id, "active")
    return lease_id


def test_the_list_has_a_line_of_utilization_for_each_lease_in_one_request(visitor: Visitor, tenant: Tenant) -> None:
    first, second = active(tenant, name="busy"), active(tenant, name="silent")
    newest = {"utilization": {"gpu_percent": 94, "memory_percent": None, "at": ago(seconds=5)}}
    leases = [{**lease, **(newest if lease["id"] == first else {})} for lease in tenant.leases("!terminal")]
    answer = {"step_seconds": 300, "from": ago(hours=1), "items": [{"lease_id": first, "gpu_percent": WAVE}]}
    visitor.page.route(re.compile(r"/v1/leases\?"), answering({"items": leases, "next_cursor": None}))
    visitor.page.route(re.compile("/v1/metrics/utilization"), answering(answer))
    visitor.sign_in(tenant.key)
    with visitor.page.expect_request(re.compile("/v1/metrics/utilization")) as asked:
        visitor.go("leases")
    assert {first, second} == set(re.findall("lease_[0-9a-z]{26}", asked.value.url))
    line = visitor.row("busy").get_by_role("img", name=re.compile("^GPU utilization of .* newest 94 %, mean 48 %"))
    expect(line.locator("path")).to_have_attribute("d", re.compile(r"^M1 .*L3 [\d.]+M5 "))
    expect(visitor.row("silent").locator(".spark")).to_have_count(0)
    look_at(visitor, "leases-gpus")
    assert visitor.sideways("Leases") == 0


def test_a_lease_shows_its_gpus_over_time_its_check_and_its_idleness(visitor: Visitor, tenant: Tenant) -> None:
    lease_id = active(tenant, name="checked")
    proof = {
        "status": "passed",
        "at": ago(hours=1),
        "via": "network",
        "driver_version": "570.1",
        "cuda_version": "12.8",
    }
    gpus = [{"uuid": f"GPU-{n}", "model": "NVIDIA A10G", "memory_mib": 23028} for n in range(2)]
    changes = {
        "proof": {**proof, "gpus": gpus, "findings": []},
        "health": {"status": "failing", "since": ago(minutes=5), "findings": [FINDING]},
        "utilization": {"gpu_percent": 93, "memory_percent": None, "at": ago(seconds=20)},
        "idle": {"since": ago(minutes=50), "ends_at": ago(minutes=-10)},
    }
    page = visitor.page
    page.route(re.compile(f"/v1/leases/{lease_id}$"), answering({**tenant.lease(lease_id), **changes}))
    page.route(re.compile(f"/v1/leases/{lease_id}/metrics"), answering(series(lease_id, 2)))
    page.route(re.compile(f"/v1/leases/{lease_id}/keep"), answering({}))
    visitor.sign_in(tenant.key)
    visitor.go(f"leases/{lease_id}")
    card = page.locator(".panel").filter(has=page.get_by_role("heading", name="GPU check and health"))
    for text in ("passed", "570.1, CUDA 12.8", "2 × NVIDIA A10G, 22 GiB", "failing", "93 % of the GPUs"):
        expect(card.get_by_text(text, exact=text in {"passed", "failing"})).to_be_visible()
    expect(card.get_by_role("list", name="Findings").get_by_text("The GPU fell off the bus.")).to_be_visible()
    use = chart(visitor, "GPU utilization")
    must_be_drawn(use)
    expect(use.get_by_text("GPU 1")).to_be_visible()
    use.get_by_text("Show as table").click()
    expect(use.get_by_role("table").get_by_role("row")).to_have_count(11)  # zeros are values, gaps are not
    for title, value in (("GPU memory in use", "93 %"), ("Power", "93 W"), ("Temperature", "93 °C")):
        expect(chart(visitor, title).get_by_text(value).first).to_be_visible()
    look_at(visitor, "lease-gpus")
    with page.expect_request(re.compile("/metrics.*step=3600")):
        page.get_by_role("button", name="7 days").click()
    with page.expect_request(re.compile("/keep$")) as kept:
        card.get_by_role("button", name="Keep for 2 hours").click()
    assert (kept.value.method, kept.value.post_data_json) == ("POST", {"seconds": 7200})
    expect(page.get_by_text("checked is kept for 2 hours")).to_be_visible()


def test_each_gpu_is_a_cell_that_reads_as_text(visitor: Visitor, tenant: Tenant, stack: Stack) -> None:
    lease_id = active(tenant, name="eight")
    shown = {"lease_id": lease_id, "name": "eight", "gpu_model": "A100", "state": "active", "health": "failing"}
    fleet = {"gpus_paid": 12, "gpus_in_use": 6, "gpus_idle": 2, "gpus_unknown": 4, "idle_cost_per_hour": "5.49"}
    other = {
        "lease_id": "lease_x",
        "name": "",
        "gpu_model": "L4",
        "gpus": [None] * 4,
        "state": "booting",
        "health": None,
    }
    cells = [0, 5, 6, 25, 50, 75, 76, 100]
    answer = {**fleet, "leases": [{**shown, "gpus": cells}, other]}
    page = visitor.page
    page.route(re.compile("/v1/metrics/fleet"), answering(answer))
    visitor.sign_in(stack.credentials.operator_key)
    visitor.go("fleet")
    panel = page.locator(".panel").filter(has=page.get_by_role("heading", name="GPUs paid for and in use"))
    expect(panel.get_by_text("$5.49 an hour")).to_be_visible()
    link = panel.get_by_role("link", name="eight, active, failing: 0 %, 5 %, 6 %")
    loads = [cell.get_attribute("data-load") for cell in link.locator("i").all()]
    assert loads == ["idle", "idle", "low", "low", "half", "high", "full", "full"]
    panel.get_by_text("Show as table").click()
    expect(panel.get_by_role("row").filter(has_text="unknown, unknown")).to_have_count(1)
    look_at(visitor, "fleet-gpus")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="eight", level=1)).to_be_visible()


def test_the_form_asks_for_checks_and_idle_rules(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("leases/new")
    page.get_by_label("GPU model", exact=True).fill("A10G")
    page.get_by_label("Name", exact=True).fill("careful")
    page.get_by_text("More options", exact=True).click()
    page.get_by_label("GPU check at the boot").select_option("off")
    page.get_by_label("On GPU failure").select_option("replace")
    expect(page.get_by_label("When idle")).to_be_disabled()
    page.get_by_label("Idle after, minutes").fill("45")
    page.get_by_label("When idle").select_option("end")
    page.get_by_role("button", name="CLI", exact=True).click()
    command = page.locator(".beside pre").inner_text()
    for option in ("--proof off", "--on-gpu-failure replace", "--idle-after 45m", "--idle-action end"):
        assert option in command
    page.get_by_role("button", name="Create lease").click()
    expect(page.get_by_role("heading", name="careful", level=1)).to_be_visible()
    (lease,) = tenant.leases("!terminal")
    asked = {name: lease["request"][name] for name in ("proof", "on_gpu_failure", "idle", "benchmark")}
    idle = {"after_seconds": 2700, "action": "end"}
    assert asked == {"proof": "off", "on_gpu_failure": "replace", "idle": idle, "benchmark": "off"}
    expect(page.get_by_text("end the lease after 45 m 00 s")).to_be_visible()
    page.get_by_role("button", name="Release careful").click()
    page.get_by_role("button", name="Release", exact=True).click()
    visitor.go(f"leases/new?from={lease['id']}")
    page.get_by_text("More options", exact=True).click()
    expect(page.get_by_label("Idle after, minutes")).to_have_value("45")


def test_lines_and_groups_are_computed(visitor: Visitor) -> None:
    page = visitor.page
    drawn = computed(page, "metrics_series.js", "m.linePath([0, 50, null, 100, null, 200], 10)")
    assert drawn == "M0 10L1 5M3 0h0.9M5 0h0.9"
    loads = computed(page, "metrics_series.js", "[null, 0, 5, 5.1, 25, 50, 75, 100].map(m.loadOf)")
    assert loads == ["unknown", "idle", "idle", "low", "low", "half", "high", "full"]
    leases = json.dumps([{"gpu_model": "L4", "gpus": [None]}, {"gpu_model": "A100", "gpus": [10, 30, None]}])
    groups = computed(page, "metrics_series.js", f"m.byModel({leases})")
    assert [(one["model"], one["gpus"], one["mean"]) for one in groups] == [("A100", 3, 20), ("L4", 1, None)]
    many = json.dumps(series("lease_1", 9))
    assert [
        one["name"] for one in computed(page, "metrics_series.js", f"m.measureSeries({many}, 'power_w').series")
    ] == ["all 9 GPUs"]


def test_a_replacement_vm_continues_the_lines_of_the_one_before(visitor: Visitor) -> None:
    page = visitor.page
    gpus = [
        {"uuid": "old-0", "gpu_percent": [10, 20, None, None]},
        {"uuid": "old-1", "gpu_percent": [11, 21, None, None]},
        {"uuid": "new-0", "gpu_percent": [None, 30, 40, 50]},
        {"uuid": "new-1", "gpu_percent": [None, None, 41, 51]},
    ]
    starts = [f"2026-06-01T10:0{minute}:00Z" for minute in range(4)]
    whole = {"at": starts, "step_seconds": 60, "gpus": gpus, "series": {"gpu_percent": [10, 25, 40, 50]}}
    drawn = computed(page, "metrics_series.js", f"m.measureSeries({json.dumps(whole)}, 'gpu_percent').series")
    assert [(line["name"], line["values"]) for line in drawn] == [
        ("GPU 0", [10, 30, 40, 50]),
        ("GPU 1", [11, 21, 41, 51]),
    ]


def test_a_map_of_many_leases_leaves_out_those_of_which_nothing_is_known(visitor: Visitor) -> None:
    page = visitor.page
    unknown = [{"lease_id": f"u{n}", "gpu_model": "L4", "health": None, "gpus": [None]} for n in range(3)]
    known = [{"lease_id": f"k{n}", "gpu_model": "L4", "health": None, "gpus": [n]} for n in range(3)]
    both = json.dumps(known + unknown)
    few = computed(page, "metrics_series.js", f"m.mapped({both}, 2)")
    assert [lease["lease_id"] for lease in few["shown"]] == ["k0", "k1"]
    assert [lease["lease_id"] for lease in few["rest"]] == ["k2", "u0", "u1", "u2"]
    some = computed(page, "metrics_series.js", f"m.mapped({both}, 5)")
    assert [len(some[part]) for part in ("shown", "rest")] == [3, 3]
    assert computed(page, "metrics_series.js", f"m.mapped({both}, 6)")["rest"] == []
