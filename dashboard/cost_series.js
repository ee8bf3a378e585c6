/** Turns answers of GET /v1/costs into series for charts and into rankings. Sums are for display, never for a bill. */
import { now } from "./clock.js";
import { marketName, providerName } from "./format.js";
import { asTime, ceiling, DAY, LENGTHS, monthsBefore, stepsBetween } from "./steps.js";

/** What the range picker offers, and the buckets of each: the first one unless the address says more. `months`: of that bucket. */
export const RANGES = {
  "24h": { name: "24 hours", days: 1, buckets: ["hour"] },
  "7d": { name: "7 days", days: 7, buckets: ["day", "hour"] },
  "30d": { name: "30 days", days: 30, buckets: ["day"] },
  "90d": { name: "90 days", days: 90, months: 3, buckets: ["day", "month"] },
  "12m": { name: "12 months", days: 365, months: 12, buckets: ["month", "day"] },
};

const MOST_SERIES = 10;
const SHOWN = { provider: providerName, market: marketName };

/** `from` and `bucket` of a range as query parameters. They stay the same within a bucket. */
export function rangeQuery(range, bucket) {
  const whole = bucket === "hour" && range !== "24h" ? "day" : bucket;
  const end = ceiling(now() / 1000, whole);
  const { days, months } = RANGES[range];
  const from = whole === "month" ? monthsBefore(end, months) : end - days * DAY;
  return `from=${encodeURIComponent(asTime(from))}&bucket=${bucket}`;
}

/** The path of a report that is divided by `groupBy`; of one tenant, or without it of all that the key sees. */
export function costsPath(range, bucket, groupBy, tenantId = null) {
  const tenant = tenantId ? `&tenant_id=${encodeURIComponent(tenantId)}` : "";
  return `/v1/costs?${rangeQuery(range, bucket)}&group_by=${encodeURIComponent(groupBy)}${tenant}&limit=200`;
}

const AMOUNTS = ["cost", "compute", "disk", "address", "list_cost", "savings", "gpu_hours"];

/** The sums of each group over all buckets, the most expensive first: `{key, cost, …}`. `key` null: without a value. */
export function byGroup(items, groupBy) {
  const sums = new Map();
  for (const item of items) {
    const key = item.group[groupBy];
    const sum = sums.get(key) ?? { key, ...Object.fromEntries(AMOUNTS.map((name) => [name, 0])) };
    for (const name of AMOUNTS) sum[name] += Number(item[name]);
    sums.set(key, sum);
  }
  return [...sums.values()].sort((a, b) => b.cost - a.cost);
}

/** `{length, starts, series}` of the cost in each bucket: the most expensive groups, and `other` for the rest. */
export function costSeries({ starts_at: from, ends_at: to, items }, bucket, groupBy, names = new Map()) {
  const seconds = (text) => Date.parse(text) / 1000;
  const { starts, places } = stepsBetween(seconds(from), seconds(to), bucket);
  const groups = byGroup(items, groupBy).filter((group) => group.cost > 0);
  const kept = new Set(groups.slice(0, groups.length > MOST_SERIES ? MOST_SERIES - 1 : MOST_SERIES).map((group) => group.key));
  const series = new Map();
  for (const { key, cost } of groups) {
    const shown = kept.has(key) ? key : "other";
    const one = series.get(shown) ?? { key: shown, name: nameOf(shown, groupBy, names), values: starts.map(() => 0), total: 0 };
    one.total += cost;
    series.set(shown, one);
  }
  for (const item of items) {
    const one = series.get(kept.has(item.group[groupBy]) ? item.group[groupBy] : "other");
    if (one) one.values[places.get(seconds(item.start))] += Number(item.cost);
  }
  return { length: LENGTHS[bucket], starts, series: [...series.values()] };
}

const nameOf = (key, groupBy, names) => (key === null ? "none" : names.get(key) ?? SHOWN[groupBy]?.(key) ?? key);

/** The part of a cost that paid for GPUs without load; null while that is unknown. */
export function idleCost({ cost, gpu_hours: hours, idle_gpu_hours: idle }) {
  return idle === null ? null : hours ? (Number(cost) * idle) / hours : 0;
}
