"""What one tenant's largest pages do to another tenant: p99 of its reads, alone and beside somebody who reads nothing else.

50,000 leases of 200 tenants. 200 leases of one tenant hold as many bytes of SSH keys as the API takes.
"""

import argparse
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
from psycopg.types.json import Jsonb

from app.domain.ssh_keys import LARGEST_SSH_KEYS
from app.local.ports import free_port
from bench import api, load, processes, report, servers
from bench.load import Result
from bench.plant import Tenant, plant

READS, READ_RATE = 1000, 50.0
READERS = 4
_TURN = 10
_PATH = "/v1/leases?limit=200"
_ENLARGE = """
    UPDATE lease SET request = jsonb_set(request, '{ssh_public_keys}', %s)
    WHERE id = ANY (%s)
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.neighbour", description=__doc__)
    parser.add_argument("--key-bytes", type=int, default=LARGEST_SSH_KEYS, help="of the SSH keys of a large lease")
    arguments = parser.parse_args()
    with servers.running() as running:
        quiet, large, *_ = plant(running.superuser_url, tenants=200, leases=50_000)
        with psycopg.connect(running.superuser_url, autocommit=True) as connection:
            connection.execute(_ENLARGE, [Jsonb(["k" * arguments.key_bytes]), large.leases])
            connection.execute("VACUUM ANALYZE lease")
        port = free_port()
        environment = running.environment(
            port=str(port), rate_limit="1000000/minute", write_rate_limit="1000000/minute"
        )
        url = f"http://127.0.0.1:{port}"
        with processes.python("app.server", "api", environment=environment, folder=running.folder, url=f"{url}/livez"):
            alone = _read(port, quiet)
            beside = _beside(port, quiet, large)
            page = httpx.get(url + _PATH, headers={"Authorization": f"Bearer {large.key}"}, timeout=60)
    report.figure(
        f"GET /v1/leases/{{id}} beside {READERS} readers of another tenant's largest pages, p99 at {READ_RATE:.0f}/s",
        beside.percentile_ms(0.99),
        "ms",
        ("without them", alone.percentile_ms(0.99)),
        p50_ms=beside.percentile_ms(0.5),
        page_bytes=len(page.content),
        leases_in_page=len(page.json()["items"]),
    )


def _read(port: int, tenant: Tenant) -> Result:
    key = f"Authorization: Bearer {tenant.key}"
    sent = [api.request("GET", f"/v1/leases/{lease_id}", key) for lease_id in tenant.leases]
    found = load.open_loop(port, lambda n: sent[n % len(sent)], count=READS, connections=16, rate=READ_RATE)
    found.must_all_be(200)
    return found


def _beside(port: int, quiet: Tenant, large: Tenant) -> Result:
    sent = api.request("GET", _PATH, f"Authorization: Bearer {large.key}")
    done = threading.Event()

    def read_pages() -> None:
        while not done.is_set():
            load.closed_loop(port, lambda _: sent, count=_TURN, connections=READERS).must_all_be(200)

    with ThreadPoolExecutor(1) as other:
        reading = other.submit(read_pages)
        found = _read(port, quiet)
        done.set()
        reading.result()
    return found


if __name__ == "__main__":
    main()
