"""Rules are checked over whole products of inputs, or by Hypothesis with the same examples in every run."""

from hypothesis import settings

settings.register_profile("same-every-run", derandomize=True, database=None, deadline=None, max_examples=100)
settings.load_profile("same-every-run")
