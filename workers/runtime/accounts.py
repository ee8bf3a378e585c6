"""The cloud accounts of this installation: configured ones, and those that still have VMs to serve."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import structlog

from app.db.fleet import accounts
from app.domain.brakes import BrakeName
from app.domain.offerings import Driver, Offering
from app.domain.vm_parts import image_key
from app.settings import AccountSettings, Settings
from app.settings.accounts import account_from_json
from app.settings.reservations import ReservationSettings
from workers.providers.errors import (
    CredentialsRejected,
    InvalidSpec,
    NotPermitted,
    OutcomeUnknown,
    ProviderError,
    Refused,
    Unreachable,
)
from workers.providers.ports import Provider
from workers.providers.types import Image
from workers.runtime.brakes import log_brake, log_places_left
from workers.runtime.database import WorkerDatabase
from workers.runtime.verified import VerifyingProvider

log = structlog.get_logger(__name__)

_IMAGE_SECONDS = 600.0
_NO_IMAGE_SECONDS = 30.0
_TRUST_SECONDS = 60.0
_SILENT_SECONDS = 2.0
"""After a call without an answer, so long nobody else asks the account the same kind of thing: hundreds of leases may want to."""
_SET_ASIDE = ("failing", "disabled")
_ImageKey = tuple[str, str, str | None, Driver]
"""Account, region, name of the image and driver."""
Connect = Callable[[AccountSettings, Settings], Provider]


class IdentityChanged(CredentialsRejected):
    """The credentials are somebody else's: the account is disabled until the right ones are back."""


