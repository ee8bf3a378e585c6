"""Bodies and views about SSH host keys."""

from typing import Annotated

from pydantic import AfterValidator, Field

from app.api.schemas.base import Body
from app.services.leases.host_keys import LONGEST_KEY, host_public_key, one_of_each_type

_MOST_KEYS = 5


class HostKeys(Body):
    """The public SSH host keys of one VM."""

    keys: Annotated[
        list[Annotated[str, Field(max_length=LONGEST_KEY), AfterValidator(host_public_key)]],
        Field(min_length=1, max_length=_MOST_KEYS, description="`<type> <base64>` each, without a comment."),
        AfterValidator(one_of_each_type),
    ]
