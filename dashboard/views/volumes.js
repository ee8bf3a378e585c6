/** Volumes: disks that outlive leases. */
import { count, NOTHING, shortTime, usd } from "../format.js";
import { useLive } from "../live.js";
import { Awaited, Badge, Empty, Head, Scroll } from "../parts/basics.js";
import { confirm } from "../parts/dialogs.js";
import { Icon } from "../parts/icons.js";
import { route, to } from "../router.js";
import { mayManageLeases } from "../session.js";
import { html } from "../ui.js";
import { useTenantNames } from "./leases.js";

const PATH = "/v1/volumes";
const LIVE = `${PATH}?state=creating&state=available&state=deleting`;
const KINDS = { creating: "provisioning", available: "active", deleting: "releasing" };

export function Volumes({ me }) {
  const operator = me.role === "operator";
  const tenants = useTenantNames(operator);
  const chosen = route.use().query.get("tenant_id");
  const live = useLive(operator && chosen ? `${LIVE}&tenant_id=${encodeURIComponent(chosen)}` : LIVE, 10, { all: 5 });
  const offerings = useLive("/v1/offerings", 120, { all: 5 }).data?.items ?? [];
  const items = live.data?.items;
  const places = placesOf(offerings);
  return html`
    <${Head} title="Volumes" sub="Disks that outlive leases">
      ${mayManageLeases() && html`<button type="button" class="primary" disabled=${!places.length || (operator && !tenants.size)} onClick=${() => create(places, operator ? tenants : null)}>Create a volume</button>`}
    <//>
    <${Awaited} live=${live} rows=${6}>
      ${items && (items.length ? html`<${Table} items=${items} tenants=${operator ? tenants : null} />` : html`<div class="panel"><${Empty} title="No volumes yet.">A volume is a disk in one zone. Leases that mount it run there, one at a time, and it stays when they end.<//></div>`)}
    <//>
  `;
}

/** `[account, region, zone]` as one text, of every zone with offerings. */
const placesOf = (offerings) => [...new Set(offerings.map((one) => `${one.account} ${one.region} ${one.zone}`))].sort();

const Table = ({ items, tenants }) => html`
  <div class="panel flush">
    <${Scroll} label="Volumes">
      <table class="list cards">
        <caption class="vh">Volumes</caption>
        <thead><tr><th scope="col">Name</th>${tenants && html`<th scope="col">Tenant</th>`}<th scope="col">State</th><th scope="col" class="n">GiB</th><th scope="col">Zone</th><th scope="col">Use</th><th scope="col" class="n">USD/h</th><th scope="col" class="n">Cost</th><th scope="col"><span class="vh">Actions</span></th></tr></thead>
        <tbody>${items.map((one) => html`<${Row} key=${one.id} volume=${one} tenants=${tenants} />`)}</tbody>
      </table>
    <//>
  </div>
`;

function Row({ volume, tenants }) {
  return html`
    <tr>
      <th scope="row" data-label="Name">${volume.name}</th>
      ${tenants && html`<td data-label="Tenant"><a class="quiet" href=${to(`tenants/${volume.tenant_id}`)}>${tenants.get(volume.tenant_id) ?? volume.tenant_id}</a></td>`}
      <td data-label="State"><${Badge} state=${volume.state} kind=${KINDS[volume.state] ?? "failed"} />${volume.reason && html`<span class="under">${volume.reason.message}</span>`}</td>
      <td data-label="GiB" class="n">${volume.size_gib}</td>
      <td data-label="Zone">${volume.zone}<span class="under">${volume.account}</span></td>
      <td data-label="Use">${useOf(volume)}</td>
      <td data-label="USD/h" class="n">${amount(volume.price_per_hour)}</td>
      <td data-label="Cost" class="n">${amount(volume.cost)}</td>
      <td class="do">${mayManageLeases() && volume.state !== "deleting" && !volume.lease_id && html`<span class="actions"><button type="button" class="ghost" aria-label=${`Delete ${volume.name}`} onClick=${() => remove(volume)}><${Icon} name="close" />Delete</button></span>`}</td>
    </tr>
  `;
}

/** An unknown price is no price of zero. */
const amount = (value) => (value === null ? NOTHING : usd(value));

const lastUse = (volume) => (volume.last_used_at ? `last used ${shortTime(volume.last_used_at)}` : "never used");

const useOf = (volume) => (volume.lease_id ? html`<a href=${to(`leases/${volume.lease_id}`)}>in use by a lease</a>` : html`<span class="muted">${lastUse(volume)}</span>`);

/** `tenants`: names by id, for operators to choose from; null: the tenant of the key. */
const create = (places, tenants) =>
  confirm({
    title: "Create a volume",
    fields: [
      tenants && { name: "tenant_id", label: "Tenant", kind: "select", required: true, value: "", options: [["", "choose a tenant"], ...tenants] },
      { name: "name", label: "Name", value: "", required: true, maxlength: 63, placeholder: "data" },
      { name: "size_gib", label: "Size, GiB", type: "number", min: 1, max: 16384, required: true, value: "100" },
      { name: "zone", label: "Account, region and zone", kind: "select", value: places[0], options: places.map((one) => [one, one]), hint: "Leases that mount it run there." },
    ].filter(Boolean),
    yes: "Create",
    request: ({ tenant_id: tenantId, name, size_gib: size, zone: place }) => {
      const [account, region, zone] = place.split(" ");
      return ["POST", PATH, { name: name.trim(), size_gib: Number(size), account, region, zone, ...(tenantId ? { tenant_id: tenantId } : {}) }];
    },
    done: (_, { name }) => `${name.trim()} is being created.`,
  });

const remove = (volume) =>
  confirm({
    title: `Delete ${volume.name}?`,
    text: html`<p>The volume of ${count(volume.size_gib)} GiB and all data on it are deleted: ${lastUse(volume)}.</p>`,
    yes: "Delete",
    danger: true,
    request: () => ["DELETE", `${PATH}/${volume.id}`],
    done: () => `${volume.name} is being deleted.`,
  });
