"""Which secrets the user data of a VM hold, and whose they are, as docs/trust.md says."""

import re
from collections.abc import Callable

from sqlalchemy import select, update

from app.db.schema.tables import attempt, lease
from app.domain.tokens import agent_hash, host_key_hash, slot_token
from cloudsim.user_data import first_boot
from tests.harness.databases import ROOT
from tests.workers.fleet import Fleet
from tests.workers.lifecycle.batch_steps import batches, created
from workers.providers.aws.adapter import AwsProvider
from workers.providers.types import BatchLaunched, Params, Vm

_SECRET = re.compile(r"\b[0-9a-f]{64}\b")
_HASHES = {"agent token": agent_hash, "host key token": host_key_hash}
_PURPOSES = {"agent token": "agent", "host key token": "host-keys"}


def opened(fleet: Fleet, params: Params) -> dict[str, set[str]]:
    """The leases that each kind of token opens which a VM with this user data can read or derive."""
    texts = [str(file["content"]) for file in first_boot(params["UserData"]).config.get("write_files", [])]
    read = {secret for text in texts for secret in _SECRET.findall(text)}
    derived = {
        kind: {slot_token(secret, purpose, slot) for secret in read for slot in range(10)}
        for kind, purpose in _PURPOSES.items()
    }
    rows = fleet.runtime.database.all(select(attempt.c.lease_id, attempt.c.agent_hash, attempt.c.host_key_hash))
    stored = {
        "agent token": {row.agent_hash: row.lease_id for row in rows},
        "host key token": {row.host_key_hash: row.lease_id for row in rows},
    }
    return {
        kind: {stored[kind][hashed] for token in read | derived[kind] if (hashed := form(token)) in stored[kind]}
        for kind, form in _HASHES.items()
    }


def test_user_data_hold_the_secrets_that_the_trust_page_names(make_fleet: Callable[..., Fleet]) -> None:
    """Each kind of token of the own lease, or of the leases of the same create call: those of one API key."""
    calls: list[Params] = []

    class Recording(AwsProvider):
        def launch(self, region: str, params: Params) -> Vm:
            calls.append(params)
            return super().launch(region, params)

        def launch_batch(self, region: str, params: Params) -> BatchLaunched:
            calls.append(params)
            return super().launch_batch(region, params)

    fleet = make_fleet(connect_account=Recording, agent="on", public_url="http://127.0.0.1:1", proof_seconds=0.1)
    leases = created(fleet, 7)
    keys = dict(zip(leases, ["key_a", "key_b", "key_a", "key_b", "key_a", "key_b", "key_alone"], strict=True))
    for lease_id, key in keys.items():
        fleet.runtime.database.run(update(lease).where(lease.c.id == lease_id).values(key_id=key))
    fleet.drive(lambda: len(fleet.vms()) == len(leases))
    assert len(batches(fleet)) == 2
    seen = [opened(fleet, params) for params in calls]
    expected = [{lease_id for lease_id, key in keys.items() if key == of} for of in ("key_a", "key_b", "key_alone")]
    for kind in _HASHES:
        assert sorted(map(sorted, (one[kind] for one in seen))) == sorted(map(sorted, expected))
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    assert (
        "| secret of the create call | what both tokens open | each lease of the same create call: leases of one API key alone |"
        in page
    )
