"""What operators watch and do: summary, metrics, health, brakes, invariants, purge."""
