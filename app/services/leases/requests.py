"""Checks of a lease request that need more than the type of a field."""

from dataclasses import dataclass, field
from decimal import Decimal
from ipaddress import ip_network

from app.domain.lease_requests import LeaseRequest
from app.domain.placement import Requirements
from app.domain.quotes import Quote
from app.domain.volumes import VolumePlace
from app.services.errors import FieldError, InvalidRequest, QuoteExpired

LARGEST_STARTUP_SCRIPT = 12 * 1024
"""Bytes of UTF-8. `app.domain.boot_sizes` limits them once compressed, together with the SSH keys."""

_LONGEST_INTERPRETER = 127
"""Bytes after `#!` that every kernel reads (execve(2): 127 before Linux 5.1, 255 since)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateLease:
    """A checked create call. `tenant_id` None: the caller's own tenant.

    `max_cost`: the spend cap in USD. None: no cap. `ssh_keys`: names or ids of stored keys, besides those that the
    request contains. None: the caller's default keys. `quote`: the one that it is created from. `expiry_warnings`:
    seconds before the end. None: the installation's. `volume_place`: where the volumes of the request are. None: it has
    none, or they are not looked up yet.
    """

    tenant_id: str | None
    request: LeaseRequest
    max_cost: Decimal | None = None
    ssh_keys: tuple[str, ...] | None = ()
    startup_script: str | None = field(repr=False)
    quote: Quote | None = None
    expiry_warnings: tuple[int, ...] | None = None
    volume_place: VolumePlace | None = None

    @property
    def requirements(self) -> Requirements:
        """The part of the request that placement reads."""
        return Requirements.of(self.request)

    @property
    def max_rate(self) -> Decimal | None:
        """USD an hour that the VM may cost with all its parts: the quoted rate. None: no quote limits it."""
        return None if self.quote is None else self.quote.price_per_hour

    def check_differences(self) -> None:
        """Raises InvalidRequest where the call differs from its quote."""
        if self.quote is None:
            return
        detail = f"differs from {self.quote.id}: leave it out, or request another quote"
        errors = [FieldError(f"#/body/{name}", detail) for name in self.quote.changed_fields(self.request)]
        if self.quote.has_script and self.startup_script is None:
            detail = "was part of the quote, which does not store it: send it again"
            errors.append(FieldError("#/body/startup_script", detail))
        if errors:
            raise InvalidRequest(errors=errors)

    def check_quote(self) -> None:
        """Raises QuoteExpired."""
        if self.quote is not None and self.quote.expired:
            raise QuoteExpired


def network(text: str) -> str:
    """An IPv4 or IPv6 network with its prefix length, in its usual form. Raises ValueError."""
    address, slash, _ = text.partition("/")
    if not slash or "%" in address:
        raise ValueError("must be a network with a prefix length, such as 203.0.113.0/24 or 203.0.113.7/32")
    try:
        return str(ip_network(text))
    except ValueError:
        raise ValueError(_instead(text)) from None


def _instead(text: str) -> str:
    try:
        return f"has bits set beyond its prefix; {ip_network(text, strict=False)} is the network"
    except ValueError:
        return "is not a network such as 203.0.113.0/24 or 2001:db8::/32"


def checked_script(text: str) -> str:
    r"""The script with `\n` as line ends. Raises ValueError for a text that not every cloud executes in the same way.

    The kernel executes it at each cloud, so it begins with `#!` and a path. A shell that finds no such line executes the
    text itself, or does not, and each cloud has another one.
    """
    size = len(text.encode())
    if size > LARGEST_STARTUP_SCRIPT:
        raise ValueError(f"has {size} bytes; {LARGEST_STARTUP_SCRIPT} are the most")
    if not text.startswith("#!"):
        raise ValueError(f"must begin with #! and the path of an interpreter, such as #!/bin/bash{_cause(text)}")
    script = text.replace("\r\n", "\n")
    interpreter = script.removeprefix("#!").partition("\n")[0]
    if not interpreter.lstrip(" \t").startswith("/"):
        raise ValueError("must name its interpreter by an absolute path, such as #!/bin/bash or #!/usr/bin/env python3")
    if len(interpreter.encode()) > _LONGEST_INTERPRETER:
        raise ValueError(
            f"has a first line of more than {_LONGEST_INTERPRETER} bytes after #!, which old kernels cut off"
        )
    return script


def _cause(text: str) -> str:
    """Why a text that looks right begins with something else."""
    start = text.lstrip("\ufeff \t\r\n\v\f").lower()
    if start.startswith("#cloud-config"):
        return ". A cloud-config is not executed: write its commands as a script"
    if text.startswith("\ufeff"):
        return ". It begins with a byte order mark: save it as UTF-8 without one"
    if start.startswith("#!"):
        return ". It begins with blanks or an empty line"
    return ""
