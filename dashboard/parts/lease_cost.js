/** What a lease costs, what caps it, and when and why it ends. */
import { now } from "../clock.js";
import { fullTime, shortTime, span, usd } from "../format.js";
import { useLive } from "../live.js";
import { mayManageLeases } from "../session.js";
import { html } from "../ui.js";
import { Accrued, Ago, Facts, Left, Meter } from "./basics.js";

const PARTS = { compute: "compute", disk: "disks", address: "address" };
const QUOTES_KEPT_MS = 7 * 86_400_000;

const missingOf = ({ parts }) => Object.keys(PARTS).filter((name) => parts && parts[name] === null).map((name) => PARTS[name]);

/** The rate and its parts in words. A part without a known price is left out. */
export function rateText({ price_per_hour: rate, parts }) {
  if (rate === null) return "not billed now";
  const known = Object.keys(PARTS).filter((name) => parts[name] !== null);
  const each = known.length > 1 ? `: ${known.map((name) => `${PARTS[name]} ${usd(parts[name])}`).join(", ")}` : "";
  return `${usd(rate)} an hour${each}`;
}

/** Why the lease ends when it does. */
export const endText = (lease) =>
  Date.parse(lease.ends_at) < Date.parse(lease.expires_at) ? `The cost reaches ${usd(lease.max_cost)}. The term ends ${shortTime(lease.expires_at)}.` : "The term is over.";

const warnings = (seconds) => (seconds === null ? "as the installation is configured" : seconds.length ? `${seconds.map(span).join(", ")} before the end` : "none");

export function LeaseCost({ lease }) {
  const { cost, estimate } = lease;
  return html`
    <${Facts} rows=${[
      ["Cost", html`<span class="strong"><${Accrued} cost=${cost} /></span>`],
      ["Rate", rateText(cost)],
      lease.max_cost !== null ? ["Max cost", html`<${Meter} used=${cost.accrued} limit=${lease.max_cost} show=${usd} />`] : ["Max cost", "none"],
      estimate && ["Estimate", `${usd(estimate.price_for_term)} for the term, ${usd(estimate.price_per_hour)} an hour, with disks and address`],
      lease.quote_id && ["Quote", html`<${Quoted} lease=${lease} />`],
      ["Not included", [...missingOf(cost), "traffic"].join(", ")],
      ["Created", html`<${Ago} at=${lease.created_at} />`],
      ["Ready after", lease.ready_at ? span((Date.parse(lease.ready_at) - Date.parse(lease.created_at)) / 1000) : null],
      !lease.terminal && ["Time left", html`<${Left} at=${lease.ends_at} />`],
      lease.terminal ? ["Ended", fullTime(lease.ended_at)] : ["Ends", html`${fullTime(lease.ends_at)}<span class="under">${endText(lease)}</span>`],
      !lease.terminal && ["Warnings", warnings(lease.expiry_warnings_seconds)],
    ]} />
  `;
}

/** The price that the lease was created at. Quotes are kept for a week. */
function Quoted({ lease }) {
  const kept = mayManageLeases() && now() - Date.parse(lease.created_at) < QUOTES_KEPT_MS;
  const { data } = useLive(kept ? `/v1/quotes/${lease.quote_id}` : null, 3600);
  return data ? html`launched at ${usd(data.price_per_hour)} an hour or less, ${usd(data.total)} in total` : html`<span class="id">${lease.quote_id}</span>`;
}
