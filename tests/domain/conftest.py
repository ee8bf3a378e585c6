"""Rules are checked over whole products of inputs, or by Hypothesis with the same examples in every run."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "same-every-run",
    derandomize=True,
    database=None,
    # how fast the machine is must not decide
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100,
)
settings.load_profile("same-every-run")
