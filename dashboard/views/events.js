/** The events of a period, newest first, with filters in the address. */
import { now } from "../clock.js";
import { EVENT_TYPES } from "../event_types.js";
import { count, counted } from "../format.js";
import { useLive } from "../live.js";
import { Awaited, Empty, Head } from "../parts/basics.js";
import { EventTable } from "../parts/event_table.js";
import { Chosen, Entered, Period, SelectFilter, startOf } from "../parts/filters.js";
import { Icon } from "../parts/icons.js";
import { route, to } from "../router.js";
import { html, useMemo } from "../ui.js";
import { useTenantNames } from "./leases.js";

const PAGES = 5;
const PAGE = 200;

export function Events({ me }) {
  const { query } = route.use();
  const operator = me.role === "operator";
  const tenants = useTenantNames(operator);
  const period = query.get("period") ?? "3600";
  const since = useMemo(() => startOf(period, now()), [period]);
  const live = useLive(pathOf(query, since), 4, { all: PAGES, keep: true });
  const items = live.data?.items;
  const filtered = ["type", "lease_id", "tenant_id"].some((name) => query.has(name));
  return html`
    <${Head} title="Events" sub=${operator ? "All tenants, newest first" : "Your tenant, newest first"} />
    <div class="filters"><div class="row">
      <${Period} value=${period} />
      <${SelectFilter} name="type" label="Type" query=${query} options=${EVENT_TYPES} several />
      <${Entered} name="lease_id" label="Lease" query=${query} placeholder="lease_…" />
      ${operator && html`<${SelectFilter} name="tenant_id" label="Tenant" query=${query} options=${[...tenants.keys()]} show=${(id) => tenants.get(id) ?? id} />`}
      <${Chosen} name="type" query=${query} label="type" />
      ${filtered && html`<a class="button ghost" href=${to("events", { period: query.get("period") })}>Clear filters</a>`}
    </div></div>
    <${Awaited} live=${live} rows=${12}>
      ${items && html`
        ${!live.data.complete && html`<p class="notice" role="status"><${Icon} name="warning" /><span>The period has more than ${counted(PAGES * PAGE, "event")}. Only its newest ${count(PAGES * PAGE)} are shown. Choose a shorter period or a filter.</span></p>`}
        <div class="panel flush">
          ${items.length ? html`<${EventTable} items=${items} lease tenants=${tenants} />` : html`<${Empty} title="No event matches.">Choose a longer period, or <a href=${to("events")}>clear the filters</a>.<//>`}
        </div>
      `}
    <//>
  `;
}

function pathOf(query, since) {
  const asked = new URLSearchParams({ limit: PAGE, sort: "-created_at", created_after: since });
  for (const name of ["type", "lease_id", "tenant_id"]) for (const value of query.getAll(name)) asked.append(name, value);
  return `/v1/events?${asked}`;
}
