"""GPUs of simulated VMs: what their drivers tell, and the agents that report it."""
