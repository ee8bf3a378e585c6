/** Budgets: the bar of one, and its state in words. */
import { count, percent, shortTime, usd } from "../format.js";
import { useLive } from "../live.js";
import { to } from "../router.js";
import { session } from "../session.js";
import { html, useMemo } from "../ui.js";
import { Badge, Panel } from "./basics.js";

const NEARLY = 0.9; // as for quotas in the summary
const PERIODS = { day: "a day", month: "a month", lifetime: "in all" };
/** What happens when a budget is exceeded. */
export const ACTIONS = {
  notify: "Only notifies: leases run on, and new leases are accepted.",
  refuse: "Refuses leases that do not fit. Running leases continue.",
  end: "Refuses leases that do not fit, and ends the most expensive leases first until the others fit.",
};

const heldOf = (budget) => Number(budget.spent) + Number(budget.committed);

/** `exceeded`, `nearly` or `within`. */
export function statusOf(budget) {
  if (budget.exceeded) return "exceeded";
  return heldOf(budget) >= NEARLY * Number(budget.amount) ? "nearly" : "within";
}

const shareOf = (budget) => heldOf(budget) / Math.max(Number(budget.amount), 1e-6);

/** The fullest first. */
export const byShare = (budgets) => [...budgets].sort((a, b) => shareOf(b) - shareOf(a));

/**
 * Where the parts of a bar end, in percent of its length: `{spent, held, ticks: [{at, percent, reached}]}`. The bar is as
 * long as the amount, or longer for what exceeds it.
 */
export function barOf(budget) {
  const amount = Number(budget.amount);
  const spent = Number(budget.spent);
  const length = Math.max(amount, heldOf(budget), 1e-6);
  const place = (value) => (value / length) * 100;
  const reached = (threshold) => spent >= (amount * threshold) / 100;
  const shown = budget.thresholds.filter((one) => place((amount * one) / 100) <= 100);
  const ticks = shown.map((one) => ({ at: place((amount * one) / 100), percent: one, reached: reached(one) }));
  return { spent: place(spent), held: place(heldOf(budget)), ticks };
}

/** Which leases a budget counts, without its tenant. `keys`: names by id. */
export function scopeName(budget, keys = new Map()) {
  const { kind, key_id: key, label } = budget.scope;
  if (kind === "tenant") return "All leases";
  return kind === "key" ? `API key ${keys.get(key) ?? key}` : `Label ${label}`;
}

export const amountText = (budget) => `${usd(budget.amount)} ${PERIODS[budget.period]}`;
export const actionText = (budget) => ACTIONS[budget.when_exceeded];

const BADGES = { exceeded: ["exceeded", "failed"], nearly: ["nearly exceeded", "releasing"], within: ["within the amount", "active"] };

export function BudgetBadge({ budget }) {
  const [text, kind] = BADGES[statusOf(budget)];
  return html`<${Badge} state=${text} kind=${kind} />`;
}

/** Spent and committed of the amount. A tick stands at each threshold. */
export function BudgetBar({ budget }) {
  const { spent, held, ticks } = barOf(budget);
  return html`
    <div class="budget">
      <span class="budget-bar" data-status=${statusOf(budget)} aria-hidden="true">
        <i class="held" style=${{ width: `${held}%` }}></i><i class="spent" style=${{ width: `${spent}%` }}></i>
        ${ticks.map((tick) => html`<b key=${tick.percent} data-reached=${tick.reached} style=${{ left: `${tick.at}%` }}></b>`)}
      </span>
      <span class="num">${usd(budget.spent)} <span class="muted">spent, </span>${usd(budget.committed)} <span class="muted">committed of ${amountText(budget)}</span></span>
    </div>
  `;
}

/** The thresholds that the spending has reached, in words. */
export function reachedText(budget) {
  const reached = barOf(budget).ticks.filter((one) => one.reached).map((one) => percent(one.percent / 100));
  return reached.length ? `Reached ${reached.at(-1)}` : `Notifies at ${budget.thresholds.map((one) => percent(one / 100)).join(", ")}`;
}

export const resetText = (budget) => (budget.resets_at ? `Resets ${shortTime(budget.resets_at)}` : "Never resets");

/** The newest budgets of a tenant, at most `pages` hundred; of all tenants without one. */
export function useBudgets({ tenantId = null, seconds = 15, pages = 20 } = {}) {
  return useLive(`/v1/budgets?limit=100${tenantId ? `&tenant_id=${encodeURIComponent(tenantId)}` : ""}`, seconds, { all: pages });
}

/** The names of a tenant's API keys by id, for those who may read them; without a tenant, of the signed-in one. */
export function useKeys(tenantId) {
  const me = session.get()?.me;
  const tenant = me?.role === "operator" ? tenantId : me?.role === "admin" ? me.tenant_id : null;
  const { data } = useLive(tenant ? `/v1/tenants/${encodeURIComponent(tenant)}/keys?limit=200` : null, 60, { all: true });
  return useMemo(() => new Map((data?.items ?? []).map((key) => [key.id, key.name])), [data]);
}

const SHOWN = 5;

/** Budgets in a panel, the fullest first: those that need attention, or with `all` the others too. Without any, no panel. */
export function BudgetPanel({ all = false, tenants = new Map() }) {
  const { data } = useBudgets({ seconds: 60, pages: 5 });
  const keys = useKeys(null);
  const items = data && byShare(all ? data.items : data.items.filter((one) => statusOf(one) !== "within"));
  if (!items?.length) return null;
  return html`
    <${Panel} title=${all ? "Budgets" : "Budgets exceeded or nearly exceeded"} aside=${html`<a href=${to("budgets")}>${items.length > SHOWN ? `all ${count(items.length)}` : "all"}</a>`} wide=${!all}>
      <ul class=${all ? "budgets" : "budgets wide"}>
        ${items.slice(0, SHOWN).map(
          (one) => html`
            <li key=${one.id}>
              <p><a class="strong" href=${to("budgets", { tenant_id: tenants.size ? one.tenant_id : null })}>${[tenants.get(one.tenant_id), scopeName(one, keys)].filter(Boolean).join(": ")}</a>${statusOf(one) !== "within" && html`<${BudgetBadge} budget=${one} />`}</p>
              <${BudgetBar} budget=${one} />
            </li>
          `,
        )}
      </ul>
    <//>
  `;
}
