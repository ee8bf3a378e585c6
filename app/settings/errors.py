"""What stops a process at its start."""


class StartupError(Exception):
    """One clear sentence for the person who starts the process: what is wrong and what to set."""
