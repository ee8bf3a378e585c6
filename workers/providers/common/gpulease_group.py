#!/usr/bin/python3
"""Asks gpulease's API who is in this VM's group, and writes it down: group.env, hosts, names, SSH. Checks network and GPUs.

The program goes on asking: a member may be replaced, and the group may grow. It runs as root. GPULEASE_ROOT stands
before each path. Python 3.8 is enough.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import json
import os
import pwd
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from typing import Any

ROOT = os.environ.get("GPULEASE_ROOT", "")
CONFIG, ENV, HOSTS = "/etc/gpulease/group.json", "/etc/gpulease/group.env", "/etc/gpulease/hosts"
REDUCE = "GPULEASE_ALLREDUCE"
BEGIN, END, MARK = "# gpulease group: begin", "# gpulease group: end", " gpulease-group"
# others own parts of these files: in Latin-1 each byte is a character, and stays as it is
AS_IT_IS: Any = {"encoding": "latin-1", "newline": ""}


def read(path: str) -> Any:
    with contextlib.suppress(FileNotFoundError), open(ROOT + path, **AS_IT_IS) as file:
        return file.read()
    return ""


def put(path: str, text: str, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Replaces a file in one step. A reader never sees half of it."""
    if read(path) == text:
        return
    os.makedirs(os.path.dirname(ROOT + path), exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(ROOT + path + ".gpulease", flags, mode), "w", **AS_IT_IS) as file:
        os.fchmod(file.fileno(), mode)
        if owner:
            os.fchown(file.fileno(), *owner)
        file.write(text)
    os.replace(ROOT + path + ".gpulease", ROOT + path)


def ask(config: dict[str, Any], report: dict[str, Any] | None = None) -> Any:
    """The group. With a report, the API stores it and answers nothing."""
    headers = {"Authorization": "Bearer " + config["token"], "Content-Type": "application/json"}
    data = json.dumps(report).encode() if report else None
    with urllib.request.urlopen(urllib.request.Request(config["url"], data, headers), timeout=10) as answer:
        return json.loads(answer.read(1 << 20) or b"null")


def name_hosts(hosts: list[dict[str, Any]]) -> None:
    put(HOSTS, "".join("%s slots=%d\n" % (host["private_ip"], host["gpus"] or 1) for host in hosts))
    before, _, rest = read("/etc/hosts").partition(BEGIN)
    others = before + rest.partition(END)[2].partition("\n")[2]
    others += "\n" if others and not others.endswith("\n") else ""
    names = "".join("%s node-%d\n" % (host["private_ip"], host["rank"]) for host in hosts)
    put("/etc/hosts", "%s%s\n%s%s\n" % (others, BEGIN, names, END))


def install_key(key: dict[str, Any], addresses: list[str]) -> None:
    """The key opens the user's account to the other members alone. Raises KeyError before the user exists."""
    user = pwd.getpwnam(key["user"])
    owner, folder = (user.pw_uid, user.pw_gid), user.pw_dir + "/.ssh"
    if not os.path.isdir(ROOT + folder):
        os.makedirs(ROOT + folder, 0o700)
        os.chown(ROOT + folder, *owner)
    put(folder + "/gpulease_group", key["private"], 0o600, owner)
    lines = read(folder + "/authorized_keys").split("\n")
    others = [line for line in (lines if lines[-1] else lines[:-1]) if not line.rstrip("\r").endswith(MARK)]
    ours = 'from="%s" %s%s' % (",".join(addresses), key["public"], MARK)
    put(folder + "/authorized_keys", "\n".join([*others, ours, ""]), 0o600, owner)
    lines = ["Host node-* " + " ".join(addresses), "  Port %d" % key["port"], "  IdentityFile ~/.ssh/gpulease_group"]
    # a replaced member may have the address of the old one
    lines += ["  StrictHostKeyChecking no", "  UserKnownHostsFile /dev/null", "  LogLevel ERROR", ""]
    put("/etc/ssh/ssh_config.d/60-gpulease-group.conf", "\n".join(lines))


def listen(address: str, port: int) -> None:
    """Answers the other members' checks with whether this member has checked its group, and closes them."""
    server = socket.create_server((address, port), backlog=256)

    def serve() -> None:
        while True:
            with contextlib.suppress(OSError), server.accept()[0] as peer:
                peer.sendall(b"%d" % os.path.exists(ROOT + ENV))

    threading.Thread(target=serve, daemon=True).start()


def reaches(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=3):
        return True
    return False


def has_formed(address: str, port: int) -> bool:
    """Whether a member has checked its group before."""
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=3) as peer:
        return peer.recv(1) == b"1"
    return False


