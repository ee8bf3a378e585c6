/** Webhooks: where a tenant's events are sent, and what became of each message. */
import { counted, fullTime, listedTime, NOTHING, shortTime, zone } from "../format.js";
import { useLive } from "../live.js";
import { Awaited, Badge, Copy, Empty, Facts, Head, Left, Panel, Scroll } from "../parts/basics.js";
import { SelectFilter } from "../parts/filters.js";
import { Icon } from "../parts/icons.js";
import { createWebhook, deleteWebhook, editWebhook, FORMATS, replayDelivery, rotateSecret, switchWebhook, testWebhook } from "../parts/webhook_dialogs.js";
import { refined, route, to } from "../router.js";
import { useSubject } from "../title.js";
import { html } from "../ui.js";
import { useTenantNames } from "./leases.js";

const PAGE = 50;
const WHY_DISABLED = { by_user: "disabled", gone: "disabled: answered 410" };
const STATES = { pending: "queued", delivered: "active", given_up: "failed" };

export function Webhooks({ me }) {
  const { query } = route.use();
  const operator = me.role === "operator";
  const tenants = useTenantNames(operator);
  const tenantId = operator ? query.get("tenant_id") : null;
  const live = useLive(`/v1/webhooks?limit=200${tenantId ? `&tenant_id=${encodeURIComponent(tenantId)}` : ""}`, 10, { all: true, keep: true });
  const items = live.data?.items;
  return html`
    <${Head} title="Webhooks" sub=${operator ? "Where tenants receive their events" : "Where your tenant's events are sent"}>
      <button type="button" class="primary" disabled=${operator && !tenants.size} onClick=${() => createWebhook(operator ? tenants : null, tenantId)}>Create a webhook</button>
    <//>
    ${operator && html`<div class="filters"><div class="row"><${SelectFilter} name="tenant_id" label="Tenant" query=${query} options=${[...tenants.keys()]} show=${(id) => tenants.get(id) ?? id} /></div></div>`}
    <${Awaited} live=${live} rows=${5}>
      ${items && (items.length ? html`<${List} items=${items} tenants=${operator ? tenants : null} />` : html`<div class="panel"><${None} /></div>`)}
    <//>
  `;
}

const None = () => html`
  <${Empty} title="No webhooks yet.">A webhook sends events to a URL as they happen. Without a public address, use <code>gpulease webhooks listen --forward-to URL</code>.<//>
`;

const typesText = (hook) => hook.event_types?.join(", ") ?? "all types";

const Enabled = ({ hook }) => html`<${Badge} state=${hook.enabled ? "enabled" : "disabled"} kind=${hook.enabled ? "active" : "failed"} text=${hook.enabled ? "enabled" : WHY_DISABLED[hook.disabled_reason] ?? "disabled"} />`;

const List = ({ items, tenants }) => html`
  <div class="panel flush">
    <${Scroll} label="Webhooks">
      <table class="list cards">
        <caption class="vh">Webhooks</caption>
        <thead><tr><th scope="col">Receiver</th>${tenants && html`<th scope="col">Tenant</th>`}<th scope="col">State</th><th scope="col">Events</th><th scope="col">Format</th><th scope="col">Created</th></tr></thead>
        <tbody>
          ${items.map(
            (hook) => html`
              <tr key=${hook.id}>
                <th scope="row" data-label="Receiver"><a class="long" href=${to(`webhooks/${hook.id}`)}>${hook.url}</a>${hook.description && html`<span class="under">${hook.description}</span>`}</th>
                ${tenants && html`<td data-label="Tenant"><a class="quiet" href=${to(`tenants/${hook.tenant_id}`)}>${tenants.get(hook.tenant_id) ?? hook.tenant_id}</a></td>`}
                <td data-label="State"><${Enabled} hook=${hook} /></td>
                <td data-label="Events" class="said">${typesText(hook)}</td>
                <td data-label="Format">${hook.format}</td>
                <td data-label="Created">${shortTime(hook.created_at)}</td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    <//>
  </div>
