"""How long the longest files take, by which they are begun: a long one that begins last runs alone at the end.

Seconds of `make test` on two cores, rounded; files that take less than 15 s are not named. `make test ARGS="--durations=100"`
shows today's.
"""

from collections.abc import Mapping

SECONDS: Mapping[str, int] = {
    "tests/workers/lifecycle/test_batches.py": 50,
    "tests/house/test_checks.py": 70,
    "tests/simulation/test_broken.py": 35,
    "tests/observability/test_situations.py": 90,
    "tests/server/test_pages.py": 45,
    "tests/security/test_secrets.py": 65,
    "tests/workers/lifecycle/test_late_answers.py": 60,
    "tests/workers/runtime/test_brakes.py": 30,
    "tests/workers/lifecycle/test_batches_meanwhile.py": 25,
    "tests/cloudsim/test_group_checks.py": 30,
    "tests/workers/test_access.py": 30,
    "tests/workers/lifecycle/test_unknown_outcomes.py": 30,
    "tests/workers/test_shutdown.py": 25,
    "tests/workers/observation/test_stuck_items.py": 25,
    "tests/workers/test_stories.py": 20,
    "tests/simulation/test_simulation.py": 20,
    "tests/security/test_fuzz.py": 20,
    "tests/workers/lifecycle/test_launch_timeouts.py": 20,
    "tests/workers/test_failpoints.py": 20,
    "tests/workers/observation/test_watch.py": 15,
}
