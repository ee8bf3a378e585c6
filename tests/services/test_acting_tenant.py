"""The tenant that a request names."""

import pytest

from app.api.schemas.lease_bodies import NewLease
from app.domain.ids import KeyId, TenantId
from app.services.acting_tenant import whose
from app.services.errors import InvalidRequest
from app.services.principal import Principal, Role

OWN = TenantId("tenant_01jz0000000000000000000001")
OTHER = TenantId("tenant_01jz0000000000000000000002")
ADMIN = Principal(
    key_id=KeyId("key_01jz0000000000000000000001"),
    key_name="admin",
    role=Role.ADMIN,
    tenant_id=OWN,
    address=None,
    request_id="req_1",
)


def test_a_key_of_a_tenant_names_at_most_its_own() -> None:
    assert whose(ADMIN, None) == OWN
    assert whose(ADMIN, OWN) == OWN
    with pytest.raises(InvalidRequest) as refused:
        whose(ADMIN, OTHER)
    (error,) = refused.value.errors
    assert (error.pointer, error.detail) == ("#/body/tenant_id", "only operators may name another tenant")


def test_the_description_of_a_body_says_which_tenant_a_key_may_name() -> None:
    description = NewLease.model_fields["tenant_id"].description
    assert description == "The tenant to act for. Required for operators; others may name only their own."
