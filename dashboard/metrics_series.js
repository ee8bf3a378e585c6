/** Turns answers of GET /v1/leases/{id}/metrics and GET /v1/metrics/fleet into series for charts, sparklines and sums. */
import { now } from "./clock.js";
import { asTime } from "./steps.js";

const HOUR = 3600;

/** What the range picker of a lease offers. `step`: seconds between two points of a chart. */
export const RANGES = {
  "1h": { name: "1 hour", seconds: HOUR, step: 60 },
  "24h": { name: "24 hours", seconds: 24 * HOUR, step: 300 },
  "7d": { name: "7 days", seconds: 7 * 24 * HOUR, step: HOUR },
};

const MOST_LINES = 8;

/** The path of a lease's series. It stays the same within a step, so that an unchanged answer costs nothing. */
export function metricsPath(leaseId, range) {
  const { seconds, step } = RANGES[range];
  const end = Math.ceil(now() / 1000 / step) * step;
  return `/v1/leases/${encodeURIComponent(leaseId)}/metrics?from=${encodeURIComponent(asTime(end - seconds))}&to=${encodeURIComponent(asTime(end))}&step=${step}`;
}

/** `{length, starts, series}` of one measure for a chart: a line for each of a few GPUs, else one for the lease. */
export function measureSeries(metrics, measure) {
  const { at, step_seconds: length, series } = metrics;
  const gpus = ofOneVm(metrics.gpus, measure);
  const each = gpus.length > 1 && gpus.length <= MOST_LINES;
  const lines = each
    ? gpus.map(({ uuid, values }, index) => ({ key: uuid, name: `GPU ${index}`, values }))
    : [{ key: measure, name: gpus.length > 1 ? `all ${gpus.length} GPUs` : "GPU", values: series[measure] }];
  const starts = at.map((moment) => Date.parse(moment) / 1000);
  return { length, starts, series: lines.map((line) => ({ ...line, total: newest(line.values) })) };
}

/** The GPUs of one VM, `[{uuid, values}]`: a GPU of a replacement VM continues the line of one that ended before. */
function ofOneVm(gpus, measure) {
  const lines = [];
  for (const gpu of gpus) {
    const values = gpu[measure];
    const known = gpu.gpu_percent ?? values;
    const first = known.findIndex((value) => value !== null);
    const last = known.findLastIndex((value) => value !== null);
    const before = first < 0 ? null : lines.find((line) => line.last < first || (line.last === first && line.first < first));
    if (before) Object.assign(before, { uuid: gpu.uuid, last, values: before.values.map((value, step) => values[step] ?? value) });
    else lines.push({ uuid: gpu.uuid, first, last, values });
  }
  return lines;
}

/** The last value that is known, or null. */
export const newest = (values) => values.findLast((value) => value !== null) ?? null;

/** True when at least one sample came. */
export const anySample = (metrics) => metrics.series.gpu_percent.some((value) => value !== null);

/** The mean of the known values, or null. */
export function mean(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

/**
 * A line through the values as SVG path data: one unit for each step, and 0 to `height` downwards. A gap ends the line; a
 * value between two gaps is a dash.
 */
export function linePath(values, height) {
  const y = (value) => Number((height - (Math.min(Math.max(value, 0), 100) / 100) * height).toFixed(2));
  const parts = [];
  values.forEach((value, step) => {
    if (value === null) return;
    const joined = step > 0 && values[step - 1] !== null;
    parts.push(`${joined ? "L" : "M"}${step} ${y(value)}`);
    if (!joined && (values[step + 1] ?? null) === null) parts.push(`h0.9`);
  });
  return parts.join("");
}

/** How much of a GPU is used, in words of the heat map: unknown, idle, low, half, high, full. */
export function loadOf(percent) {
  if (percent === null || percent === undefined) return "unknown";
  return percent <= 5 ? "idle" : percent <= 25 ? "low" : percent <= 50 ? "half" : percent <= 75 ? "high" : "full";
}

/** True when something is known of a lease's GPUs. */
export const isKnown = (lease) => lease.health !== null || lease.gpus.some((percent) => percent !== null);

/** The leases of a fleet that a map shows, at most `most`, and the others: those of which nothing is known come last. */
export function mapped(leases, most) {
  if (leases.length <= most) return { shown: leases, rest: [] };
  const shown = leases.filter(isKnown).slice(0, most);
  const chosen = new Set(shown);
  return { shown, rest: leases.filter((lease) => !chosen.has(lease)) };
}

/** The leases of a fleet by GPU model, the model with the most GPUs first: `[{model, leases, gpus, mean}]`. */
export function byModel(leases) {
  const found = new Map();
  for (const lease of leases) {
    const model = lease.gpu_model ?? "unknown model";
    const group = found.get(model) ?? { model, leases: [], values: [] };
    group.leases.push(lease);
    group.values.push(...lease.gpus);
    found.set(model, group);
  }
  const groups = [...found.values()].map(({ model, leases: own, values }) => ({ model, leases: own, gpus: values.length, mean: mean(values) }));
  return groups.sort((a, b) => b.gpus - a.gpus || a.model.localeCompare(b.model));
}
