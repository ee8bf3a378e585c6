/** All tenants, their quotas and their use. */
import { count, resourceName } from "../format.js";
import { useLive } from "../live.js";
import { Awaited, Badge, Empty, Head, Scroll } from "../parts/basics.js";
import { Icon } from "../parts/icons.js";
import { MAIN, Use } from "../parts/quota_limits.js";
import { go, refined, route, to } from "../router.js";
import { html } from "../ui.js";
import { createTenant } from "./tenant.js";

export function Tenants() {
  const { query } = route.use();
  const cursor = query.get("cursor");
  const tenants = useLive(`/v1/ops/tenants?limit=50${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`, 10, { keep: true });
  return html`
    <${Head} title="Tenants" sub="Quotas and their use"><button type="button" class="primary" onClick=${() => createTenant((made) => go(to(`tenants/${made.id}`)))}>Create a tenant</button><//>
    <${Awaited} live=${tenants} rows=${8}>
      ${tenants.data && (tenants.data.items.length ? html`<${Table} page=${tenants.data} paged=${cursor !== null} />` : html`<div class="panel"><${Empty} title="No tenants yet.">Create one and set its quota for <code>gpus</code>.<//></div>`)}
    <//>
  `;
}

const Table = ({ page, paged }) => html`
  <div class="panel flush">
    <${Scroll} label="Tenants">
      <table class="list cards">
        <caption class="vh">Tenants</caption>
        <thead><tr><th scope="col">Tenant</th><th scope="col">Status</th><th scope="col" class="n">Running</th><th scope="col">GPUs</th><th scope="col">Leases</th><th scope="col">USD per hour, VMs</th><th scope="col">By model</th></tr></thead>
        <tbody>${page.items.map((one) => html`<${Row} key=${one.id} tenant=${one} />`)}</tbody>
      </table>
    <//>
    <nav class="pages" aria-label="Pages">
      <span class="muted num">${count(page.items.length)} on this page</span>
      ${paged && html`<a class="button ghost" href=${refined({ cursor: null })}><${Icon} name="left" />First page</a>`}
      ${page.next_cursor && html`<a class="button ghost" href=${refined({ cursor: page.next_cursor })}>Next page<${Icon} name="right" /></a>`}
    </nav>
  </div>
`;

function Row({ tenant }) {
  const quota = (resource) => tenant.quotas.find((one) => one.resource === resource);
  const link = to("leases", { tenant_id: tenant.id });
  const models = tenant.quotas.filter((one) => !MAIN.includes(one.resource));
  return html`
    <tr>
      <th scope="row" data-label="Tenant"><a href=${to(`tenants/${tenant.id}`)}>${tenant.name}</a></th>
      <td data-label="Status"><${Badge} state=${tenant.status} kind=${tenant.status === "active" ? "active" : "failed"} /></td>
      <td data-label="Running" class="n"><a href=${link}>${count(tenant.leases)}</a><span class="under">${count(tenant.gpus)} GPUs</span></td>
      ${MAIN.map((name) => html`<td key=${name} data-label=${resourceName(name)}><${Use} quota=${quota(name)} resource=${name} /></td>`)}
      <td data-label="By model">${models.length ? html`<span class="models">${models.map((one) => html`<${Model} key=${one.resource} quota=${one} />`)}</span>` : html`<span class="muted">none</span>`}</td>
    </tr>
  `;
}

const Model = ({ quota }) => {
  const full = quota.limit !== null && Number(quota.used) >= Number(quota.limit);
  return html`<span class="model" data-full=${full}><span class="muted">${quota.resource.slice(5)}</span> ${count(Number(quota.used))}${quota.limit !== null && html`<span class="muted">${` of ${count(Number(quota.limit))}`}</span>`}</span>`;
};