class Accounts:
    """Adapters by account name, connected on first use."""

    def __init__(
        self,
        database: WorkerDatabase,
        settings: Settings,
        configured: Mapping[str, AccountSettings],
        connect: Connect,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._settings = settings
        self._configured = dict(configured)
        self._connect = connect
        self._providers: dict[str, Provider] = {}
        self._trusted_until: dict[str, float] = {}
        self._unreachable_since: dict[str, float] = {}
        self._silent: dict[str, tuple[float, OutcomeUnknown | Unreachable]] = {}
        self._images: dict[_ImageKey, tuple[float, Image | InvalidSpec]] = {}
        self._refused_images: dict[tuple[str, str, str], tuple[float, Refused]] = {}
        self._lock = threading.Lock()

    def save(self) -> None:
        """Writes the configuration to the database: new accounts, changed settings, those that left are draining.

        Settings that have their default are not stored. Workers of the previous version, which do not know the newest
        settings, can then read the row.
        """
        names = list(self._configured)
        with self._database.begin() as connection:
            for account in self._configured.values():
                config = account.model_dump(mode="json", exclude_defaults=True)
                connection.execute(*accounts.save_account(account.name, account.provider, config, account.vm_parts))
            drained = connection.execute(*accounts.drain_accounts(names)).all()
            if self._configured:
                connection.execute(*accounts.ensure_regions(self._places(self._configured)))
            used = connection.execute(*accounts.places_in_use()).all()
        log_places_left(
            [row.name for row in drained], used, {name: account.regions for name, account in self._configured.items()}
        )

    def places(self) -> list[tuple[str, str]]:
        """Every (account, region) to observe: configured ones, accounts left with live attempts, and regions left with them."""
        rows = self._database.all(accounts.accounts_in_use(self._configured))
        stored = {row.name: account_from_json(row.config) for row in rows}
        left = [(row.account, row.region) for row in self._database.all(accounts.places_in_use())]
        return list(dict.fromkeys([*self._places({**stored, **self._configured}), *sorted(left)]))

    def regions(self, name: str) -> list[str]:
        """The regions of an account to observe; none when it is not in use any more."""
        return [region for account, region in self.places() if account == name]

    def with_events(self) -> list[str]:
        """Names of the configured accounts that have a queue of events."""
        return [account.name for account in self._configured.values() if account.tells_events]

    @staticmethod
    def _places(accounts: Mapping[str, AccountSettings]) -> list[tuple[str, str]]:
        return [(account.name, region) for account in accounts.values() for region in account.regions]

    def provider(self, name: str) -> Provider:
        """The adapter of an account; one that left the configuration is served from its stored settings."""
        with self._lock:
            if name not in self._providers:
                connected = self._connect(self._config(name), self._settings)
                self._providers[name] = VerifyingProvider.over(connected, lambda: self.check_identity(name))
            return self._providers[name]

    def _config(self, name: str) -> AccountSettings:
        if name in self._configured:
            return self._configured[name]
        for row in self._database.all(accounts.accounts_in_use([name])):
            if row.name == name:
                return account_from_json(row.config)
        msg = f"no account is named {name!r}"
        raise LookupError(msg)

    def provider_name(self, name: str) -> str:
        """aws, gcp or azure."""
        return self._config(name).provider

    def ssh_port(self, name: str) -> int:
        """The port of the SSH server in the VMs of an account."""
        return self._config(name).ssh_port

    def named_images(self, name: str) -> tuple[str, ...]:
        """The names by which leases may request an image of an account."""
        return tuple(sorted(self._config(name).images))

    def with_image(self, offering: Offering, named: str | None, image: Image) -> Offering:
        """The offering with the parts that a VM gets if it is launched there now. `named`: the image of the request."""
        image_gib = {image_key(named, offering.type.gpu.driver): image.disk_gib}
        return replace(offering, parts=replace(self._config(offering.key.account).vm_parts, image_gib=image_gib))

    def is_extendable(self, name: str) -> bool:
        """Whether leases that are placed in the account may be extended."""
        return self._config(name).is_extendable

    def reservations(self, name: str, region: str) -> tuple[ReservationSettings, ...]:
        """The reservations of a configured account in a region. One that left the configuration offers none."""
        account = self._configured.get(name)
        return () if account is None else account.reservations_in(region)

    def image(self, name: str, region: str, image_name: str | None = None, driver: Driver = Driver.NVIDIA) -> Image:
        """The account's image in a region: its default one with `driver`, or the one named `image_name`.

        Raises ProviderError.

        Looked up at most every ten minutes, and every half a minute while there is none of that name.
        """
        key = (name, region, image_name, driver)
        known = self._known_image(key)
        if known is None:
            until, known = self._look_up(key, self._monotonic())
            self._images[key] = until, known
        if isinstance(known, InvalidSpec):
            raise known
        return known

    def asks_nothing(self, name: str, region: str, image_name: str | None, driver: Driver) -> bool:
        """Whether `require_identity` and `image` answer from what this process knows, without a call to the cloud."""
        return self._is_trusted(name) and self._known_image((name, region, image_name, driver)) is not None

    def _known_image(self, key: _ImageKey) -> Image | InvalidSpec | None:
        """What was looked up not long ago. None: it is to be looked up."""
        until, known = self._images.get(key, (0.0, None))
        return known if self._monotonic() < until else None

    def _is_trusted(self, name: str) -> bool:
        return self._monotonic() < self._trusted_until.get(name, 0.0)

    def refuse_image(self, name: str, region: str, image: str, error: Refused) -> None:
        """A launch with this named image was refused, and the image may be the cause: it is not tried for a while.

        The offering stays available, so that no tenant can set it aside for the others.
        """
        self._refused_images[name, region, image] = self._monotonic() + _IMAGE_SECONDS, error

    def check_image(self, name: str, region: str, image: str | None) -> None:
        """Raises the refusal of a launch with this named image in the last ten minutes."""
        until, error = self._refused_images.get((name, region, image or ""), (0.0, None))
        if error is not None and self._monotonic() < until:
            raise error.with_traceback(None)

    def _look_up(self, key: _ImageKey, now: float) -> tuple[float, Image | InvalidSpec]:
        name, region, image_name, driver = key
        try:
            with self._reaching(name):
                image = self.provider(name).image(region, image_name, driver)
        except InvalidSpec as error:
            if image_name is None:
                raise  # its offerings are set aside, which takes the place of remembering it here
            return now + _NO_IMAGE_SECONDS, error
        self._database.run(accounts.save_image_size(name, region, image_key(image_name, driver), image.disk_gib))
        return now + _IMAGE_SECONDS, image

    def check_identity(self, name: str) -> None:
        """Asks the account who it is and pins that at first use.

        Wrong credentials give complete, empty listings: nothing an account says is believed before this. Raises
        CredentialsRejected, with the account set aside (`failing`, or `disabled` when it is another one), or another
        ProviderError when it could not be asked.
        """
        try:
            with self._reaching(name):
                identity = self.provider(name).identity()
        except CredentialsRejected as error:
            self.set_aside(name, error)
            raise
        self._pin(name, identity)
        self.provider(name).trust(identity)
        self._trusted_until[name] = self._monotonic() + _TRUST_SECONDS

    def out_of_reach(self, name: str) -> float:
        """Seconds for which the account's cloud has given this process no answer; 0 when it did last time."""
        since = self._unreachable_since.get(name)
        return 0.0 if since is None else self._monotonic() - since

    @contextmanager
    def _reaching(self, name: str) -> Iterator[None]:
        """Around a call. Raises what the last one raised when that was a moment ago and the account gave no answer."""
        silent = self._silent.get(name)
        if silent is not None and self._monotonic() < silent[0]:
            raise silent[1].with_traceback(None)
        try:
            yield
        except (OutcomeUnknown, Unreachable) as error:
            now = self._monotonic()
            self._unreachable_since.setdefault(name, now)
            self._silent[name] = now + _SILENT_SECONDS, error
            raise
        self._unreachable_since.pop(name, None)
        self._silent.pop(name, None)

    def require_identity(self, name: str) -> None:
        """The same, at most once a minute in this process."""
        if not self._is_trusted(name):
            self.check_identity(name)

    def _pin(self, name: str, identity: str) -> None:
        if self._is_ours(name, identity):
            return
        self._trusted_until.pop(name, None)
        error = IdentityChanged(f"the credentials belong to {identity}, not to the account first seen as {name!r}")
        self._database.run(accounts.account_failed(name, "disabled", error_json(error)))
        log_brake(BrakeName.PINNED_IDENTITY, account=name, identity=identity)
        raise error

    def _is_ours(self, name: str, identity: str) -> bool:
        """Pins the identity, or compares it; an account that is back wakes the leases that wait for an offering."""
        with self._database.begin() as connection:
            before = connection.execute(*accounts.account_state(name)).scalar()
            if connection.execute(*accounts.account_ok(name, identity)).first() is None:
                return False
            if before in _SET_ASIDE:
                connection.execute(accounts.wake_queued())
        return True

    def verdict(self, name: str, error: ProviderError) -> ProviderError:
        """What an error means for the account.

        A provider answers a forbidden type, image or region like wrong credentials. The account is set aside only when
        it does not accept us at all, which `identity` shows. Otherwise the result is NotPermitted.
        """
        if not isinstance(error, CredentialsRejected) or isinstance(error, IdentityChanged):
            return error
        try:
            self.check_identity(name)
        except CredentialsRejected:
            return error
        except ProviderError:
            log.warning("identity unknown after a refusal", account=name, code=error.code)
        refusal = NotPermitted(error.message, code=error.code)
        refusal.may_concern_image = error.may_concern_image
        return refusal

    def set_aside(self, name: str, error: ProviderError) -> None:
        """The account does not accept our credentials: nothing is placed there until a check succeeds."""
        log_brake(BrakeName.CREDENTIALS_REJECTED, account=name, code=error.code, error=error.message)
        self._trusted_until.pop(name, None)
        self._database.run(accounts.account_failed(name, "failing", error_json(error)))


def error_json(error: ProviderError) -> dict[str, str | None]:
    """How a provider's error is kept: our class, its raw code and words. Tenants see `public_error` of it."""
    message = error.message.removeprefix(f"{error.code}: ")  # the adapters' messages also stand alone, in logs
    return {"class": error.kind, "code": error.code, "message": message}
