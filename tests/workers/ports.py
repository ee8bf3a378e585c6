"""What the ports of an adapter ask for, by name."""

from workers.providers.ports import Provider

PORTS = tuple(port for port in Provider.__mro__ if port.__module__ == Provider.__module__)
METHODS = frozenset(
    name for port in PORTS for name, member in vars(port).items() if callable(member) and not name.startswith("_")
)
