/** Numbers, money and times as people read them. */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const cents = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" });
const fine = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", maximumFractionDigits: 6 });
const dollars = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
const full = new Intl.DateTimeFormat("en-GB", { ...day, year: "numeric", second: "2-digit", timeZoneName: "short" });
const brief = new Intl.DateTimeFormat("en-GB", { ...day, timeZoneName: "short" });
const listed = new Intl.DateTimeFormat("en-GB", { ...day, second: "2-digit" });
const month = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });

export const NOTHING = "–";

export const count = (value) => whole.format(value);

/** 1 lease, 2 leases. */
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

const FEW = 0.1;

/** USD, with the six decimals of the API below ten cents. Amounts come as decimal strings; nothing adds up what is shown. */
export function usd(value) {
  const amount = Number(value);
  const size = Math.abs(amount);
  return (size >= 100_000 ? dollars : size < FEW ? fine : cents).format(amount);
}

export const percent = (share) => `${whole.format(share * 100)} %`;

/** Seconds as the two units that matter: 3 d 4 h, 2 h 05 m, 4 m 12 s, 9 s. */
export function span(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return NOTHING;
  const all = Math.max(0, Math.round(seconds));
  const [d, h, m, s] = [Math.floor(all / 86400), Math.floor(all / 3600) % 24, Math.floor(all / 60) % 60, all % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${String(m).padStart(2, "0")} m`;
  if (m) return `${m} m ${String(s).padStart(2, "0")} s`;
  return `${s} s`;
}

/** The same with a tenth where seconds are few: 3.4 s. */
export const fineSpan = (seconds) =>
  seconds !== null && seconds < 10 ? `${Number(seconds.toFixed(seconds < 1 ? 2 : 1))} s` : span(seconds);

/**
 * Times are in the browser's zone. `zone()` stands in the heading beside `timeOfDay` and `listedTime`. They name the zone
 * themselves only on the other side of a clock change.
 */
export const timeOfDay = (moment) => clock.format(new Date(moment)) + otherZone(moment);
export const listedTime = (moment) => listed.format(new Date(moment)) + otherZone(moment);
export const fullTime = (moment) => full.format(new Date(moment));
export const shortTime = (moment) => brief.format(new Date(moment));
export const zone = (moment = Date.now()) => full.formatToParts(new Date(moment)).find((part) => part.type === "timeZoneName").value;
const otherZone = (moment) => (zone(moment) === zone() ? "" : ` ${zone(moment)}`);

/** A month of UTC: November 2026. */
export const monthName = (moment) => month.format(new Date(moment));

/** `not_created` → not created. */
export const words = (name) => String(name ?? "").replaceAll("_", " ");

export const PROVIDERS = { aws: "AWS", gcp: "GCP", azure: "Azure" };
export const providerName = (name) => PROVIDERS[name] ?? name;

const RESOURCES = { gpus: "GPUs", leases: "Leases", spend_per_hour: "USD per hour, VMs" };
export const resourceName = (name) =>
  RESOURCES[name] ?? (name.startsWith("gpus:") ? `GPUs, ${name.slice(5)}` : words(name));

export const MARKETS = {
  on_demand: "on demand",
  spot: "spot",
  spot_first: "spot first, then on demand",
  reserved: "reserved",
  reserved_first: "reserved first, then on demand",
  any: "any",
};
export const marketName = (name) => MARKETS[name] ?? words(name);

/** 8 × A100; 8+ × A100 where a request accepts more. */
export const gpuCount = (gpu) => `${gpu.count ?? `${gpu.min_count}+`} × ${gpu.model}`;

/** The GPUs of a lease: those of its VM, or the requested ones. */
export function gpuText(lease) {
  const gpu = lease.placement?.gpu ?? lease.request.gpu;
  return gpu ? gpuCount(gpu) : (lease.request.instance_types ?? []).join(", ") || NOTHING;
}
