"""The program that leased VMs run to prove and report their GPUs. `gpulease_agent` runs in VMs and is imported by nobody."""
