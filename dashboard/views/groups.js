/** The list of groups: leases that start together in one place. */
import { NOTHING, usd, words } from "../format.js";
import { useLive } from "../live.js";
import { Accrued, Ago, Awaited, Empty, Head, Left, Scroll } from "../parts/basics.js";
import { endsAlready, GroupBadge, poolText, priceNow, Ready } from "../parts/groups.js";
import { Icon } from "../parts/icons.js";
import { refined, route, to } from "../router.js";
import { mayManageLeases } from "../session.js";
import { html } from "../ui.js";
import { useTenantNames } from "./leases.js";

const STATES = ["queued", "forming", "active", "degraded", "releasing", "ended"];
const CHIPS = [["!ended", "running"], ...STATES.map((state) => [state, words(state)]), ["", "all"]];

export function Groups({ me }) {
  const { query } = route.use();
  const operator = me.role === "operator";
  const tenants = useTenantNames(operator);
  const state = query.get("state") ?? "!ended";
  const asked = new URLSearchParams({ limit: 50, ...(state !== "any" && { state }), ...(query.has("cursor") && { cursor: query.get("cursor") }) });
  const groups = useLive(`/v1/groups?${asked}`, 3, { keep: true });
  const items = groups.data?.items;
  return html`
    <${Head} title="Groups" sub="Leases that start together in one place">${mayManageLeases() && html`<a class="button primary" href=${to("groups/new")}>Create a group</a>`}<//>
    <div class="filters">
      <ul class="chips" aria-label="State">
        ${CHIPS.map(([value, label]) => html`<li key=${label}><a href=${refined({ state: value || "any" })} aria-current=${state === (value || "any") ? "true" : null}>${label}</a></li>`)}
      </ul>
    </div>
    <${Awaited} live=${groups} rows=${6}>
      ${items && (items.length ? html`<${List} page=${groups.data} query=${query} tenants=${operator ? tenants : null} />` : html`<div class="panel"><${None} /></div>`)}
    <//>
  `;
}

const None = () => html`
  <${Empty} title="No group is shown."><a href=${to("groups/new")}>Create a group</a>, or use <code>gpulease group create train --size 2 --gpu A10G:1 --ttl 1h</code>. Or <a href=${refined({ state: "any" })}>include ended groups</a>.<//>
`;

const List = ({ page, query, tenants }) => html`
  <div class="panel flush">
    <${Scroll} label="Groups">
      <table class="list cards">
        <caption class="vh">Groups</caption>
        <thead><tr><th scope="col">State</th><th scope="col">Name</th>${tenants && html`<th scope="col">Tenant</th>`}<th scope="col">Members</th><th scope="col">Pool</th><th scope="col" class="n">USD/h</th><th scope="col" class="n">Cost</th><th scope="col" class="n">Age</th><th scope="col" class="n">Time left</th></tr></thead>
        <tbody>${page.items.map((one) => html`<${Row} key=${one.id} group=${one} tenants=${tenants} />`)}</tbody>
      </table>
    <//>
    <nav class="pages" aria-label="Pages">
      ${query.has("cursor") && html`<a class="button ghost" href=${refined({ cursor: null })}><${Icon} name="left" />First page</a>`}
      ${page.next_cursor && html`<a class="button ghost" href=${refined({ cursor: page.next_cursor })}>Next page<${Icon} name="right" /></a>`}
    </nav>
  </div>
`;

const usdOr = (price) => (price === null ? NOTHING : usd(price));

const Row = ({ group, tenants }) => html`
  <tr>
    <td data-label="State"><${GroupBadge} state=${group.state} />${group.reason && html`<span class="under" title=${group.reason.message}>${words(group.reason.code)}</span>`}</td>
    <th scope="row" data-label="Name"><a class="long" href=${to(`groups/${group.id}`)}>${group.name}</a></th>
    ${tenants && html`<td data-label="Tenant"><a class="quiet" href=${to(`tenants/${group.tenant_id}`)}>${tenants.get(group.tenant_id) ?? group.tenant_id}</a></td>`}
    <td data-label="Members"><${Ready} group=${group} /></td>
    <td data-label="Pool">${group.pool ? poolText(group.pool) : html`<span class="muted">none yet</span>`}</td>
    <td data-label="USD/h" class="n">${usdOr(priceNow(group))}</td>
    <td data-label="Cost" class="n"><${Accrued} cost=${group.cost} /></td>
    <td data-label="Age" class="n"><${Ago} at=${group.created_at} suffix="" /></td>
    <td data-label="Time left" class="n">${endsAlready(group) || !group.expires_at ? html`<span class="muted">${group.terminal ? "ended" : "ends"}</span>` : html`<${Left} at=${group.expires_at} />`}</td>
  </tr>
`;
