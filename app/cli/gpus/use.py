"""What agents report of a lease's GPUs, in short texts: checks, health, use and idleness."""

from collections.abc import Iterable, Iterator

from rich.text import Text

from app.cli.errors import Json
from app.cli.render import times
from app.cli.render.output import at, printable, since

HEALTH_STYLES = {"healthy": "green", "degraded": "yellow", "failing": "red", "unknown": "dim"}


def percent(value: object) -> str | None:
    """`71 %`. None where nothing is known."""
    return None if value is None else f"{float(str(value)):.0f} %"


def health_status(item: Json) -> Text | None:
    """The health in its colour, of a lease or of an entry of the fleet. None before the first report."""
    member = item.get("health")
    status = member.get("status") if isinstance(member, dict) else member
    return Text(printable(str(status)), style=HEALTH_STYLES.get(str(status), "")) if status else None


def proof(item: Json) -> str | None:
    """`passed by network, driver 570.124, CUDA 12.8, 8 GPUs`, then a line for each finding. None if nothing was requested."""
    record = item.get("proof")
    if not record:
        return None
    facts = [
        " by ".join(str(part) for part in (record.get("status"), record.get("via")) if part),
        *(f"{word} {record[name]}" for name, word in _VERSIONS if record.get(name)),
        *([f"{len(record['gpus'])} GPU{'' if len(record['gpus']) == 1 else 's'}"] if record.get("gpus") else []),
    ]
    return "\n".join([", ".join(facts), *_findings(record)])


_VERSIONS = (("driver_version", "driver"), ("cuda_version", "CUDA"))


def health(item: Json) -> str | None:
    """`failing for 5 min 2 s`, then a line for each finding. None before the first report."""
    record = item.get("health")
    if not record:
        return None
    lasting = _lasting(record.get("since"))
    return "\n".join([f"{record.get('status')}{f' for {lasting}' if lasting else ''}", *_findings(record)])


def _findings(record: Json) -> Iterator[str]:
    for finding in record.get("findings") or ():
        gpu = f" ({finding['gpu']})" if finding.get("gpu") else ""
        yield f"{finding.get('code')}: {finding.get('message')}{gpu}"


def utilization(item: Json) -> str | None:
    """`71 % of the GPUs, 40 % of their memory, 20 s ago, 3 samples refused`. None before the first sample."""
    sample = item.get("utilization")
    if not sample:
        return None
    gpu, memory, when = (
        percent(sample.get("gpu_percent")),
        percent(sample.get("memory_percent")),
        since(sample.get("at")),
    )
    refused = sample.get("refused")
    lost = refused and f"{refused} sample{'' if refused == 1 else 's'} refused"
    parts = (gpu and f"{gpu} of the GPUs", memory and f"{memory} of their memory", when, lost)
    return ", ".join(part for part in parts if part)


def idle(item: Json) -> str | None:
    """`for 48 min 20 s, ends in 11 min 40 s`. None for a lease that is not idle."""
    idleness = item.get("idle")
    if not idleness:
        return None
    end = since(idleness.get("ends_at"))
    return f"for {idle_time(item)}{f', ends {end}' if end else ''}"


def idle_time(item: Json) -> str | None:
    """How long the lease is idle: `48 min 20 s`. None for a lease that is not idle."""
    return _lasting(at(item, "idle.since"))


def _lasting(began: str | None) -> str | None:
    moment = times.parse_time(began)
    return times.duration((times.now() - moment).total_seconds()) if moment else None


def each_percent(values: Iterable[object]) -> str:
    """`98 97 0 ?`: the utilization of each GPU in the order of the driver; `?` where it is unknown."""
    return " ".join("?" if value is None else f"{float(str(value)):.0f}" for value in values)
