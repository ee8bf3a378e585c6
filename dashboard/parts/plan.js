/** The live plan of a lease request: what it would cost, which offerings it would try, and what the quota allows. */
import { ask, Away } from "../api.js";
import { count, counted, gpuCount, marketName, resourceName, span, usd } from "../format.js";
import { to } from "../router.js";
import { classes, html, useEffect, useState } from "../ui.js";
import { Badge, Bones, Refused, Scroll } from "./basics.js";
import { Excluded } from "./explanation.js";
import { Icon } from "./icons.js";
import { ZoneOf } from "./places.js";
import { Quote } from "./quote.js";

const TYPING_MS = 350;
const AGAIN_MS = 30_000;
const ASKED = 100;
const SHOWN = 6;

/**
 * `{plan, problem, busy}` of a request. Asked again a moment after the request changes, and every 30 seconds. The plan of
 * the request before stays while the next one is awaited. Without a body there is none. `paused`: nothing is asked, and the
 * answer in flight is given up, because the lease is being created. `path`: of the plan of a lease, or of a group.
 */
export function usePlan(body, paused, path = "/v1/leases/plan") {
  const text = body ? JSON.stringify(body) : null;
  const [state, setState] = useState({ plan: null, problem: null, of: null });
  useEffect(() => {
    if (!text || paused) return undefined;
    const ending = new AbortController();
    let timer = 0;
    const plan = async () => {
      const found = await ask(`${path}?limit=${ASKED}`, JSON.parse(text), ending.signal).then(
        (answer) => ({ plan: answer, problem: null, of: text }),
        (problem) => ({ plan: null, problem, of: text }),
      );
      if (ending.signal.aborted) return;
      setState((before) => (found.problem instanceof Away ? { ...before, of: text } : found));
      timer = setTimeout(plan, AGAIN_MS);
    };
    timer = setTimeout(plan, TYPING_MS);
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [text, paused]);
  if (!text) return { plan: null, problem: null, busy: false };
  return { ...state, busy: state.of !== text };
}

/** `missing`: what the request still lacks. `marked`: the form shows the problem beside its fields. `quote`: of quote.js, for a lease. */
export function Plan({ live: { plan, problem, busy }, quote, missing, marked, request }) {
  return html`
    <section class=${classes("panel plan", busy && "stale")} aria-busy=${busy}>
      <header><h2>Plan</h2>${busy && html`<span class="aside">updating</span>`}</header>
      <div role="status" class="planned">
        ${missing && html`<p class="note">${missing}</p>`}
        ${!missing && problem && (marked ? html`<p class="note">Correct the marked fields.</p>` : html`<${Refused} error=${problem} />`)}
        ${!missing && !problem && (plan ? html`<${Planned} plan=${plan} request=${request} quote=${quote} />` : html`<${Bones} rows=${4} />`)}
      </div>
    </section>
  `;
}

function Planned({ plan, request: { ttl_seconds: term, max_cost: cap }, quote }) {
  const first = plan.candidates[0];
  const offers = distinct(plan.candidates);
  return html`
    ${plan.launches_stopped && html`<p class="notice" data-tone="warn"><${Icon} name="warning" /><span>An operator has stopped all launches. The lease would wait.</span></p>`}
    ${first
      ? html`
          <dl class="sums">
            <div><dt>Price per hour</dt><dd>${usd(plan.cost.price_per_hour)}</dd></div>
            <div><dt>Total for ${span(term)}</dt><dd>${usd(plan.cost.price_for_term)}</dd></div>
          </dl>
          ${plan.size && html`<p class="note">${counted(plan.size, "member")} at ${usd(plan.member_cost.price_per_hour)} an hour each. The table shows the price of one member.</p>`}
          <p class="note">Of the first offering, with ${first.disk_gib} GiB of network disks and its public address. gpulease tries the offerings in this order.${Number(cap) < Number(first.price_for_term) && ` At this price the lease reaches its max cost after ${span((Number(cap) / Number(first.offering.price_per_hour)) * 3600)}.`}</p>
          ${quote && html`<${Quote} live=${quote} />`}
          <${Offers} offers=${offers.slice(0, SHOWN)} />
          ${offers.length > SHOWN && html`<p class="note">${counted(offers.length - SHOWN, "more offering")}${plan.candidates_count > plan.candidates.length && " and others"}.</p>`}
        `
      : html`<p class="refused"><${Icon} name="warning" /> No offering fits this request.</p>`}
    <${Quota} quota=${plan.quota} />
    <${Budgets} items=${plan.budgets ?? []} />
    <${Excluded} items=${plan.excluded_by_reason ?? []} open=${!first} />
  `;
}

/** One row for each instance type, market and region, with the number of its zones. */
function distinct(candidates) {
  const found = new Map();
  for (const one of candidates) {
    const { account, region, instance_type: type, market } = one.offering;
    const key = `${account} ${region} ${type} ${market}`;
    const known = found.get(key);
    if (known) known.zones += 1;
    else found.set(key, { ...one, key, zones: 1 });
  }
  return [...found.values()];
}

const Offers = ({ offers }) => html`
  <${Scroll} label="Offerings of the plan">
    <table class="groups offers">
      <thead><tr><th scope="col">Offering</th><th scope="col" class="n">USD/h</th><th scope="col" class="n">Total</th></tr></thead>
      <tbody>
        ${offers.map(
          ({ key, offering, price_for_term: total, quota_fits: fits, zones }) => html`
            <tr key=${key}>
              <th scope="row">${gpuCount(offering.gpu)} <span class="muted">${marketName(offering.market)}</span>
                <span class="under">${offering.instance_type}, <${ZoneOf} place=${offering} zones=${zones} /></span>
                ${!fits && html`<span class="under bad">exceeds the quota</span>`}
                ${offering.availability.status === "cooling_off" && html`<span class="under">in cool-off after a refusal</span>`}
              </th>
              <td class="n">${usd(offering.price_per_hour)}</td>
              <td class="n">${usd(total)}</td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  <//>
`;

/** What the lease commits at least, and what the budgets have left. */
const Budgets = ({ items }) =>
  items.length > 0 &&
  html`
    <h3><a href=${to("budgets")}>Budgets</a></h3>
    <ul class="lines">
      ${items.map((one) => {
        const left = Math.max(0, Number(one.amount) - Number(one.spent) - Number(one.committed));
        return html`<li key=${one.budget_id}><span>${usd(one.asked)} needed</span><span class="end num">${!one.fits && html`<${Badge} state="failed" text="exceeded" /> `}<span class="muted">${usd(left)} left of ${usd(one.amount)}</span></span></li>`;
      })}
    </ul>
  `;

/** What the lease needs and what the quota has left. */
function Quota({ quota }) {
  const shown = (name, value) => (name === "spend_per_hour" ? usd(value) : count(Number(value)));
  return html`
    <h3>Quota</h3>
    <ul class="lines">
      ${quota.resources.map((need) => {
        const { resource, limit, used, fits } = need;
        const left = limit === null ? "no limit" : `${shown(resource, Math.max(0, Number(limit) - Number(used)))} left of ${shown(resource, limit)}`;
        const none = resource === "gpus" && limit === null;
        return html`<li key=${resource}><span>${resourceName(resource)}: ${shown(resource, need.asked)} needed</span><span class="end num">${!fits && html`<${Badge} state="failed" text="exceeded" /> `}<span class="muted">${none ? "none allowed" : left}</span></span></li>`;
      })}
    </ul>
  `;
}
