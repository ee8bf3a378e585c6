from typing import Any

import httpx
import pytest

from cloudsim.gce.credentials import issue
from cloudsim.gce.filters import parse
from cloudsim.gce.table import EVERY_NAME, OPERATIONS
from cloudsim.testing import NO_TLS, Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.gce.conftest import EMAIL, SPOT, ZONE, Gce, Refused
from tests.cloudsim.gce.discovery import methods

GCP: dict[str, Any] = {"provider": "gcp"}


def plant(sim: Control, count: int, **changes: Any) -> list[str]:
    place: dict[str, Any] = {"region": "us-central1", "zone": ZONE, "instance_type": "g2-standard-4"}
    return sim.plant(**(GCP | place | {"count": count} | changes))


def test_every_operation_is_one_of_googles_with_its_path_and_verb() -> None:
    for operation in OPERATIONS:
        method = methods()[operation.name]
        assert (operation.method, f"projects/{{project}}{operation.path}") == (method["httpMethod"], method["path"])


def test_pages_join_to_the_whole_list(gce: Gce, sim: Control) -> None:
    planted = {*plant(sim, 5), *plant(sim, 3, region="europe-west4", zone="europe-west4-a")}
    found: list[str] = []
    token: dict[str, str] = {}
    sizes = []
    while True:
        page = gce("instances.aggregatedList", maxResults=3, **token)
        ids = [one["id"] for scope in page["items"].values() for one in scope.get("instances", [])]
        sizes.append(len(ids))
        found += ids
        if "nextPageToken" not in page:
            break
        token = {"pageToken": page["nextPageToken"]}
    assert sizes == [3, 3, 2]
    assert len(found) == len(set(found)) == 8
    assert set(found) == planted
    with pytest.raises(Refused, match="page token"):
        gce("instances.aggregatedList", pageToken="%%")


def test_a_zone_without_results_says_so(gce: Gce, sim: Control) -> None:
    plant(sim, 1)
    scopes = gce("instances.aggregatedList")["items"]
    assert len(scopes[f"zones/{ZONE}"]["instances"]) == 1
    assert scopes["zones/us-central1-b"]["warning"]["code"] == "NO_RESULTS_ON_PAGE"


@pytest.mark.parametrize(("place", "lost"), [(ZONE, {ZONE}), ("us-east4", {f"us-east4-{one}" for one in "abc"})])
def test_a_zone_or_region_out_of_reach_is_told(gce: Gce, sim: Control, place: str, lost: set[str]) -> None:
    plant(sim, 1)
    sim.fault("instances.aggregatedList", "error", region=place, times=1, **GCP)
    page = gce("instances.aggregatedList")
    assert {one.rpartition("/")[2] for one in page["unreachables"]} == lost
    warned = {name for name, scope in page["items"].items() if scope.get("warning", {}).get("code") == "UNREACHABLE"}
    assert warned == {f"zones/{zone}" for zone in lost}
    assert "unreachables" not in gce("instances.aggregatedList")


def test_a_zone_out_of_reach_fails_what_is_asked_of_it_alone(gce: Gce, sim: Control) -> None:
    sim.fault("instances.list", "error", region=ZONE, **GCP)
    assert "items" not in gce("instances.list", zone="us-central1-b")
    with pytest.raises(Refused) as caught:
        gce("instances.list", zone=ZONE)
    assert (caught.value.status, caught.value.reason) == (503, "backendError")


FOUND_BY = [
    ("", ["one", "three", "two"]),
    ('name = "one"', ["one"]),
    ('(name = "one") OR (name = "two")', ["one", "two"]),
    ('(labels.a = "1")', ["one", "two"]),
    ('(labels.a = "1") (labels.b = "2")', ["two"]),
    ('(labels.a = "1") AND (labels.b = "2")', ["two"]),
    ('(labels.a = "1") OR (labels.c = "3")', ["one", "three", "two"]),
    ('(labels.a = "1") OR (labels.a = "9")', ["one", "two"]),
    ("labels.b:*", ["two"]),
    ("name != one", ["three", "two"]),
    ('name eq "t.*"', ["three", "two"]),
    ("name ne t.*", ["one"]),
    ('(name eq "(one|two)") (name ne "o.*")', ["two"]),
    ("startRestricted = false", ["one", "three", "two"]),
]


