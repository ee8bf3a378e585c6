"""GPU models, reports of agents, measurements and proofs."""
