"""Many at once, larger than the suite's own samples: `make races`."""
