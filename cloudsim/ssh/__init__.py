"""SSH servers of simulated VMs: real host keys and logins, and a shell that is not the shell of this machine."""