@pytest.mark.parametrize(("text", "names"), FOUND_BY)
def test_filters_choose(gce: Gce, text: str, names: list[str]) -> None:
    gce.insert("one", labels={"a": "1"})
    gce.insert("two", labels={"a": "1", "b": "2"})
    gce.insert("three", labels={"c": "3"})
    assert sorted(gce.names(filter=text)) == names


@pytest.mark.parametrize("text", ["name", "(name = x", "(a = 1) AND (b = 2) OR (c = 3)", "= x"])
def test_what_is_no_filter_is_invalid(gce: Gce, text: str) -> None:
    with pytest.raises(Refused, match="filter"):
        gce.names(filter=text)


def test_a_filter_names_values_only_where_nothing_else_can_match() -> None:
    assert parse("(labels.a = 1) (name = x)").exact("labels.") == ("a", ["1"])
    assert parse("(labels.a = 1) OR (labels.a = 2)").exact("labels.") == ("a", ["1", "2"])
    assert parse("(labels.a = 1) OR (labels.b = 2)").exact("labels.") is None
    assert parse("(labels.a = 1) OR (name = x)").exact("labels.") is None
    assert parse("name = x").exact("labels.") is None


def test_operations_are_found_by_target(gce: Gce, clock: ManualClock) -> None:
    one, two = gce.insert("one")["targetId"], gce.insert("two")["targetId"]
    gce("instances.delete", zone=ZONE, instance="one")
    clock.forward(1)

    def kinds(text: str) -> list[str]:
        return [o["operationType"] for o in gce("zoneOperations.list", zone=ZONE, filter=text).get("items", [])]

    assert kinds(f'targetId = "{one}"') == ["insert", "delete"]
    assert kinds(f'(targetId = "{one}") OR (targetId = "{two}")') == ["insert", "delete", "insert"]
    assert kinds('targetId = "1"') == []
    assert kinds('operationType = "delete"') == ["delete"]
    assert kinds(f'targetLink eq ".*/zones/{ZONE}/instances/two"') == ["insert"]
    with pytest.raises(Refused, match="notFound"):
        gce("zoneOperations.get", zone=ZONE, operation="operation-1")


# --- disks, rules, places ---------------------------------------------------------------------------------


def keeping(labels: dict[str, str]) -> list[dict[str, Any]]:
    image = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2404-nvidia-580"
    return [{"boot": True, "autoDelete": False, "initializeParams": {"sourceImage": image, "labels": labels}}]


def disks(gce: Gce, **query: Any) -> list[Any]:
    scopes = gce("disks.aggregatedList", **query)["items"].values()
    return [one for scope in scopes for one in scope.get("disks", [])]


def test_a_disk_goes_with_its_vm_or_stays(gce: Gce, clock: ManualClock) -> None:
    gce.insert("goes")
    gce.insert("stays", disks=keeping({"a": "1"}))
    assert {one["name"] for one in disks(gce)} == {"goes", "stays"}
    assert all(one["users"] for one in disks(gce))
    named = gce("disks.list", zone=ZONE, filter='(name = "goes") OR (name = "absent")')
    assert [one["name"] for one in named["items"]] == ["goes"]
    with pytest.raises(Refused, match="resourceInUseByAnotherResource"):
        gce("disks.delete", zone=ZONE, disk="stays")
    for name in ("goes", "stays"):
        gce("instances.delete", zone=ZONE, instance=name)
    clock.forward(1)
    (left,) = disks(gce, filter='labels.a = "1"')
    assert "users" not in left
    wanted = {"labels": {"a": "2"}, "labelFingerprint": left["labelFingerprint"]}
    gce("disks.setLabels", wanted, zone=ZONE, resource="stays")
    assert gce("disks.get", zone=ZONE, disk="stays")["labels"] == {"a": "2"}
    gce("disks.delete", zone=ZONE, disk="stays")
    assert disks(gce) == []


