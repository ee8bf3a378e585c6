/** Turns answers of GET /v1/usage into series for charts: one value for each step, also where nothing was used. */
import { providerName } from "./format.js";
import { now } from "./clock.js";

const HOUR = 3600;
const DAY = 24 * HOUR;

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
  const length = step === "hour" ? HOUR : DAY;
  const end = Math.ceil(now() / 1000 / length) * length;
  const from = new Date((end - seconds) * 1000).toISOString().replace(".000", "");
  return `/v1/usage?from=${encodeURIComponent(from)}&step=${step}&group_by=${groupBy}`;
}

/** The starts of all steps in seconds, and where each item belongs. */
function steps(usage) {
  const length = usage.step === "hour" ? HOUR : DAY;
  const [first, last] = [Date.parse(usage.starts_at) / 1000, Date.parse(usage.ends_at) / 1000];
  const starts = Array.from({ length: Math.round((last - first) / length) }, (_, step) => first + step * length);
  const place = (item) => Math.round((Date.parse(item.starts_at) / 1000 - first) / length);
  return { length, starts, place };
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
