"""Commands about GPUs."""
