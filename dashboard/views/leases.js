/** The list of leases: filter, search, sort and page live in the address. */
import { counted, gpuText, marketName, NOTHING, providerName, usd, words } from "../format.js";
import { useLive } from "../live.js";
import { Accrued, Ago, Awaited, Badge, Empty, Head, Left, Scroll } from "../parts/basics.js";
import { BulkActions } from "../parts/bulk_actions.js";
import { Chosen, SelectFilter } from "../parts/filters.js";
import { Icon } from "../parts/icons.js";
import { useCatalogue } from "../parts/catalogue.js";
import { LeaseActions, nameOf } from "../parts/lease_actions.js";
import { Sparkline, useUtilization } from "../parts/sparkline.js";
import { go, refined, route, to } from "../router.js";
import { mayManageLeases } from "../session.js";
import { classes, html, useEffect, useMemo, useRef, useState } from "../ui.js";

const STATES = ["queued", "provisioning", "booting", "active", "releasing", "released", "failed"];
const CHIPS = [["!terminal", "running"], ...STATES.map((state) => [state, words(state)]), ["", "all"]];
const SORTS = [
  ["-created_at", "Newest first"],
  ["created_at", "Oldest first"],
  ["expires_at", "Ends soonest"],
  ["-expires_at", "Ends latest"],
  ["name", "Name A–Z"],
  ["-name", "Name Z–A"],
  ["-updated_at", "Last changed"],
];
const PASSED = ["state", "search", "provider", "region", "gpu_model", "tenant_id", "group_id", "label", "sort", "cursor"];
const PAGE = 50;
const TYPING_MS = 250;

export function Leases({ me }) {
  const { query } = route.use();
  const operator = me.role === "operator";
  const leases = useLive(pathOf(query), 3, { keep: true });
  const tenants = useTenantNames(operator);
  return html`
    <${Head} title="Leases" sub=${`${operator ? "All tenants" : "Your tenant"}. Cost covers compute, disks and public addresses.`}>${mayManageLeases() && html`<a class="button primary" href=${to("leases/new")}>Create a lease</a>`}<//>
    <${Filters} query=${query} operator=${operator} tenants=${tenants} />
    <${Awaited} live=${leases} rows=${12}>
      ${leases.data && html`<${List} page=${leases.data} query=${query} settled=${leases.settled} operator=${operator} tenants=${tenants} />`}
    <//>
    ${leases.data && leases.error && html`<p class="note" role="status">${leases.error.message}</p>`}
  `;
}

function pathOf(query) {
  const asked = new URLSearchParams({ limit: PAGE });
  if (!query.has("state")) asked.append("state", "!terminal");
  for (const name of PASSED) for (const value of query.getAll(name)) if (value !== "any") asked.append(name, value);
  return `/v1/leases?${asked}`;
}

/** id → name, empty for tenants. */
export function useTenantNames(operator) {
  const { data } = useLive(operator ? "/v1/tenants?limit=200" : null, 60, { all: true });
  return useMemo(() => new Map((data?.items ?? []).map((tenant) => [tenant.id, tenant.name])), [data]);
}

function Filters({ query, operator, tenants }) {
  const { models, regions, providers } = useCatalogue();
  const state = query.getAll("state");
  const chosen = query.has("state") ? state : ["!terminal"];
  const filtered = ["search", "provider", "region", "gpu_model", "tenant_id", "group_id", "label"].some((name) => query.has(name));
  const provider = query.get("provider");
  const near = [...new Set(regions.filter((one) => !provider || one.provider === provider).map((one) => one.region))];
  return html`
    <div class="filters">
      <ul class="chips" aria-label="State">
        ${CHIPS.map(([value, label]) => {
          const on = chosen.includes(value || "any") || (chosen.length === 0 && !value);
          return html`<li key=${label}><a href=${refined({ state: value || "any" })} aria-current=${on ? "true" : null}>${label}</a></li>`;
        })}
      </ul>
      <div class="row">
        <${Search} value=${query.get("search") ?? ""} />
        <${SelectFilter} name="provider" label="Cloud" query=${query} options=${providers} show=${providerName} />
        <${SelectFilter} name="region" label="Region" query=${query} options=${near} show=${String} />
        <${SelectFilter} name="gpu_model" label="GPU" query=${query} options=${models.map((one) => one.model)} show=${String} />
        ${operator && html`<${SelectFilter} name="tenant_id" label="Tenant" query=${query} options=${[...tenants.keys()]} show=${(id) => tenants.get(id) ?? id} />`}
        <${LabelFilter} chosen=${query.getAll("label")} />
        <${Chosen} name="label" query=${query} label="label" show=${(label) => label.replace(":", "=")} />
        <label class="field"><span>Order</span>
          <select value=${query.get("sort") ?? "-created_at"} onChange=${(event) => go(refined({ sort: event.target.value }))}>
            ${SORTS.map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}
          </select>
        </label>
        ${filtered && html`<a class="button ghost" href=${to("leases", { state, sort: query.get("sort") })}><${Icon} name="close" />Clear filters</a>`}
      </div>
    </div>
  `;
}

