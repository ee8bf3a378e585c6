"""What attempts leave behind at a provider, judged by their rows."""

from collections.abc import Iterable

from sqlalchemy import Executable, text

_ENDED = text(
    """
    SELECT a.lease_id, a.n
    FROM attempt a JOIN unnest(CAST(:leases AS text[]), CAST(:ns AS int[])) AS k (lease_id, n) USING (lease_id, n)
    WHERE a.account = :account AND a.region = :region AND a.state IN ('refused', 'dead')
      AND EXISTS (SELECT FROM installation WHERE hold IS NULL)
    """
)


def ended(account: str, region: str, keys: Iterable[tuple[str, int]]) -> Executable:
    """Those (lease_id, n) of `keys` whose attempt has ended there; none while the installation is on hold."""
    keys = list(keys)
    return _ENDED.bindparams(
        account=account, region=region, leases=[key[0] for key in keys], ns=[key[1] for key in keys]
    )
