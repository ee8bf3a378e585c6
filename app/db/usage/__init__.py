"""Use over time: what happened in a step, its stored sums, and how they are read."""
