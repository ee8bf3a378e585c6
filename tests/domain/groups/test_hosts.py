"""The forms in which launchers read the hosts of a group."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from app.domain.groups.hosts import HostFormat, MemberHost, host_name, render

NAMES = ("train", "my group 1", "3d.scan_x", "all")


def hosts(*addresses: str, name: str = "train", public: bool = True) -> list[MemberHost]:
    return [
        MemberHost(
            rank=rank,
            lease_id=f"lease_{rank}",
            name=f"{name}-{rank}",
            private_ip=address,
            public_ip=f"198.51.100.{rank}" if public else None,
            ssh_user="ubuntu",
            ssh_port=22,
            gpus=8,
        )
        for rank, address in enumerate(addresses)
    ]


def expand(text: str) -> list[str]:
    """Slurm's hostlist: names with one range in brackets each, by `man scontrol`, show hostnames."""
    found: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text.strip()):
        head, bracket, tail = part.partition("[")
        if not bracket:
            found.append(head)
            continue
        for span in tail.removesuffix("]").split(","):
            first, _, last = span.partition("-")
            found += [f"{head}{number}" for number in range(int(first), int(last or first) + 1)]
    return found


def test_a_hostfile_has_a_line_of_address_and_slots_for_each_host() -> None:
    assert render(HostFormat.HOSTFILE, "train", hosts("10.0.0.4", "10.0.0.9")) == (
        "10.0.0.4 slots=8\n10.0.0.9 slots=8\n"
    )


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.4"],
        ["10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.1.7"],
        ["10.0.0.9", "10.0.0.8", "10.0.0.9"],
        ["10.0.0.4", "fd00::1", "10.0.0.5"],
        [f"10.0.{n // 256}.{n % 256}" for n in range(600)],
    ],
)
def test_a_node_list_expands_to_the_addresses_in_the_order_of_the_ranks(addresses: list[str]) -> None:
    text = render(HostFormat.SLURM, "train", hosts(*addresses))
    assert expand(text) == addresses
    assert text.count("\n") == 1


def test_neighbours_are_written_as_a_range() -> None:
    assert render(HostFormat.SLURM, "x", hosts("10.0.0.4", "10.0.0.5", "10.0.0.6")) == "10.0.0.[4-6]\n"


@pytest.mark.parametrize("name", NAMES)
def test_an_inventory_has_a_plain_group_and_one_line_of_facts_for_each_host(name: str) -> None:
    text = render(HostFormat.ANSIBLE, name, hosts("10.0.0.4", "10.0.0.5", name=name))
    parser = configparser.ConfigParser(allow_no_value=True, delimiters=("\0",))
    parser.read_string(text)
    (group,) = parser.sections()
    assert group.isidentifier()
    assert group not in {"all", "ungrouped"}
    lines = [shlex.split(line) for line in text.splitlines()[1:]]
    assert [line[0] for line in lines] == [host_name(f"{name}-{n}") for n in range(2)]
    facts = dict(one.split("=", 1) for one in lines[1][1:])
    assert facts["ansible_host"] == "198.51.100.1"
    assert (facts["ansible_user"], facts["node_rank"], facts["private_ip"]) == ("ubuntu", "1", "10.0.0.5")


def test_hosts_without_a_public_address_are_reached_at_the_private_one() -> None:
    assert "ansible_host=10.0.0.4 " in render(HostFormat.ANSIBLE, "x", hosts("10.0.0.4", public=False))


def test_ansible_reads_the_inventory_where_it_is_installed(tmp_path: Path) -> None:
    file = tmp_path / "hosts.ini"
    file.write_text(render(HostFormat.ANSIBLE, "train", hosts("10.0.0.4", "10.0.0.5")), encoding="utf-8")
    program = shutil.which("ansible-inventory")
    if program is None:  # the test above holds the form against the documented grammar
        return
    listed = subprocess.run([program, "-i", file, "--list"], capture_output=True, check=True, timeout=60)
    assert json.loads(listed.stdout)["train"]["hosts"] == ["train-0", "train-1"]


def test_torchrun_numbers_its_nodes_without_a_gap() -> None:
    present = [one for one in hosts("10.0.0.4", "10.0.0.5", "10.0.0.6") if one.rank != 1]
    lines = render(HostFormat.TORCHRUN, "train", present).splitlines()
    assert lines[2] == "# rank 2: train-2, 10.0.0.6"
    words = shlex.split(lines[3])
    assert words[0] == "torchrun"
    options = dict(word.removeprefix("--").split("=") for word in words[1:-1])
    assert options == {
        "nnodes": "2",
        "nproc-per-node": "8",
        "node-rank": "1",
        "master-addr": "10.0.0.4",
        "master-port": "29500",
    }


def test_no_hosts_are_no_text() -> None:
    assert {render(form, "x", []) for form in HostFormat if form is not HostFormat.JSON} == {""}
