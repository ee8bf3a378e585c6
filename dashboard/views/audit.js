/** The audit trail: who changed what, newest first, with filters in the address. */
import { now } from "../clock.js";
import { counted, fullTime, listedTime, NOTHING, words, zone } from "../format.js";
import { useLive } from "../live.js";
import { Awaited, Empty, Head, Scroll } from "../parts/basics.js";
import { Entered, Period, startOf } from "../parts/filters.js";
import { Icon } from "../parts/icons.js";
import { refined, route, to } from "../router.js";
import { html, useMemo } from "../ui.js";
import { useTenantNames } from "./leases.js";

export function Audit({ me }) {
  const { query } = route.use();
  const tenants = useTenantNames(me.role === "operator");
  const period = query.get("period") ?? "";
  const since = useMemo(() => period && startOf(period, now()), [period]);
  const live = useLive(pathOf(query, since), 10, { keep: true });
  const items = live.data?.items;
  return html`
    <${Head} title="Audit" sub=${me.role === "operator" ? "Changes in all tenants, newest first" : "Changes in your tenant, newest first"} />
    <div class="filters"><div class="row">
      <${Period} value=${period} any />
      <${Entered} name="type" label="Action" query=${query} placeholder="lease.create" />
      <${Entered} name="about" label="Target" query=${query} placeholder="id of a lease, key, …" />
      ${["type", "about", "period"].some((name) => query.has(name)) && html`<a class="button ghost" href=${to("audit")}><${Icon} name="close" />Clear filters</a>`}
    </div></div>
    <${Awaited} live=${live} rows=${12}>
      ${items && html`
        <div class="panel flush">
          ${items.length ? html`<${Table} items=${items} tenants=${tenants} />` : html`<${Empty} title="No change matches."><a href=${to("audit")}>Clear the filters</a>.<//>`}
          <nav class="pages" aria-label="Pages">
            <span class="muted num">${counted(items.length, "change")} on this page</span>
            ${query.has("cursor") && html`<a class="button ghost" href=${refined({ cursor: null })}><${Icon} name="left" />First page</a>`}
            ${live.data.next_cursor && html`<a class="button ghost" href=${refined({ cursor: live.data.next_cursor })}>Next page<${Icon} name="right" /></a>`}
          </nav>
        </div>
      `}
    <//>
  `;
}

function pathOf(query, since) {
  const asked = new URLSearchParams({ limit: 50 });
  if (since) asked.set("created_after", since);
  for (const name of ["type", "about", "cursor"]) for (const value of query.getAll(name)) asked.append(name, value);
  return `/v1/audit?${asked}`;
}

const Table = ({ items, tenants }) => html`
  <${Scroll} label="Audit trail">
    <table class="list cards">
      <thead><tr><th scope="col">Time, ${zone()}</th><th scope="col">Action</th><th scope="col">Target</th><th scope="col">By</th><th scope="col">Change</th></tr></thead>
      <tbody>
        ${items.map(
          (one) => html`
            <tr key=${one.id}>
              <td data-label="Time" class="num"><${Time} at=${one.created_at} /></td>
              <th scope="row" data-label="Action">${one.action}</th>
              <td data-label="Target"><${Target} id=${one.target} name=${one.target_name} />${tenants.has(one.tenant_id) && html`<a class="under" href=${to(`tenants/${one.tenant_id}`)}>${tenants.get(one.tenant_id)}</a>`}</td>
              <td data-label="By">${one.principal_name ? html`<span class="long" title=${one.principal}>${one.principal_name}</span>` : html`<span class="id">${one.principal}</span>`}<span class="under">${one.role}${one.address && `, ${one.address}`}</span></td>
              <td data-label="Change" class="said">${changes(one.before, one.after)}</td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  <//>
`;

const Time = ({ at }) => html`<time datetime=${at} title=${fullTime(at)}>${listedTime(at)}</time>`;

const PAGES = { lease: "leases", tenant: "tenants" };

function Target({ id, name }) {
  const page = PAGES[id?.split("_")[0]];
  if (!page) return html`<span class=${name ? "long" : "id"} title=${name && id}>${name ?? id ?? NOTHING}</span>`;
  return html`<a class=${name ? "long" : "id"} title=${name && id} href=${to(`${page}/${id}`)}>${name ?? id}</a>`;
}

const isObject = (value) => value !== null && typeof value === "object";
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** `name: old → new` for each value that differs. An object unfolds. */
function changes(before, after) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const differing = names.filter((name) => !same(before?.[name], after?.[name]));
  if (!differing.length) return NOTHING;
  return html`<ul>${differing.map((name) => html`<li key=${name}><${Difference} name=${name} before=${before} after=${after} /></li>`)}</ul>`;
}

const TIME = /^\d{4}-\d\d-\d\dT/;

function text(value) {
  if (value === null) return "none";
  return typeof value === "string" && TIME.test(value) ? fullTime(value) : String(value);
}

function Difference({ name, before, after }) {
  const [old, next] = [before?.[name], after?.[name]];
  if (isObject(old) || isObject(next)) {
    return html`<details><summary>${words(name)}</summary><pre class="json">${[old, next].filter(isObject).map((one) => JSON.stringify(one, null, 1)).join("\n→\n")}</pre></details>`;
  }
  return html`<span class="muted">${words(name)}:</span> ${before && name in before && html`<s>${text(old)}</s> → `}${after && name in after ? text(next) : "removed"}`;
}