`;

export function Webhook({ me, id }) {
  const path = `/v1/webhooks/${encodeURIComponent(id)}`;
  const live = useLive(path, 5);
  const tenants = useTenantNames(me.role === "operator");
  const hook = live.data;
  useSubject(hook?.url ?? id);
  if (live.error?.status === 404) return html`<${Head} title="Webhook not found" sub=${id} /><div class="panel"><${Empty} title="No webhook has this id.">It may have been deleted. See <a href=${to("webhooks")}>all webhooks</a>.<//></div>`;
  if (!hook) return html`<${Head} title="Webhook" sub=${id} /><${Awaited} live=${live} rows=${6} />`;
  return html`
    <p class="crumbs"><a href=${to("webhooks")}>Webhooks</a> <span aria-hidden="true">/</span> ${hook.url}</p>
    <${Head} title=${hook.url} sub=${html`<${Enabled} hook=${hook} /> <${Copy} text=${hook.id} label="id" />`}><${Actions} hook=${hook} /><//>
    <${Panel} title="Messages" wide>
      <${Facts} rows=${[
        tenants.has(hook.tenant_id) && ["Tenant", html`<a href=${to(`tenants/${hook.tenant_id}`)}>${tenants.get(hook.tenant_id)}</a>`],
        ["Events", typesText(hook)],
        ["Format", FORMATS[hook.format] ?? hook.format],
        hook.description && ["Note", hook.description],
        ["Secret", hook.previous_valid_until ? `rotated; the previous one signs until ${fullTime(hook.previous_valid_until)}` : "signs every message; shown once"],
      ]} />
    <//>
    <${Deliveries} hook=${hook} />
  `;
}

const Actions = ({ hook }) => html`
  <span class="actions">
    <button type="button" onClick=${() => testWebhook(hook)} disabled=${!hook.enabled}>Send a test</button>
    <button type="button" onClick=${() => editWebhook(hook)}><${Icon} name="edit" />Edit</button>
    <button type="button" onClick=${() => rotateSecret(hook)}>Rotate the secret</button>
    <button type="button" onClick=${() => switchWebhook(hook)}>${hook.enabled ? "Disable" : "Enable"}</button>
    <button type="button" onClick=${() => deleteWebhook(hook)}><${Icon} name="close" />Delete</button>
  </span>
`;

function Deliveries({ hook }) {
  const { query } = route.use();
  const cursor = query.get("cursor");
  const live = useLive(`/v1/webhooks/${encodeURIComponent(hook.id)}/deliveries?limit=${PAGE}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`, 4, { keep: true });
  const items = live.data?.items;
  return html`
    <${Panel} title="Deliveries" aside="kept for 30 days, newest first" wide flush>
      <${Awaited} live=${live} rows=${5}>
        ${items && (items.length ? html`<${Table} hook=${hook} items=${items} />` : html`<${Empty} title="No deliveries yet.">The webhook receives events from its creation on. <em>Send a test</em> tries the receiver.<//>`)}
        ${items && (cursor || live.data.next_cursor) && html`
          <nav class="pages" aria-label="Pages">
            <span class="muted num">${counted(items.length, "message")} on this page</span>
            ${cursor && html`<a class="button ghost" href=${refined({ cursor: null })}><${Icon} name="left" />First page</a>`}
            ${live.data.next_cursor && html`<a class="button ghost" href=${refined({ cursor: live.data.next_cursor })}>Next page<${Icon} name="right" /></a>`}
          </nav>
        `}
      <//>
    <//>
  `;
}

const Table = ({ hook, items }) => html`
  <${Scroll} label="Deliveries">
    <table class="list cards">
      <caption class="vh">Deliveries</caption>
      <thead><tr><th scope="col">Event</th><th scope="col">State</th><th scope="col" class="n">Status</th><th scope="col" class="n">Tries</th><th scope="col">Error</th><th scope="col">Last try, ${zone()}</th><th scope="col"><span class="vh">Actions</span></th></tr></thead>
      <tbody>
        ${items.map(
          (one) => html`
            <tr key=${one.id}>
              <th scope="row" data-label="Event">${one.event_type}<span class="under id">${one.event_id}</span></th>
              <td data-label="State"><${Badge} state=${one.state} kind=${STATES[one.state] ?? "released"} />${one.next_try_at && one.tries > 0 && html`<span class="under">again in <${Left} at=${one.next_try_at} over="a moment" soon=${0} /></span>`}</td>
              <td data-label="Status" class="n">${one.status ?? NOTHING}</td>
              <td data-label="Tries" class="n">${one.tries}</td>
              <td data-label="Error" class="said">${one.error ?? NOTHING}</td>
              <td data-label="Last try" class="num">${one.last_try_at ? html`<time datetime=${one.last_try_at} title=${fullTime(one.last_try_at)}>${listedTime(one.last_try_at)}</time>` : "not yet"}</td>
              <td class="do">${hook.enabled && html`<button type="button" class="ghost" aria-label=${`Send again: ${one.event_type}, ${one.event_id}`} onClick=${() => replayDelivery(hook, one)}>Send again</button>`}</td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  <//>
`;
