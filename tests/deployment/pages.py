"""What an operator changes in a year, by the words of the pages, while somebody reads. Needs no package of Debian."""

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import redis

from app.local import embedded_redis
from app.local.embedded_redis import EmbeddedRedis
from app.local.environment import SIMULATED_AWS
from app.local.ports import free_port
from cloudsim.testing import NO_TLS, own_process
from tests.deployment import documents
from tests.deployment.database import Check
from tests.deployment.processes import expect
from tests.server.bare_machine import Machine

_NEW_KEY = "AKIALOCALSTACKSIM002"


class PagesTrial:
    """A machine that docs/howto/deploy.md has deployed, with a Redis server and a simulated cloud."""

    def __init__(self, machine: Machine, redis_server: EmbeddedRedis, cloud_url: str) -> None:
        self._machine = machine
        self._redis = redis_server
        self._cloud_url = cloud_url
        self._secrets = (documents.DOCS / "howto" / "secrets.md").read_text(encoding="utf-8")

    def checks(self) -> dict[str, Check]:
        """By what each shows."""
        return {
            "both database passwords change under load, as running.md says: no failed request": self.change_passwords,
            "the owner's password changes under load, as secrets.md says: no failed request": self.change_owner,
            "the password of Redis changes under load, as secrets.md says: no failed request": self.change_redis,
            "cloud credentials change under load, as secrets.md says: no failed request": self.change_credentials,
            "an operator's key is rotated under load: no failed request": self.rotate_key,
            "an upgrade under load, as upgrade.md says: no failed request": self.upgrade,
        }

    def change_passwords(self) -> str:
        """With a second login meanwhile."""
        return self._under_load("running.md", "**To change a password**", "While PostgreSQL refuses")

    def change_owner(self) -> str:
        """Then `migrate` logs in with the new password."""
        [statement] = re.findall(r"`(ALTER ROLE gpulease_owner PASSWORD '…')`", self._secrets)

        def change() -> None:
            self._machine.change_owner_password(statement)
            self._machine.type("gpulease-server migrate")

        return self._meanwhile(change)

    def change_redis(self) -> str:
        """Both passwords work until each process has the new one."""
        add, drop = re.findall(r"`redis-cli (ACL SETUSER default '[<>]\w+')`", self._secrets)
        old, new = self._redis.password, secrets.token_hex(16)

        def command(text: str) -> None:
            with redis.Redis.from_url(self._redis.url) as client:
                client.execute_command(*text.replace("NEW", new).replace("OLD", old).replace("'", "").split())

        def change() -> None:
            command(add)
            self._redis = replace(self._redis, password=new)
            self._machine.use_broker(self._redis.url)
            command(drop)

        return self._meanwhile(change)

    def change_credentials(self) -> str:
        """The cloud then refuses the old ones, and a new lease becomes active."""

        def change() -> None:
            self._machine.use_credentials({"AWS_ACCESS_KEY_ID": _NEW_KEY})
            bad = {"bad": [SIMULATED_AWS["AWS_ACCESS_KEY_ID"]]}
            httpx.put(f"{self._cloud_url}/_sim/credentials", json=bad, verify=NO_TLS).raise_for_status()
            self._machine.create_lease()

        return self._meanwhile(change)

    def rotate_key(self) -> str:
        """The reader keeps the old secret, which works for the overlap."""
        [command] = re.findall(r"`(gpulease key rotate) KEY", self._secrets)
        return self._meanwhile(lambda: self._machine.type(f"{command} {self._machine.key_id()} --overlap 1h"))

    def upgrade(self) -> str:
        """Every process is replaced."""
        return self._under_load("howto/upgrade.md")

    def _under_load(self, page: str, *between: str) -> str:
        return self._meanwhile(lambda: self._machine.follow(page, *between))

    def _meanwhile(self, change: Callable[[], object]) -> str:
        with self._machine.reading() as answers:
            change()
        expect(answers.keys() == {"200"}, f"answers: {dict(answers)}")
        return f"{answers['200']} reads"


@contextmanager
def pages_trial(folder: Path) -> Iterator[PagesTrial]:
    """PostgreSQL and Redis are those of the Python packages."""
    with ExitStack() as stack:
        server = EmbeddedRedis(folder / "redis", free_port(), secrets.token_hex(16))
        stack.enter_context(embedded_redis.running(server))
        _, sim = stack.enter_context(own_process())
        machine = Machine(folder, server.url, sim.url, stack)
        machine.psql(documents.block("running.md", "sql", "CREATE ROLE gpulease_owner LOGIN"))
        machine.follow("howto/deploy.md")
        yield PagesTrial(machine, server, sim.url)
