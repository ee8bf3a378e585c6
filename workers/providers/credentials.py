"""Binds each request of an account to credentials whose identity was verified.

Credentials may change between two requests: a renewed session, an edited file, another role of the host. A hook of the SDK shows each
request after it was signed, so that what is compared are the credentials of this very request.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_MOST_REMEMBERED = 16


class CredentialsUnverified(Exception):
    """The request was signed with credentials of unknown or foreign identity, and was not sent. Verify, then repeat.

    It is no answer of the provider about an item, so that no batch takes it for the refusal of one.
    """


@dataclass(slots=True)
class IdentityQuestion:
    """One question for the identity of the credentials that it is signed with."""

    fingerprint: str | None = None


class CredentialGuard:
    """The identities of the credentials that an account has used. May be asked from any thread.

    It lets every request pass until `trust` names the identity that they must have.
    """

    def __init__(self) -> None:
        self._trusted: str | None = None
        self._identities: dict[str, str] = {}
        self._lock = threading.Lock()
        self._here = threading.local()

    def trust(self, identity: str) -> None:
        """From now on a request needs credentials of this identity."""
        self._trusted = identity

    @contextmanager
    def asking(self) -> Iterator[IdentityQuestion]:
        """Around the question for the identity: this thread's requests pass, and `learn` takes note of their credentials."""
        self._here.question = question = IdentityQuestion()
        try:
            yield question
        finally:
            self._here.question = None

    def learn(self, question: IdentityQuestion, identity: str) -> None:
        """The provider's answer. A question that sent no signed request teaches nothing."""
        if question.fingerprint is None:
            return
        with self._lock:
            self._identities.pop(question.fingerprint, None)
            self._identities[question.fingerprint] = identity
            while len(self._identities) > _MOST_REMEMBERED:
                del self._identities[next(iter(self._identities))]

    def check(self, credentials: str) -> None:
        """Called with the credentials of a signed request before it is sent. Raises CredentialsUnverified.

        `credentials`: an access key id or a token; only its hash is kept.
        """
        fingerprint = hashlib.sha256(credentials.encode()).hexdigest()
        question: IdentityQuestion | None = getattr(self._here, "question", None)
        if question is not None:
            question.fingerprint = fingerprint
        elif self._trusted is not None and self._identities.get(fingerprint) != self._trusted:
            raise CredentialsUnverified("the credentials have changed and are not verified yet")
