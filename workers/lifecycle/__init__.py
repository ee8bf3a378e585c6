"""Moves each lease: claim it, decide the next step, execute it, until the lease may rest."""