def rule(name: str = "r", **changes: Any) -> dict[str, Any]:
    allowed = [{"IPProtocol": "tcp", "ports": ["22"]}]
    complete = {"name": name, "network": "global/networks/default", "sourceRanges": ["10.0.0.0/8"], "allowed": allowed}
    return complete | changes


def test_rules_are_made_listed_and_removed(gce: Gce, sim: Control) -> None:
    gce("firewalls.insert", rule(targetTags=["t"], description="d"))
    assert gce("firewalls.get", firewall="r")["description"] == "d"
    with pytest.raises(Refused, match="alreadyExists"):
        gce("firewalls.insert", rule())
    gce("firewalls.insert", rule("other"))
    (found,) = gce("firewalls.list", filter='name eq "r"')["items"]
    assert found["targetTags"] == ["t"]
    assert {one["kind"] for one in sim.resources(**GCP)} == {"security_group"}
    for name in ("r", "other"):
        gce("firewalls.delete", firewall=name)
    assert "items" not in gce("firewalls.list")
    with pytest.raises(Refused, match="notFound"):
        gce("firewalls.delete", firewall="r")


@pytest.mark.parametrize("changes", [{"sourceRanges": ["10.0.0.0/8", "2001:db8::/32"]}, {"description": "x" * 2049}])
def test_what_no_rule_may_hold_is_invalid(gce: Gce, changes: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="invalid"):
        gce("firewalls.insert", rule(**changes))


def test_places_and_types_are_told(gce: Gce, sim: Control) -> None:
    assert ZONE in {one["name"] for one in gce("zones.list")["items"]}
    zones = gce("regions.get", region="us-central1")["zones"]
    assert [one.rpartition("/")[2][-1] for one in zones] == list("abcf")
    sim.offered(ZONE, "g2-standard-4", False, **GCP)
    scopes = gce("machineTypes.aggregatedList", filter='name eq "g2-standard-(4|8)"')["items"]
    assert [one["name"] for one in scopes[f"zones/{ZONE}"]["machineTypes"]] == ["g2-standard-8"]
    with pytest.raises(Refused, match="does not exist in zone"):
        gce.insert()
    for name, parameters in (("regions.get", {"region": "mars"}), ("instances.list", {"zone": "mars-a"})):
        with pytest.raises(Refused, match="notFound"):
            gce(name, **parameters)


def test_a_family_names_its_newest_image(gce: Gce, sim: Control) -> None:
    images = Gce(sim.url, project="ubuntu-os-accelerator-images")
    family = "ubuntu-accelerator-2404-amd64-with-nvidia-580"
    newest = images("images.getFromFamily", family=family)
    assert images("images.get", image=newest["name"]) == newest
    for name, parameters in (("images.get", {"image": "none"}), ("images.getFromFamily", {"family": "none"})):
        with pytest.raises(Refused, match="notFound"):
            images(name, **parameters)
    images.close()


# --- who and how often ------------------------------------------------------------------------------------


def test_tokens_say_who_asks_and_bad_ones_open_nothing(gce: Gce, sim: Control) -> None:
    assert gce.names() == []
    sim.credentials(bad=[EMAIL])
    for one in (gce, Gce(sim.url, token="ya29.other"), Gce(sim.url, token="ya29.cloudsim.%%%")):
        with pytest.raises(Refused) as caught:
            one.names()
        assert (caught.value.status, caught.value.reason) == (401, "authError")
        one.close()


def test_projects_are_apart(gce: Gce, sim: Control) -> None:
    gce.insert(**SPOT)
    other = Gce(sim.url, project="other-project")
    assert other.names() == []
    assert other("projects.get")["id"] != gce("projects.get")["id"]
    with pytest.raises(Refused, match="notFound"):
        other.vm()
    other.close()


