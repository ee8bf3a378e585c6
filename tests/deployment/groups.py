"""Launchers on a group: Open MPI, Ansible, Slurm's host lists and torchrun read what gpulease writes, and reach the VMs.

The VMs are those of `machines`, with the addresses that the simulated EC2 gave them. Everything that they know about
their group comes from their user data and the API.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any

import psycopg

from app.local.environment import SIMULATED_AWS
from app.local.ports import free_port
from cloudsim.testing import Control, own_process
from cloudsim.user_data import first_boot
from tests.deployment.database import Check
from tests.deployment.machines import GATEWAY, USER, Address, Machine, Metadata, forward_between_machines
from tests.deployment.needs import program
from tests.deployment.processes import await_, clean_environment, expect, finish, run
from tests.deployment.ssh import CLI
from tests.e2e.stack import Stack, running
from tests.harness.databases import ROOT
from workers.providers.common import group_node, host_keys, slot_tokens

GROUP = "train"
_SECONDS = 60.0
_SSH_PORT = 2222
_INSTANCES = """
    SELECT lease.rank, attempt.instance_id FROM lease JOIN attempt ON attempt.lease_id = lease.id
    WHERE lease.rank >= %s ORDER BY lease.rank
"""


class GroupsTrial:
    """Each check builds on the one before it."""

    def __init__(self, stack: Stack, sim: Control, folder: Path, metadata: Metadata) -> None:
        self._stack = stack
        self._sim = sim
        self._folder = folder
        self._metadata = metadata
        self._home = folder / "person"
        self.machines: list[Machine] = []

    def checks(self) -> dict[str, Check]:
        return {
            "a group of two: user data and API set up both VMs, which reach each other": self.start,
            "group ssh, mpirun: a process for each slot, over the group's key": self.run_mpi,
            "the group's key from another address: refused": self.refuse_strangers,
            "group hosts --format ansible: parsed, and every host answers": self.run_ansible,
            "group hosts --format slurm: scontrol expands it to the VMs by rank": self.expand_node_list,
            "group hosts --format torchrun: each line runs on its VM, and the ranks meet": self.run_torchrun,
            "group scale 3: the new VM joins the files of the others, and mpirun": self.grow,
        }

    def close(self) -> None:
        for machine in self.machines:
            machine.close()

    def start(self) -> str:
        (self._home / ".ssh").mkdir(parents=True)
        words = [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(self._identity)]
        run("ssh-keygen", words, clean_environment())
        self._cli("ssh-keys", "add", f"{self._identity}.pub", "--default")
        forward_between_machines()
        lease = ("--gpu", "A10G:1", "--market", "on_demand", "--ttl", "1h")
        self._cli("group", "create", GROUP, "--size", "2", *lease, "--watch")
        self._start_machines()
        return f"mesh ok, {', '.join(machine.address.private for machine in self.machines)}"

    def run_mpi(self) -> str:
        hostfile = self._cli("group", "hosts", GROUP, "--format", "hostfile")
        for machine in self.machines:
            expect(machine.read("/etc/gpulease/hosts") == hostfile, f"another file on {machine.name}")
        said = self._on(0, "mpirun", "--hostfile", "/etc/gpulease/hosts", "hostname")
        names = sorted(machine.name for machine in self.machines)
        expect(sorted(said.split()) == names, f"processes ran at {said.split()}, expected {names}")
        ranks = self._on(1, "mpirun", "--hostfile", "/etc/gpulease/hosts", "printenv", "OMPI_COMM_WORLD_RANK")
        expect(sorted(ranks.split()) == [str(rank) for rank in range(len(names))], ranks)
        return f"{len(names)} hosts, from rank 0 and from rank 1"

    def refuse_strangers(self) -> str:
        key = self._folder / "stolen"
        key.write_text(self.machines[0].read(f"/home/{USER}/.ssh/gpulease_group"))
        key.chmod(0o600)
        for machine in self.machines:
            done = finish([program("ssh"), *self._options(key), f"{USER}@{machine.address.private}", "true"], _bare())
            expect("Permission denied" in done.stderr, f"{done.returncode}: {done.stderr}")
        return "Permission denied"

    def run_ansible(self) -> str:
        inventory = self._folder / "hosts.ini"
        inventory.write_text(self._cli("group", "hosts", GROUP, "--format", "ansible"))
        environment = {
            **_bare(),
            "HOME": str(self._home),
            "ANSIBLE_LOCAL_TEMP": str(self._folder / "ansible"),
            "ANSIBLE_PRIVATE_KEY_FILE": str(self._identity),
            "ANSIBLE_SSH_ARGS": shlex.join(self._options(self._identity)),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_SSH_USETTY": "0",  # a server without root cannot give a terminal to its user
        }
        source = ["-i", str(inventory)]
        listed = json.loads(run("list", [program("ansible-inventory"), *source, "--list"], environment))
        names = [f"{GROUP}-{rank}" for rank in range(len(self.machines))]
        expect(listed[GROUP]["hosts"] == names, str(listed))
        facts = listed["_meta"]["hostvars"]
        for rank, (name, machine) in enumerate(zip(names, self.machines, strict=True)):
            found = (facts[name]["ansible_host"], facts[name]["private_ip"], facts[name]["node_rank"])
            expect(found == (machine.address.public, machine.address.private, rank), str(facts[name]))
        ansible = [program("ansible"), GROUP, *source, "--one-line"]
        said = run("raw", [*ansible, "-m", "raw", "-a", "hostname"], environment)
        expect(all(machine.name in said for machine in self.machines), said)
        said = run("ping", [*ansible, "-m", "ping"], environment)
        expect(said.count("pong") == len(names), said)
        return f"{len(names)} hosts: raw and ping"

    def expand_node_list(self) -> str:
        (self._folder / "slurm.conf").write_text("ClusterName=trial\nSlurmctldHost=localhost\n")
        nodes = self._cli("group", "hosts", GROUP, "--format", "slurm").strip()
        words = [program("scontrol"), "show", "hostnames", nodes]
        said = run("scontrol", words, {**_bare(), "SLURM_CONF": str(self._folder / "slurm.conf")})
        expect(said.split() == [machine.address.private for machine in self.machines], f"{nodes}: {said.split()}")
        return f"{nodes} is {', '.join(said.split())}"

    def run_torchrun(self) -> str:
        text = "#!/usr/bin/python3\n" + (ROOT / "tests/deployment/torchrun.py").read_text(encoding="utf-8")
        for machine in self.machines:
            machine.install("/usr/local/bin/torchrun", text)
        lines = self._cli("group", "hosts", GROUP, "--format", "torchrun").splitlines()
        commands = [line for line in lines if not line.startswith("#")]
        expect(len(commands) == len(self.machines), str(lines))
        started = []
        for rank, line in enumerate(commands):
            words = self._ssh_words(rank, *shlex.split(line))
            started.append(Popen(words, cwd=ROOT, env=self._environment(), stdout=-1, stderr=-1, text=True))
        names = [machine.name for machine in self.machines]
        for rank, process in enumerate(started):
            said, error = process.communicate(timeout=_SECONDS)
            expect(process.returncode == 0, error)
            expect(json.loads(said) == {"rank": rank, "processes": "1", "hosts": names}, said)
        return f"{len(names)} ranks, with a stand-in for torchrun: PyTorch itself is not tried"

    def grow(self) -> str:
        self._cli("group", "scale", GROUP, "3")
        self._cli("group", "show", GROUP, "--watch")
        await_("three hosts", lambda: len(self._hosts()) == 3, _SECONDS)
        self._start_machines()
        return f"{self.run_mpi()}; {self.expand_node_list()}"

    # --- the VMs -----------------------------------------------------------------------------------------

    def _start_machines(self) -> None:
        """Those that have none yet, until every VM has found every other one."""
        known = len(self.machines)
        for rank, instance_id in self._instances(known):
            (launch,) = self._sim.launches(id=instance_id)
            spec = launch["spec"]
            address = Address(launch["private_ip"], launch["public_ip"], spec.get("launch_index", 0))
            machine = Machine(rank, address, self._folder)
            self.machines.append(machine)
            self._metadata.add(address)
            user_data = first_boot(spec["user_data"]).config
            machine.start(user_data)
            self._boot(machine, user_data)
        expect(len(self.machines) > known, "no new VM")
        size = len(self.machines)
        for rank, machine in enumerate(self.machines):
            formed = {"NODE_RANK": str(rank), "NNODES": str(size), "GPULEASE_MESH": "ok"}
            formed["GPULEASE_ALLREDUCE"] = "unavailable"  # without GPUs
            await_(f"group.env of {machine.name}", partial(_has, machine, formed), _SECONDS)
            expect(_env(machine)["MASTER_ADDR"] == self.machines[0].address.private, str(_env(machine)))

    def _boot(self, machine: Machine, user_data: Mapping[str, Any]) -> None:
        """The programs that the user data starts, in its order; without init system and GPUs, no others."""
        listed = [" ".join(command) for command in user_data["runcmd"]]
        for path in (slot_tokens.PATH, host_keys.PATH):
            if any(path in command for command in listed):
                machine.run(path)
        expect(f"systemctl start --no-block {group_node.UNIT}" in listed, f"nothing starts the unit: {listed}")
        (config := machine.root / "etc/ssh/sshd_config").write_text(
            f"Port {_SSH_PORT}\nHostKey /etc/ssh/ssh_host_ed25519_key\nAuthorizedKeysFile .ssh/authorized_keys\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nPidFile none\n"
            "Subsystem sftp internal-sftp\n"
        )
        config.chmod(0o644)
        machine.run_always("sshd", program("sshd"), "-D", "-e", user=USER)
        machine.run_always("group", group_node.PROGRAM)

    def _instances(self, first: int) -> list[tuple[int, str]]:
        """Rank and id of each VM, from this rank on."""
        with psycopg.connect(self._stack.credentials.database_url) as connection:
            connection.execute("SET ROLE gpulease_worker")
            return connection.execute(_INSTANCES, [first]).fetchall()

    # --- the person --------------------------------------------------------------------------------------

    @property
    def _identity(self) -> Path:
        return self._home / ".ssh" / "id_ed25519"

    def _environment(self) -> dict[str, str]:
        return {
            **clean_environment(),
            "GPULEASE_HOME": str(self._stack.home.path),
            "GPULEASE_CLI_CONFIG": str(self._home / "config.toml"),
            "HOME": str(self._home),
            "XDG_STATE_HOME": "",
        }

    def _cli(self, *words: str) -> str:
        return run(" ".join(words[:2]), [*CLI, *words], self._environment())

    def _ssh_words(self, rank: int, *words: str) -> list[str]:
        return [*CLI, "group", "ssh", GROUP, "--rank", str(rank), "-i", str(self._identity), "--", *words]

    def _on(self, rank: int, *words: str) -> str:
        return run(f"{words[0]} at rank {rank}", self._ssh_words(rank, *words), self._environment())

    def _hosts(self) -> list[str]:
        return self._cli("group", "hosts", GROUP).splitlines()

    def _options(self, key: Path) -> list[str]:
        """Of ssh, for a program that does not use gpulease's command."""
        known = f"UserKnownHostsFile={self._folder / 'known_hosts'}"
        own = ["-o", known, "-o", "StrictHostKeyChecking=accept-new", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"]
        return ["-F", "none", "-i", str(key), "-p", str(_SSH_PORT), *own]


def _bare() -> dict[str, str]:
    return clean_environment()


def _env(machine: Machine) -> dict[str, str]:
    return dict(line.split("=", 1) for line in machine.read("/etc/gpulease/group.env").splitlines())


def _has(machine: Machine, values: Mapping[str, str]) -> bool:
    return _env(machine).items() >= values.items()


@contextmanager
def groups_trial(folder: Path) -> Iterator[GroupsTrial]:
    """An installation of one simulated cloud whose VMs reach the API at its public URL. Needs a network namespace of its own."""
    with ExitStack() as stack:
        metadata = stack.enter_context(Metadata())
        _, sim = stack.enter_context(own_process())
        config = folder / "accounts.toml"
        config.write_text(
            f'[[accounts]]\nprovider = "aws"\nname = "sim"\nregions = ["us-east-1"]\nendpoint_url = "{sim.url}"\n'
            f"ssh_port = {_SSH_PORT}\n"
        )
        port = free_port()
        settings = {
            **SIMULATED_AWS,
            "GPULEASE_CONFIG": str(config),
            "GPULEASE_HOST": "0.0.0.0",
            "GPULEASE_PORT": str(port),
            "GPULEASE_PUBLIC_URL": f"http://{GATEWAY}:{port}",
        }
        trial = GroupsTrial(stack.enter_context(running(folder, settings=settings)), sim, folder, metadata)
        stack.callback(trial.close)
        yield trial
