/** What an operator must know of, from the operators' summary: `name` as in alerts and in `gpulease ops summary`. */
import { counted } from "./format.js";

const LONG_WAIT = 60;

const place = (row) => [row.account, row.region].filter(Boolean).join("/");
const coded = (row) => [row.code, row.message].filter(Boolean).join(" ");

/** Items of {name, place, since, message}: brakes first. `since` may be undefined: it is not known. */
export function troubles(summary) {
  const { events, overdue } = summary;
  return [
    ...summary.active_brakes.map((row) => ({ name: row.brake, place: place(row), since: row.since, message: row.message })),
    ...summary.warnings.map((text) => ({ name: "warning", message: text })),
    ...summary.refused_launches.map((row) => ({ name: row.reason, place: place(row), since: row.since, message: `launches refused: ${row.launches}. ${coded(row)}` })),
    ...summary.failed_checks.map((row) => ({ name: "failed checks", place: row.account, message: row.names.join(", ") })),
    ...summary.late_jobs.map((row) => ({ name: `late job ${row.kind}`, place: place(row), since: row.since, message: row.last_error })),
    ...summary.lost_hosts.map((row) => ({ name: "lost host", place: row.host, message: `without a ${row.kind}` })),
    ...(overdue.seconds > LONG_WAIT ? [{ name: "queue", message: `${counted(overdue.leases, "lease")} ${overdue.leases === 1 ? "waits" : "wait"} for a worker, the oldest for ${Math.round(overdue.seconds)} s` }] : []),
    ...(events.unnumbered_seconds > LONG_WAIT ? [{ name: "events", message: `the oldest has no number after ${Math.round(events.unnumbered_seconds)} s` }] : []),
    ...(events.webhooks_seconds > LONG_WAIT ? [{ name: "webhooks", message: `one has waited for a worker for ${Math.round(events.webhooks_seconds)} s` }] : []),
    ...(summary.unlisted_charges ? [{ name: "unlisted charges", message: counted(summary.unlisted_charges, "resource") }] : []),
    ...summary.orphans.map((row) => ({ name: row.cause, message: counted(row.orphans, "orphan") })),
    ...summary.ghost_leases.map((row) => ({ name: "leases without a VM", place: place(row), message: `${row.leases}` })),
    ...summary.stuck.map((row) => ({ name: `stuck ${row.kind}`, place: row.lease_id, since: row.since, message: row.reason })),
    ...summary.invariants.broken.map((row) => ({ name: row.name, since: row.since, message: `${counted(row.violations, "violation")} of an invariant` })),
  ];
}
