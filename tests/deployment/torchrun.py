"""Stands in for torchrun on a VM: the same options, and the first rank waits for the others at the master's port.

The options are those of PyTorch's `torch.distributed.run` that start a static job. Dashes and underscores are the same
there. No training script runs: each node prints its rank and the hosts of all ranks.
"""

import argparse
import json
import socket
import sys
import threading
import time
from typing import Any

SECONDS = 60.0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="torchrun")
    made.add_argument("--nnodes", type=int, default=1)
    made.add_argument("--nproc-per-node", "--nproc_per_node", type=str, default="1")
    made.add_argument("--node-rank", "--node_rank", type=int, default=0)
    made.add_argument("--master-addr", "--master_addr", type=str, default="127.0.0.1")
    made.add_argument("--master-port", "--master_port", type=int, default=29500)
    made.add_argument("training_script")
    made.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return made


def lead(asked: argparse.Namespace) -> dict[Any, str]:
    """Rank 0: accepts one connection of each other rank, and answers all with the list of hosts."""
    hosts: dict[Any, str] = {0: socket.gethostname()}
    others: list[socket.socket] = []
    with socket.create_server((asked.master_addr, asked.master_port)) as server:
        server.settimeout(SECONDS)
        while len(hosts) < asked.nnodes:
            other = server.accept()[0]
            rank, name = json.loads(other.makefile().readline())
            if rank in hosts:
                sys.exit(f"two nodes have rank {rank}")
            hosts[rank] = name
            others.append(other)
        for other in others:
            other.sendall(json.dumps(hosts).encode())
            other.close()
    return hosts


def reach(asked: argparse.Namespace) -> socket.socket:
    until = time.monotonic() + SECONDS
    while True:
        try:
            return socket.create_connection((asked.master_addr, asked.master_port), timeout=SECONDS)
        except OSError:
            if time.monotonic() > until:
                raise
            threading.Event().wait(0.2)


def follow(asked: argparse.Namespace) -> Any:
    with reach(asked) as master:
        master.sendall(json.dumps([asked.node_rank, socket.gethostname()]).encode() + b"\n")
        return json.loads(master.makefile().read())


def main() -> None:
    asked = parser().parse_args()
    if not 0 <= asked.node_rank < asked.nnodes:
        sys.exit("the rank must be below the number of nodes")
    hosts = follow(asked) if asked.node_rank else lead(asked)
    names = [hosts[key] for key in sorted(hosts, key=int)]
    json.dump({"rank": asked.node_rank, "processes": asked.nproc_per_node, "hosts": names}, sys.stdout)


if __name__ == "__main__":
    main()