def unreachable(addresses: list[str], port: int, seconds: float) -> list[str]:
    """The members that do not answer. Others may start later than this VM."""
    until = time.monotonic() + seconds
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        while True:
            answers = list(pool.map(lambda address: reaches(address, port), addresses))
            addresses = [address for address, reached in zip(addresses, answers) if not reached]
            if not addresses or time.monotonic() > until:
                return addresses
            time.sleep(1)


def fetch(url: str, digest: str) -> str:
    """A program from the API. Raises ValueError for another program than this launch has named."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: bytes = answer.read(1 << 20)
    if hashlib.sha256(text).hexdigest() != digest:
        raise ValueError("another program at " + url)
    return text.decode()


def all_reduce(task_config: dict[str, Any], group: dict[str, Any]) -> list[str]:
    """The lines about the all-reduce over all GPUs. A process that hangs is killed, and is not waited for."""
    task = {"rank": group["rank"], "addresses": [host["private_ip"] for host in group["hosts"]]}
    task.update(port=task_config["port"], secret=task_config["secret"])
    result: dict[str, Any] = {"result": "failed"}
    try:
        command = ["nice", "-n", "19", sys.executable, "-c", fetch(task_config["url"], task_config["sha256"])]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            result = json.loads(child.communicate(json.dumps(task).encode(), task_config["seconds"])[0])
        finally:
            child.kill()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        result["detail"] = repr(error)[-300:]
    print("all-reduce: %s" % json.dumps(result), flush=True)
    gbps = [REDUCE + "_GBPS=%s" % result["gbps"]] if "gbps" in result else []
    return ["%s=%s" % (REDUCE, result["result"]), *gbps]


def write(config: dict[str, Any], group: dict[str, Any], checked: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Returns the addresses of the members that the check has reached, `checked` among them, and a report for the API."""
    hosts, rank = group["hosts"], group["rank"]
    addresses = [host["private_ip"] for host in hosts]
    for edit in (lambda: name_hosts(hosts), lambda: config.get("ssh") and install_key(config["ssh"], addresses)):
        try:  # a file that cannot be edited does not stop the rest
            edit()
        except (OSError, ValueError) as error:
            print("gpulease-group: %r" % error, file=sys.stderr, flush=True)
    others = [host["private_ip"] for host in hosts if host["rank"] != rank and host["private_ip"] not in checked]
    missing = unreachable(others, config["mesh_port"], config["mesh_seconds"])
    values = {"GROUP_ID": group["group_id"], "NODE_RANK": rank, "NNODES": len(hosts)}
    values.update(MASTER_ADDR=group["master_addr"], MASTER_PORT=group["master_port"], GPULEASE_HOSTS=HOSTS)
    values["GPULEASE_MESH"] = "failed" if missing else "ok"
    if missing or others:
        print("rank %s of %d: mesh %s %s" % (rank, len(hosts), values["GPULEASE_MESH"], " ".join(missing)), flush=True)
    # once: later, a job uses the GPUs
    reduced = [line for line in read(ENV).splitlines() if line.startswith(REDUCE)]
    if config.get("all_reduce") and not reduced:
        alone = missing or len(hosts) == 1 or (rank and has_formed(addresses[0], config["mesh_port"]))
        reduced = [REDUCE + "=unavailable"] if alone else all_reduce(config["all_reduce"], group)
    put(ENV, "".join([*("%s=%s\n" % item for item in values.items()), *(line + "\n" for line in reduced)]))
    lost = [host["rank"] for host in hosts if host["private_ip"] in missing]
    outcome = dict(line.split("=", 1) for line in reduced)
    report: dict[str, Any] = {"nodes": len(hosts), "mesh": values["GPULEASE_MESH"], "unreachable": lost}
    report.update(all_reduce=outcome.get(REDUCE), all_reduce_gbps=float(outcome.get(REDUCE + "_GBPS", 0)) or None)
    return [address for address in addresses if address not in missing], report


def main() -> None:
    config: dict[str, Any] = json.loads(read(CONFIG))
    checked: list[str] = []
    listening, hosts, reported = False, None, None
    while True:
        formed = os.path.exists(ROOT + ENV)
        try:
            group = ask(config)
            if group["complete"] and group["rank"] is not None:
                if not listening:
                    listen(config.get("address", ""), config["mesh_port"])
                    listening = True
                checked, report = write(config, group, checked if hosts == group["hosts"] else [])
                hosts = group["hosts"]
                if report != reported:
                    ask(config, report)
                    reported = report
        except (OSError, ValueError, KeyError) as error:
            print("gpulease-group: %r" % error, file=sys.stderr, flush=True)
        seconds = config["slow_seconds" if formed else "fast_seconds"]
        time.sleep(seconds * random.uniform(0.8, 1.2))


if __name__ == "__main__":
    main()
