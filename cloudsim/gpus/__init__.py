"""GPUs of simulated VMs: a fake NVML and a fake CUDA behind which the agent of a lease runs unchanged."""
