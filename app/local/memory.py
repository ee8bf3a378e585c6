"""What the stack keeps from one run to the next besides its data: ports and passwords."""

import json
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from app.local.ports import keep_or_free
from app.local.private_files import write_private


@dataclass(frozen=True)
class Memory:
    """Ports that were free and passwords that nobody guesses."""

    postgres_port: int
    redis_port: int
    ssh_port: int
    postgres_password: str = field(repr=False)
    redis_password: str = field(repr=False)


def recall(path: Path) -> Memory:
    """The last run's memory with ports that are free now, or a new one. Stored before it is returned."""
    old = _read(path)
    memory = Memory(
        postgres_port=keep_or_free(old.postgres_port if old else None),
        redis_port=keep_or_free(old.redis_port if old else None),
        ssh_port=keep_or_free(old.ssh_port if old else None),
        postgres_password=old.postgres_password if old else secrets.token_hex(24),
        redis_password=old.redis_password if old else secrets.token_hex(24),
    )
    write_private(path, json.dumps(asdict(memory), indent=2) + "\n")
    return memory


def _read(path: Path) -> Memory | None:
    try:
        return Memory(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
