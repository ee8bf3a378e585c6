"""The objects of the API, generated from its description. `from_dict` and `to_dict` convert them from and to JSON."""

from gpulease_client.core.models import *  # noqa: F403 - exactly the generated models
