"""What every adapter must do, written once; a backend runs it against one stand-in for a cloud.

A backend that cannot show something says so as data (`Power` -> reason); the cases that need it are then not
run against that backend.
"""

from tests.workers.providers.contract import batches, belongings, ending, groups, handling, launching, looking, volumes
from tests.workers.providers.contract.backend import Backend, Inbound, Power
from tests.workers.providers.contract.cases import NETWORKS, Case, await_state, cases, launch, listed, look, wish

__all__ = [
    "NETWORKS",
    "Backend",
    "Case",
    "Inbound",
    "Power",
    "await_state",
    "batches",
    "belongings",
    "cases",
    "ending",
    "groups",
    "handling",
    "launch",
    "launching",
    "listed",
    "look",
    "looking",
    "volumes",
    "wish",
]
