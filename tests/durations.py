"""How long the longest files take, by which they are begun: a long one that begins last runs alone at the end.

Seconds of `make test` on two cores, rounded; files that take less than 20 s are not named. `make test ARGS="--durations=100"`
shows today's.
"""

from collections.abc import Mapping

SECONDS: Mapping[str, int] = {
    "tests/simulation/test_broken.py": 195,
    "tests/workers/lifecycle/test_late_answers.py": 185,
    "tests/house/test_checks.py": 110,
    "tests/workers/lifecycle/test_batches.py": 110,
    "tests/security/test_secrets.py": 75,
    "tests/workers/test_access.py": 70,
    "tests/workers/test_brakes.py": 60,
    "tests/security/test_fuzz.py": 60,
    "tests/workers/test_shutdown.py": 55,
    "tests/workers/providers/test_aws_on_moto.py": 35,
    "tests/workers/lifecycle/test_unknown_outcomes.py": 35,
    "tests/simulation/test_simulation.py": 35,
    "tests/workers/observation/test_stuck_items.py": 30,
    "tests/workers/test_stories.py": 30,
    "tests/cloudsim/test_group_checks.py": 30,
    "tests/workers/observation/test_watch.py": 30,
    "tests/api/clients/test_python.py": 30,
    "tests/workers/test_restore.py": 25,
    "tests/workers/lifecycle/test_launch_timeouts.py": 25,
    "tests/workers/test_failover.py": 25,
    "tests/tools/test_openapi.py": 25,
    "tests/workers/observation/test_genuine.py": 25,
    "tests/workers/test_failpoints.py": 25,
    "tests/workers/lifecycle/test_meanwhile.py": 25,
    "tests/security/test_queries.py": 25,
    "tests/server/test_main.py": 25,
    "tests/api/clients/test_typescript.py": 20,
    "tests/workers/lifecycle/test_retries.py": 20,
    "tests/security/test_provider_messages.py": 20,
    "tests/api/test_budgets.py": 20,
    "tests/workers/providers/test_group_node.py": 20,
    "tests/workers/lifecycle/test_gpu_failures.py": 20,
    "tests/workers/lifecycle/test_cohorts.py": 20,
}
