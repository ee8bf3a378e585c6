/** Turns answers of GET /v1/usage into series for charts: one value for each step, also where nothing was used. */
import { providerName } from "./format.js";
import { now } from "./clock.js";
import { asTime, ceiling, DAY, LENGTHS, stepsBetween } from "./steps.js";

/** What the range picker offers. Up to a week hour by hour, beyond that day by day. */
export const RANGES = {
  "24h": { name: "24 hours", seconds: DAY, step: "hour" },
  "7d": { name: "7 days", seconds: 7 * DAY, step: "hour" },
  "30d": { name: "30 days", seconds: 30 * DAY, step: "day" },
  "90d": { name: "90 days", seconds: 90 * DAY, step: "day" },
};

/** The path of a report. It stays the same within a step, so that an unchanged answer costs nothing. */
export function usagePath(range, groupBy) {
  const { seconds, step } = RANGES[range];
  const from = asTime(ceiling(now() / 1000, step) - seconds);
  return `/v1/usage?from=${encodeURIComponent(from)}&step=${step}&group_by=${groupBy}`;
}

/** The starts of all steps in seconds, and where each item belongs. */
function steps(usage) {
  const { starts, places } = stepsBetween(Date.parse(usage.starts_at) / 1000, Date.parse(usage.ends_at) / 1000, usage.step);
  return { length: LENGTHS[usage.step], starts, place: (item) => places.get(Date.parse(item.starts_at) / 1000) };
}

/** `{length, starts, series}` with a series `{key, name, values, total}` per group: `value(item)` in each step. */
export function byGroup(usage, value, total) {
  const { length, starts, place } = steps(usage);
  const series = usage.groups.map((group) => ({
    key: group.group,
    name: groupName(usage.group_by, group),
    values: starts.map(() => 0),
    total: total(group),
  }));
  const byKey = new Map(series.map((one) => [one.key, one.values]));
  for (const item of usage.items) byKey.get(item.group)[place(item)] = value(item);
  return { length, starts, series: series.filter((one) => one.values.some(Boolean)) };
}

/** The same for a report without groups: a series for each of `measures` `{key, name, of}`; `empty` where nothing is. */
export function byMeasure(usage, measures, empty) {
  const { length, starts, place } = steps(usage);
  const series = measures.map(({ key, name, of }) => {
    const values = starts.map(() => empty);
    for (const item of usage.items) values[place(item)] = of(item);
    return { key, name, values, total: usage.groups[0] && key in usage.groups[0] ? usage.groups[0][key] : null };
  });
  return { length, starts, series };
}

function groupName(groupBy, { group, name }) {
  if (group === null) return "all";
  if (group === "other") return "other";
  if (group === "unknown") return "no offering yet";
  return groupBy === "provider" ? providerName(group) : groupBy === "tenant" ? (name ?? group) : group;
}
