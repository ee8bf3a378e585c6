"""Every class of provider error has a kind, and none is without a class or a word of ours."""

from app.domain.error_kinds import ErrorKind
from workers.providers.errors import ProviderError
from workers.runtime.accounts import IdentityChanged

OWN = {
    ErrorKind.NEVER_SEEN,
    ErrorKind.LOST,
    ErrorKind.VM_ENDED,
    ErrorKind.LAUNCH_TIMEOUT,
    ErrorKind.MASS_LOSS,
    ErrorKind.GPU_CHECK_FAILED,
}


def classes(base: type[ProviderError]) -> set[type[ProviderError]]:
    return {base}.union(*(classes(each) for each in base.__subclasses__() if each.__module__.startswith("workers.")))


def test_each_class_has_a_kind_and_each_kind_a_class() -> None:
    assert IdentityChanged in classes(ProviderError)
    kinds = {each("message").kind for each in classes(ProviderError)}
    assert kinds == set(ErrorKind) - OWN
