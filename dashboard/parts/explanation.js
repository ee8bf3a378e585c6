/** Why a lease is not active yet: the verdict on each candidate, what excludes the others, and what would fit now. */
import { count, counted, marketName, NOTHING, providerName, resourceName, span, usd, words } from "../format.js";
import { useLive } from "../live.js";
import { Ago, Awaited, Badge, Facts, Left, Panel, Scroll } from "./basics.js";
import { html } from "../ui.js";

const KINDS = { free: "active", launching: "provisioning", refused: "failed", over_quota: "failed", cooling_off: "queued" };

/** Polled half as often as the lease. A lease that is active or has ended needs no explanation. */
export function Explanation({ lease }) {
  const waits = !lease.terminal && lease.state !== "active";
  const live = useLive(waits ? `/v1/leases/${encodeURIComponent(lease.id)}/explain` : null, 4);
  if (!waits) return null;
  return html`
    <${Panel} title=${lease.state === "releasing" ? "Why it has not ended yet" : "Why it is not active yet"} wide flush>
      <${Awaited} live=${live} rows=${3}>${live.data && html`<${Explained} data=${live.data} />`}<//>
    <//>
  `;
}

function Explained({ data }) {
  return html`
    <div class="explained">
      <p class="strong">${data.summary}</p>
      <${Facts} rows=${facts(data)} />
      ${data.suggestions.length > 0 && html`<${Suggestions} items=${data.suggestions} />`}
      <${Excluded} items=${data.excluded} />
    </div>
    ${data.candidates.length > 0 && html`<${Candidates} data=${data} />`}
  `;
}

function facts({ since, next_try_at, gives_up_at, typical_ready_seconds, queue, quota }) {
  const short = quota.filter((need) => !need.fits);
  return [
    since && ["Since", html`<${Ago} at=${since} />`],
    next_try_at && ["Next try in", html`<${Left} at=${next_try_at} over="a moment" soon=${0} />`],
    gives_up_at && ["Gives up in", html`<${Left} at=${gives_up_at} over="a moment" soon=${0} />`],
    typical_ready_seconds && ["Usually ready", `${span(typical_ready_seconds)} after the launch`],
    queue && ["Position", `${count(queue.position)} of ${counted(queue.waiting, "queued lease")} by next try, ${count(queue.position_in_tenant)} of ${count(queue.waiting_in_tenant)} in this tenant`],
    short.length && ["Quota", short.map((need) => `${resourceName(need.resource)}: ${need.needed} needed, ${need.free} free`).join("; ")],
  ];
}

const where = (one) => `${one.instance_type} ${marketName(one.market)} in ${providerName(one.provider)} ${one.zone || one.region}`;
const price = (one) => (one.price_per_hour === null ? "no known price" : `${usd(one.price_per_hour)} an hour`);

const Suggestions = ({ items }) => html`
  <div>
    <h3>A new lease with one of these changes would fit now</h3>
    <ul class="lines">${items.map((one) => html`<li key=${one.code}><span class="strong">${one.message}</span> <span class="muted">${where(one.offering)}, ${price(one.offering)}</span></li>`)}</ul>
  </div>
`;

/** Offerings that cannot be used, counted by cause, each with the one that misses by least. */
export const Excluded = ({ items, open = false }) =>
  items.length > 0 &&
  html`
    <details open=${open}>
      <summary>${counted(items.reduce((all, one) => all + one.count, 0), "offering")} excluded</summary>
      <ul class="lines">${items.map((one) => html`<li key=${one.code}><span>${one.message}.</span> <span class="muted">Nearest: ${where(one.nearest)}, ${price(one.nearest)} (${one.nearest_detail})</span></li>`)}</ul>
    </details>
  `;

const Candidates = ({ data }) => html`
  <${Scroll} label="Candidates">
    <table class="list cards">
      <thead><tr><th scope="col">Candidate${data.candidates_count > data.candidates.length ? ` (the best ${data.candidates.length} of ${count(data.candidates_count)})` : ""}</th><th scope="col">Verdict</th><th scope="col">Cause</th><th scope="col" class="n">Cool-off ends in</th><th scope="col" class="n">USD/h</th></tr></thead>
      <tbody>
        ${data.candidates.map(
          ({ offering, verdict, message, cool_off_until, last_attempt }) => html`
            <tr key=${offering.account + offering.zone + offering.instance_type + offering.market}>
              <th scope="row" data-label="Candidate">${offering.instance_type}<span class="under">${providerName(offering.provider)} ${offering.zone || offering.region}, ${marketName(offering.market)}</span></th>
              <td data-label="Verdict"><${Badge} state=${verdict} kind=${KINDS[verdict] ?? "released"} text=${words(verdict)} /></td>
              <td data-label="Cause" class="said">${message}${last_attempt?.error && html`<span class="under">Attempt ${last_attempt.n}: ${last_attempt.error.provider_message ?? last_attempt.error.message}</span>`}</td>
              <td data-label="Cool-off" class="n">${cool_off_until ? html`<${Left} at=${cool_off_until} over="a moment" soon=${0} />` : NOTHING}</td>
              <td data-label="USD/h" class="n">${usd(offering.price_per_hour)}</td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  <//>
`;