/** Leases must have every chosen label. The API takes `key:value`; people may also write `key=value`. */
function LabelFilter({ chosen }) {
  const add = (event) => {
    event.preventDefault();
    const label = new FormData(event.currentTarget).get("label").trim().replace(/^([^=:]+)=/, "$1:");
    event.currentTarget.reset();
    if (label && !chosen.includes(label)) go(refined({ label: [...chosen, label] }));
  };
  return html`
    <form class="field" onSubmit=${add}><label for="label-filter">Label</label>
      <input id="label-filter" name="label" placeholder="key=value" pattern=${"[^=:]+[=:].*"} title="A label as key=value; Enter adds it" maxlength="320" spellcheck=${false} autocomplete="off" />
    </form>
  `;
}

/** The typed text goes into the address a moment later. */
function Search({ value }) {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  useEffect(() => setText(value), [value]);
  const type = (event) => {
    const typed = event.target.value;
    setText(typed);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => go(refined({ search: typed.trim() }), { replace: true }), TYPING_MS);
  };
  return html`
    <label class="field search"><span class="vh">Search by name or id</span><${Icon} name="search" />
      <input type="search" placeholder="Name or id (press /)" aria-keyshortcuts="/" value=${text} onInput=${type} maxlength="100" spellcheck=${false} autocomplete="off" />
    </label>
  `;
}

function List({ page, query, settled, operator, tenants }) {
  const utilization = useUtilization(page.items);
  const pick = usePick(page.items);
  if (!page.items.length) return html`<${None} query=${query} />`;
  const sort = query.get("sort") ?? "-created_at";
  return html`
    <div class=${classes("panel flush", !settled && "stale")} aria-busy=${!settled}>
      ${pick.chosen.length > 0 && html`<${BulkActions} leases=${pick.chosen} clear=${() => pick.setAll(false)} />`}
      <${Scroll} label="Leases">
        <table class="list cards dense">
          <caption class="vh">Leases</caption>
          <thead>
            <tr>
              ${mayManageLeases() && html`<td class="pick"><input type="checkbox" aria-label="Choose all leases of this page" checked=${pick.all} disabled=${!pick.possible.length} onChange=${(event) => pick.setAll(event.target.checked)} /></td>`}
              <th scope="col">State</th>
              <${Sorted} name=${operator ? "Name and tenant" : "Name"} up="name" down="-name" sort=${sort} />
              <th scope="col">GPUs</th>
              <th scope="col">GPU use</th>
              <th scope="col">Location</th>
              <th scope="col" class="n">Cost</th>
              <${Sorted} name="Age" up="-created_at" down="created_at" sort=${sort} number />
              <${Sorted} name="Time left" up="expires_at" down="-expires_at" sort=${sort} number />
              <th scope="col"><span class="vh">Actions</span></th>
            </tr>
          </thead>
          <tbody>
            ${page.items.map((lease) => html`<${Row} key=${lease.id} lease=${lease} operator=${operator} tenants=${tenants} values=${utilization.get(lease.id)} pick=${pick} />`)}
          </tbody>
        </table>
      <//>
      <${Pages} page=${page} query=${query} />
    </div>
  `;
}

