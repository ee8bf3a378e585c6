/** What the month will cost at the present rate, and when each budget is exhausted. */
import { now } from "../clock.js";
import { monthName, shortTime, usd } from "../format.js";
import { useLive } from "../live.js";
import { to } from "../router.js";
import { html } from "../ui.js";
import { Awaited, Facts, Panel } from "./basics.js";
import { scopeName, useBudgets, useKeys } from "./budgets.js";

const SHOWN = 5;

/** The budgets that are exhausted within their period, the earliest first: `[{budget, at}]`. */
export function exhaustions(forecast, budgets) {
  const known = new Map(budgets.map((budget) => [budget.id, budget]));
  const found = forecast.budgets.filter((one) => one.exhausted_at && known.has(one.id));
  return found.map((one) => ({ budget: known.get(one.id), at: one.exhausted_at })).sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
}

export function Forecast({ tenantId, tenants }) {
  const live = useLive(`/v1/forecast${tenantId ? `?tenant_id=${encodeURIComponent(tenantId)}` : ""}`, 60, { keep: true });
  const budgets = useBudgets({ tenantId, seconds: 60, pages: 5 }).data?.items ?? [];
  const keys = useKeys(tenantId);
  const found = live.data;
  return html`
    <${Panel} title=${found ? `Forecast for ${monthName(found.as_of)}` : "Forecast"}>
      <${Awaited} live=${live} rows=${4}>
        ${found &&
        html`
          <${Facts} rows=${[
            ["Month end", html`<span class="strong">${usd(found.month.forecast)}</span> <span class="muted">if the present rate stays</span>`],
            ["Spent", usd(found.month.spent)],
            ["Committed", html`${usd(found.month.committed)} <span class="muted">until today’s leases end</span>`],
            ["Run rate", `${usd(found.run_rate_per_hour)} an hour`],
          ]} />
          <${Exhaustions} items=${exhaustions(found, budgets)} keys=${keys} tenants=${tenants} />
        `}
      <//>
    <//>
  `;
}

const Exhaustions = ({ items, keys, tenants }) =>
  items.length > 0 &&
  html`
    <h3>Budgets exhausted at the present rate</h3>
    <ul class="lines">
      ${items.slice(0, SHOWN).map(({ budget, at }) => html`<li key=${budget.id}><a href=${to("budgets", { tenant_id: tenants.size ? budget.tenant_id : null })}>${[tenants.get(budget.tenant_id), scopeName(budget, keys)].filter(Boolean).join(": ")}</a><span class="end num">${Date.parse(at) <= now() ? "exhausted" : shortTime(at)}</span></li>`)}
    </ul>
  `;