def test_a_throttled_call_says_so_in_googles_words(gce: Gce, sim: Control) -> None:
    sim.fault("zones.list", "throttle", **GCP)
    with pytest.raises(Refused) as caught:
        gce("zones.list")
    assert (caught.value.status, caught.value.reason) == (403, "rateLimitExceeded")
    gce("zones.list")


@pytest.mark.parametrize("body", [b"", b"assertion=x", b"assertion=a.b.c", b"assertion=a.e30.c"])
def test_what_is_no_assertion_gets_no_token(sim: Control, body: bytes) -> None:
    answer = httpx.post(f"{sim.url}/gce/token", content=body, verify=NO_TLS)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


def test_a_body_that_is_no_object_is_a_bad_request(sim: Control) -> None:
    url = f"{sim.url}/compute/v1/projects/p/global/firewalls"
    for body in (b"{", b"[]"):
        answer = httpx.post(url, content=body, headers={"Authorization": f"Bearer {issue(EMAIL)}"}, verify=NO_TLS)
        assert answer.json()["error"]["errors"][0]["reason"] == "badRequest"


def test_faults_name_the_methods_of_google(sim: Control) -> None:
    assert {"instances.insert", "firewalls.insert", "globalOperations.aggregatedList"} <= EVERY_NAME
    for mode in ("error", "hang"):
        sim.fault("instances.insert", mode, **GCP)
    assert len(sim.faults()) == 2


def test_the_token_of_a_page_expires(gce: Gce, sim: Control, clock: ManualClock) -> None:
    sim.settings(page_token_seconds=60)
    for name in ("vm-a", "vm-b"):
        gce.insert(name)
    token = gce("instances.list", zone=ZONE, maxResults=1)["nextPageToken"]
    clock.forward(60)
    (shown,) = gce("instances.list", zone=ZONE, maxResults=1, pageToken=token)["items"]
    assert shown["name"] == "vm-b"
    clock.forward(1)
    with pytest.raises(Refused, match="expired"):
        gce("instances.list", zone=ZONE, maxResults=1, pageToken=token)


def test_pages_change_under_the_reader(gce: Gce, clock: ManualClock) -> None:
    for name in ("vm-a", "vm-b", "vm-c"):
        gce.insert(name)
    token = gce("instances.list", zone=ZONE, maxResults=1)["nextPageToken"]
    gce("instances.delete", zone=ZONE, instance="vm-b")
    clock.forward(1)
    gce.insert("vm-d")
    rest = gce("instances.list", zone=ZONE, pageToken=token)["items"]
    assert [vm["name"] for vm in rest] == ["vm-c", "vm-d"]


def test_front_ends_answer_without_the_api(gce: Gce, sim: Control) -> None:
    for code, kind in (("HTTP 403", "application/json"), ("HTTP 502", "text/html"), ("HTTP 503", "text/html")):
        sim.fault("instances.insert", "error", provider="gcp", code=code)
        url = f"{sim.url}/compute/v1/projects/sim-project/zones/{ZONE}/instances"
        answer = httpx.post(url, json={}, headers={"Authorization": f"Bearer {issue(EMAIL)}"}, verify=NO_TLS)
        assert (f"HTTP {answer.status_code}", answer.headers["content-type"].split(";")[0]) == (code, kind)
        assert "errors" not in answer.text


def test_the_limit_over_all_regions_holds_beside_those_of_the_regions(gce: Gce, sim: Control) -> None:
    sim.quota("GPUS_ALL_REGIONS", 1, provider="gcp")
    gce.insert("vm-a", zone="europe-west4-a")
    (error,) = gce.insert("vm-b")["error"]["errors"]
    assert (error["code"], "'GPUS_ALL_REGIONS' exceeded" in error["message"]) == ("QUOTA_EXCEEDED", True)
    (quota,) = gce("projects.get")["quotas"]
    assert (quota["limit"], quota["usage"]) == (1, 1)
