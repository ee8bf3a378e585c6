"""How long the longest files take, by which they are begun: a long one that begins last runs alone at the end.

Seconds of `make test` on two cores, rounded; files that take less than 20 s are not named. `make test ARGS="--durations=100"`
shows today's.
"""

from collections.abc import Mapping

SECONDS: Mapping[str, int] = {
    "tests/simulation/test_broken.py": 100,
    "tests/observability/test_situations.py": 80,
    "tests/server/test_pages.py": 60,
    "tests/house/test_checks.py": 60,
    "tests/workers/lifecycle/test_late_answers.py": 55,
    "tests/security/test_fuzz.py": 30,
    "tests/security/test_secrets.py": 30,
    "tests/db/tenancy/test_budget_periods.py": 30,
    "tests/simulation/test_simulation.py": 30,
    "tests/workers/test_shutdown.py": 30,
    "tests/workers/providers/test_aws_on_moto.py": 25,
    "tests/api/clients/test_lost_answers.py": 25,
    "tests/workers/test_volume_kills.py": 25,
    "tests/workers/providers/test_boot_sizes.py": 20,
    "tests/workers/lifecycle/test_rates.py": 25,
    "tests/workers/lifecycle/test_batches.py": 20,
    "tests/cloudsim/test_group_checks.py": 20,
    "tests/workers/providers/test_group_node.py": 20,
    "tests/workers/lifecycle/test_unknown_outcomes.py": 20,
    "tests/workers/test_stories.py": 20,
    "tests/api/clients/test_lease_doors.py": 20,
}
