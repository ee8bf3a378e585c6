"""What attempts leave behind at a provider, judged by their rows."""

from collections.abc import Iterable

from sqlalchemy import Executable, text

_JUDGED = text(
    """
    SELECT k.lease_id, k.n, a.id IS NULL AND o.id IS NULL AS rowless,
           coalesce(a.account = :account AND a.region = :region AND a.state IN ('refused', 'dead'), FALSE)
           OR coalesce(o.account = :account AND o.region = :region, FALSE) AS ended
    FROM unnest(CAST(:leases AS text[]), CAST(:ns AS int[])) AS k (lease_id, n)
    LEFT JOIN attempt a USING (lease_id, n) LEFT JOIN attempt_archive o USING (lease_id, n)
    WHERE EXISTS (SELECT FROM installation WHERE hold IS NULL)
    """
)


_GROUPS_JUDGED = text(
    """
    SELECT k.id, g.id IS NULL AS rowless, coalesce(g.state = 'ended', FALSE) AS ended
    FROM unnest(CAST(:groups AS text[])) AS k (id) LEFT JOIN lease_group g USING (id)
    WHERE EXISTS (SELECT FROM installation WHERE hold IS NULL)
    """
)


def groups_judged(group_ids: Iterable[str]) -> Executable:
    """Of each group: whether it has ended (`ended`), or there is no such group (`rowless`).

    No row while the installation is on hold.
    """
    return _GROUPS_JUDGED.bindparams(groups=sorted(group_ids))


def judged(account: str, region: str, keys: Iterable[tuple[str, int]]) -> Executable:
    """Of each of `keys` (lease_id, n): whether its attempt has ended there (`ended`), or there is no such attempt (`rowless`).

    No row while the installation is on hold.
    """
    keys = list(keys)
    return _JUDGED.bindparams(
        account=account, region=region, leases=[key[0] for key in keys], ns=[key[1] for key in keys]
    )