/** Which leases of the page are chosen. One that ended or left the page is not. */
function usePick(items) {
  const [ids, setIds] = useState(new Set());
  const possible = items.filter((lease) => !lease.terminal);
  const chosen = possible.filter((lease) => ids.has(lease.id));
  return {
    possible,
    chosen,
    all: chosen.length > 0 && chosen.length === possible.length,
    has: (lease) => ids.has(lease.id),
    flip: (lease) => setIds(new Set(possible.filter((one) => ids.has(one.id) !== (one.id === lease.id)).map((one) => one.id))),
    setAll: (on) => setIds(new Set(on ? possible.map((lease) => lease.id) : [])),
  };
}

function Sorted({ name, up, down, sort, number }) {
  const direction = sort === up ? "ascending" : sort === down ? "descending" : null;
  return html`
    <th scope="col" class=${number ? "n" : ""} aria-sort=${direction}>
      <a class="sort" data-on=${direction} href=${refined({ sort: sort === up ? down : up })}>${name}</a>
    </th>
  `;
}

const unwell = ({ health, terminal }) => !terminal && ["degraded", "failing"].includes(health?.status);

function Row({ lease, operator, tenants, values, pick }) {
  const { placement } = lease;
  const rate = lease.cost.price_per_hour;
  return html`
    <tr>
      ${mayManageLeases() && html`<td class="pick">${!lease.terminal && html`<input type="checkbox" aria-label=${`Choose ${nameOf(lease)}`} checked=${pick.has(lease)} onChange=${() => pick.flip(lease)} />`}</td>`}
      <td data-label="State"><${Badge} state=${lease.state} />${lease.interruption && !lease.terminal && html`<span class="under"><${Badge} state="interruption" kind="failed" text="interruption" /></span>`}${lease.reason && html`<span class="under" title=${lease.reason.message}>${words(lease.reason.code)}</span>`}</td>
      <th scope="row" data-label="Name"><a class="long" href=${to(`leases/${lease.id}`)}>${nameOf(lease)}</a>${operator && html`<a class="quiet under" href=${to("leases", { tenant_id: lease.tenant_id })}>${tenants.get(lease.tenant_id) ?? NOTHING}</a>`}</th>
      <td data-label="GPUs"><span class="num">${gpuText(lease)}</span>${placement && html`<span class="under">${placement.instance_type}</span>`}</td>
      <td data-label="GPU use"><${Sparkline} lease=${lease} values=${values} />${unwell(lease) && html`<span class="under"><${Badge} state=${lease.health.status} kind=${lease.health.status === "failing" ? "failed" : "releasing"} /></span>`}${lease.idle && html`<span class="under">idle <${Ago} at=${lease.idle.since} suffix="" /></span>`}</td>
      <td data-label="Location">${placement ? html`${providerName(placement.provider)} ${placement.region}<span class="under">${marketName(placement.market)}</span>` : html`<span class="muted">none yet</span>`}</td>
      <td data-label="Cost" class="n"><${Accrued} cost=${lease.cost} />${rate !== null && html`<span class="under">${usd(rate)}/h</span>`}</td>
      <td data-label="Age" class="n"><${Ago} at=${lease.created_at} suffix="" /></td>
      <td data-label="Time left" class="n">${lease.terminal ? html`<span class="muted">ended</span>` : html`<${Left} at=${lease.ends_at} />`}</td>
      <td class="do">${!lease.terminal && html`<${LeaseActions} lease=${lease} />`}</td>
    </tr>
  `;
}

/** Each page is an entry of the browser's history, so the Back button returns to the previous page. */
const Pages = ({ page, query }) => html`
  <nav class="pages" aria-label="Pages">
    <span class="muted num">${counted(page.items.length, "lease")} on this page</span>
    ${query.has("cursor") && html`<a class="button ghost" href=${refined({ cursor: null })}><${Icon} name="left" />First page</a>`}
    ${page.next_cursor && html`<a class="button ghost" href=${refined({ cursor: page.next_cursor })}>Next page<${Icon} name="right" /></a>`}
  </nav>
`;

const None = ({ query }) => html`
  <div class="panel">
    ${[...query.keys()].some((name) => name !== "sort")
      ? html`<${Empty} title="No lease matches the filters."><a href="#/leases">Clear filters</a>, or <a href=${refined({ state: "any" })}>include ended leases</a>.<//>`
      : html`<${Empty} title="No lease is running."><a href=${to("leases/new")}>Create a lease</a>, or use <code>gpulease lease create --gpu A10G:1 --ttl 1h</code>.<//>`}
  </div>
`;
