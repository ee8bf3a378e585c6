"""What an account may not do or use: actions that are denied, images that are gone, subnets that take no VM."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

FREE_ADDRESSES = 4_091
"""Of a /20 at EC2. The other clouds show the same number here."""


@dataclass(slots=True)
class Restrictions:
    """By (provider, name). `addresses`: free addresses of subnets that were set. Nothing is restricted at first."""

    denied: set[tuple[str, str]] = field(default_factory=set)
    images: set[tuple[str, str]] = field(default_factory=set)
    closed: set[tuple[str, str]] = field(default_factory=set)
    addresses: dict[tuple[str, str], int] = field(default_factory=dict)
    launch_codes: dict[tuple[str, str], str] = field(default_factory=dict)
    """By (provider, account)."""
    states: dict[str, str] = field(default_factory=dict)
    """By Azure subscription: its state, where it is not Enabled."""
    unregistered: set[tuple[str, str]] = field(default_factory=set)
    """(Azure subscription, resource provider or feature) without a registration."""

    def set_subscription(self, subscription: str, state: str, unregistered: Collection[str]) -> None:
        """Puts an Azure subscription into a state. It lacks these registrations, and no others."""
        self.states[subscription] = state
        others = {(of, name) for of, name in self.unregistered if of != subscription}
        self.unregistered = others | {(subscription, name) for name in unregistered}

    def subscription_state(self, subscription: str) -> str:
        """The state of an Azure subscription, in Azure's words."""
        return self.states.get(subscription, "Enabled")

    def is_registered(self, subscription: str, name: str) -> bool:
        """Whether a resource provider or a feature is registered in an Azure subscription."""
        return (subscription, name) not in self.unregistered

    def refuse_launches(self, provider: str, account: str, code: str | None) -> None:
        """From now on every launch of the account is refused with `code`. None: no longer."""
        if code is None:
            self.launch_codes.pop((provider, account), None)
        else:
            self.launch_codes[provider, account] = code

    def launch_code(self, provider: str, account: str) -> str | None:
        """The code with which every launch of the account is refused."""
        return self.launch_codes.get((provider, account))

    def deny(self, provider: str, actions: Collection[str]) -> None:
        """From now on these actions are denied, and no others."""
        others = {(of, action) for of, action in self.denied if of != provider}
        self.denied = others | {(provider, action) for action in actions}

    def first_denied(self, provider: str, actions: Collection[str]) -> str | None:
        """The first of these actions that is denied."""
        return next((action for action in actions if (provider, action) in self.denied), None)

    def set_image(self, provider: str, name: str, *, available: bool) -> None:
        """Removes an image, or puts it back."""
        (self.images.discard if available else self.images.add)((provider, name))

    def is_removed(self, provider: str, *names: str) -> bool:
        """Whether an image of one of these names is removed."""
        return any((provider, name) in self.images for name in names)

    def set_subnet(self, provider: str, name: str, *, is_open: bool, free_addresses: int | None) -> None:
        """Opens or closes a subnet. `free_addresses` None: as at first."""
        key = (provider, name)
        (self.closed.discard if is_open else self.closed.add)(key)
        if free_addresses is None:
            self.addresses.pop(key, None)
        else:
            self.addresses[key] = free_addresses

    def is_open(self, provider: str, subnet: str) -> bool:
        """Whether a subnet is in its usual state."""
        return (provider, subnet) not in self.closed

    def free_addresses(self, provider: str, subnet: str, usual: int = FREE_ADDRESSES) -> int:
        """How many addresses a subnet has left. `usual`: those of a subnet that was not set."""
        return self.addresses.get((provider, subnet), usual)
