/** Budgets: what leases may cost, what they have cost, and what happens at the amount. */
import { Awaited, Empty, Head, Scroll } from "../parts/basics.js";
import { createBudget, deleteBudget, editBudget, mayChange } from "../parts/budget_dialogs.js";
import { actionText, BudgetBadge, BudgetBar, reachedText, resetText, scopeName, useBudgets, useKeys } from "../parts/budgets.js";
import { SelectFilter } from "../parts/filters.js";
import { Icon } from "../parts/icons.js";
import { route, to } from "../router.js";
import { html } from "../ui.js";
import { useTenantNames } from "./leases.js";

export function Budgets({ me }) {
  const { query } = route.use();
  const operator = me.role === "operator";
  const tenants = useTenantNames(operator);
  const tenantId = operator ? query.get("tenant_id") ?? "" : me.tenant_id;
  const live = useBudgets({ tenantId: operator ? tenantId : null });
  const keys = useKeys(tenantId);
  const items = live.data?.items;
  const create = () => createBudget({ tenants: operator ? tenants : null, tenantId, keys: [...keys] });
  return html`
    <${Head} title="Budgets" sub=${operator ? "What leases may cost, by tenant, API key or label" : "What your leases may cost"}>
      ${(operator || me.role === "admin") && html`<button type="button" class="primary" disabled=${operator && !tenants.size} onClick=${create}>Create a budget</button>`}
    <//>
    ${operator && html`<div class="filters"><div class="row"><${SelectFilter} name="tenant_id" label="Tenant" query=${query} options=${[...tenants.keys()]} show=${(id) => tenants.get(id) ?? id} /></div></div>`}
    <${Awaited} live=${live} rows=${6}>
      ${items && (items.length ? html`<${Table} items=${items} names=${keys} tenants=${operator ? tenants : null} />` : html`<div class="panel"><${None} role=${me.role} /></div>`)}
    <//>
  `;
}

const None = ({ role }) => html`
  <${Empty} title="No budgets yet.">
    A budget limits what leases may cost in a day, in a month or in all. gpulease refuses a lease that does not fit, before the money is spent.
    ${" "}${role === "operator" || role === "admin" ? "Create one for a tenant, an API key or a label." : "Operators and admins create budgets."}
  <//>
`;

const Table = ({ items, names, tenants }) => html`
  <div class="panel flush">
    <${Scroll} label="Budgets">
      <table class="list cards">
        <caption class="vh">Budgets</caption>
        <thead><tr><th scope="col">Counts</th>${tenants && html`<th scope="col">Tenant</th>`}<th scope="col">Spent and committed</th><th scope="col">State</th><th scope="col">When exceeded</th><th scope="col"><span class="vh">Actions</span></th></tr></thead>
        <tbody>${items.map((one) => html`<${Row} key=${one.id} budget=${one} name=${scopeName(one, names)} tenants=${tenants} />`)}</tbody>
      </table>
    <//>
  </div>
`;

function Row({ budget, name, tenants }) {
  return html`
    <tr>
      <th scope="row" data-label="Counts"><span class="scope">${name}</span><span class="under">set by ${budget.set_by === "operator" ? "operators" : "an admin"}</span></th>
      ${tenants && html`<td data-label="Tenant"><a class="quiet" href=${to(`tenants/${budget.tenant_id}`)}>${tenants.get(budget.tenant_id) ?? budget.tenant_id}</a></td>`}
      <td data-label="Spent and committed"><${BudgetBar} budget=${budget} /></td>
      <td data-label="State"><${BudgetBadge} budget=${budget} /><span class="under">${reachedText(budget)}</span><span class="under">${resetText(budget)}</span></td>
      <td data-label="When exceeded" class="said">${actionText(budget)}</td>
      <td class="do">${mayChange(budget) && html`<span class="actions"><button type="button" class="ghost" aria-label=${`Change the budget: ${name}`} onClick=${() => editBudget(budget, name)}><${Icon} name="edit" />Change</button><button type="button" class="ghost" aria-label=${`Delete the budget: ${name}`} onClick=${() => deleteBudget(budget, name)}><${Icon} name="close" />Delete</button></span>`}</td>
    </tr>
  `;
}
