/** What leases cost by gpulease's clock, beside what providers charged, for operators. */
import { now } from "../clock.js";
import { count, counted, NOTHING, providerName, shortTime, usd, words } from "../format.js";
import { useLive } from "../live.js";
import { Awaited, Badge, Empty, Head, Panel, Scroll } from "../parts/basics.js";
import { SelectFilter } from "../parts/filters.js";
import { Icon } from "../parts/icons.js";
import { go, refined, route, to } from "../router.js";
import { lastMonths } from "../steps.js";
import { html } from "../ui.js";
import { useTenantNames } from "./leases.js";

const KINDS = ["matched", "cloud_only", "gpulease_only"];
const sum = (rows, name) => rows.reduce((all, row) => all + row[name], 0);

export function Reconciliation() {
  const { query } = route.use();
  const tenants = useTenantNames(true);
  const months = lastMonths(now());
  const month = query.get("month") ?? months[0][0];
  const live = useLive(pathOf(query, month), 60, { keep: true });
  const found = live.data;
  return html`
    <${Head} title="Reconciliation" sub="What leases cost by the clock of gpulease, and what providers charged" />
    <div class="filters"><div class="row">
      <label class="field"><span>Month</span><select value=${month} onChange=${(event) => go(refined({ month: event.target.value }))}>${months.map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}</select></label>
      <${SelectFilter} name="kind" label="Kind" query=${query} options=${KINDS} />
      <${SelectFilter} name="tenant_id" label="Tenant" query=${query} options=${[...tenants.keys()]} show=${(id) => tenants.get(id) ?? id} />
    </div></div>
    <${Awaited} live=${live} rows=${8}>
      ${found && !found.imports.length && html`<div class="panel"><${Empty} title="No charges are imported for this month.">Export them from the provider in the format FOCUS, and import the file with <code>gpulease-server reconcile --file EXPORT.csv</code>.<//></div>`}
      ${found?.imports.length > 0 && html`<${Orphans} number=${sum(found.totals, "unlisted")} /><${Totals} rows=${found.totals} tenants=${tenants} /><${Charges} page=${found} query=${query} tenants=${tenants} /><${Imports} items=${found.imports} />`}
    <//>
  `;
}

function pathOf(query, month) {
  const asked = new URLSearchParams({ month, limit: 50 });
  for (const name of ["kind", "tenant_id", "cursor"]) if (query.get(name)) asked.set(name, query.get(name));
  return `/v1/ops/reconciliation?${asked}`;
}

const Orphans = ({ number }) =>
  number > 0 &&
  html`<p class="notice" data-tone="bad" role="status"><${Icon} name="warning" /><span><strong>${counted(number, "charged resource")} of this installation without a lease or volume.</strong> They may still run: see <a href=${refined({ kind: "cloud_only" })}>their charges</a> and <a href=${to("accounts")}>the orphans</a>.</span></p>`;

/** What rounds to no cent is no difference. */
function Difference({ amount }) {
  const more = Number(amount);
  if (Math.abs(more) < 0.005) return html`<span class="muted">${NOTHING}</span>`;
  return html`<span class=${more > 0 ? "bad" : ""}>${more > 0 ? "+" : ""}${usd(amount)}</span>`;
}

const Totals = ({ rows, tenants }) => html`
  <${Panel} title="By tenant" wide flush>
    <${Scroll} label="Totals by tenant">
      <table class="list cards">
        <thead><tr><th scope="col">Tenant</th><th scope="col" class="n">Leases</th><th scope="col" class="n">Estimated</th><th scope="col" class="n">Invoiced</th><th scope="col" class="n">Difference</th><th scope="col" class="n">Without a charge</th><th scope="col" class="n">Without a lease</th></tr></thead>
        <tbody>
          ${rows.map(
            (row) => html`
              <tr key=${row.tenant_id}>
                <th scope="row" data-label="Tenant">${row.tenant_id ? html`<a href=${to(`tenants/${row.tenant_id}`)}>${tenants.get(row.tenant_id) ?? row.tenant_id}</a>` : "no tenant"}</th>
                <td data-label="Leases" class="n">${count(row.leases)}</td>
                <td data-label="Estimated" class="n">${usd(row.estimated)}</td>
                <td data-label="Invoiced" class="n">${usd(row.invoiced)}</td>
                <td data-label="Difference" class="n"><${Difference} amount=${row.difference} /></td>
                <td data-label="Without a charge" class="n">${count(row.gpulease_only)}</td>
                <td data-label="Without a lease" class="n">${count(row.cloud_only)}</td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    <//>
  <//>
`;

/** An orphan is an alarm, another difference of the sides only a notice. */
const badgeOf = ({ kind, ours }) => (kind === "matched" ? "active" : kind === "cloud_only" && ours ? "failed" : "releasing");

const Charges = ({ page, query, tenants }) => html`
  <div class="panel flush">
    <${Scroll} label="Charges">
      <table class="list cards">
        <caption class="vh">Charges</caption>
        <thead><tr><th scope="col">Day, UTC</th><th scope="col">Kind</th><th scope="col">Resource</th><th scope="col">Lease or volume</th><th scope="col" class="n">Estimated</th><th scope="col" class="n">Invoiced</th><th scope="col" class="n">Difference</th></tr></thead>
        <tbody>${page.items.map((one) => html`<${Charge} key=${one.day + one.provider + one.resource_id + one.kind + one.lease_id} one=${one} tenants=${tenants} />`)}</tbody>
      </table>
    <//>
    ${!page.items.length && html`<${Empty} title="No charge matches." />`}
    <nav class="pages" aria-label="Pages">
      <span class="muted num">${counted(page.items.length, "row")} on this page</span>
      ${query.has("cursor") && html`<a class="button ghost" href=${refined({ cursor: null })}><${Icon} name="left" />First page</a>`}
      ${page.next_cursor && html`<a class="button ghost" href=${refined({ cursor: page.next_cursor })}>Next page<${Icon} name="right" /></a>`}
    </nav>
  </div>
`;

const Charge = ({ one, tenants }) => html`
  <tr>
    <td data-label="Day" class="num">${one.day}</td>
    <td data-label="Kind"><${Badge} state=${one.kind} kind=${badgeOf(one)} text=${one.kind === "cloud_only" && one.ours ? "orphan" : words(one.kind)} /></td>
    <th scope="row" data-label="Resource"><span class="id">${one.resource_id}</span><span class="under">${providerName(one.provider)}</span></th>
    <td data-label="Lease or volume">${one.lease_id ? html`<a class="id" href=${to(`leases/${one.lease_id}`)}>${one.lease_id}</a>` : one.volume_id ? html`<span class="id">${one.volume_id}</span>` : NOTHING}${tenants.has(one.tenant_id) && html`<span class="under">${tenants.get(one.tenant_id)}</span>`}</td>
    <td data-label="Estimated" class="n">${usd(one.estimated)}</td>
    <td data-label="Invoiced" class="n">${usd(one.invoiced)}</td>
    <td data-label="Difference" class="n"><${Difference} amount=${one.difference} /></td>
  </tr>
`;

const Imports = ({ items }) => html`
  <${Panel} title="Imported files" aside=${count(items.length)} wide>
    <ul class="lines">
      ${items.map((one) => html`<li key=${one.id}><span class="strong">${one.file_name}</span><span class="muted">${providerName(one.provider)} ${one.billing_accounts.join(", ")}, ${counted(one.lines, "line")}${one.last_day && `, ${one.first_day} to ${one.last_day}`}</span><span class="end num muted">${shortTime(one.imported_at)}</span></li>`)}
    </ul>
  <//>
`;
