/** One tenant: terms, status, quotas and API keys, for operators to change. */
import { shortTime, span } from "../format.js";
import { useLive } from "../live.js";
import { ApiKeys } from "../parts/api_keys.js";
import { Awaited, Badge, Copy, Empty, Facts, Head, Panel } from "../parts/basics.js";
import { confirm } from "../parts/dialogs.js";
import { Icon } from "../parts/icons.js";
import { editQuotas, Limits } from "../parts/quota_limits.js";
import { to } from "../router.js";
import { useSubject } from "../title.js";
import { html } from "../ui.js";

export function Tenant({ id }) {
  const path = `/v1/tenants/${encodeURIComponent(id)}`;
  const live = useLive(path, 10);
  const quotas = useLive(`${path}/quotas`, 5);
  const tenant = live.data;
  useSubject(tenant?.name ?? id);
  if (!tenant && live.error?.status === 404) return html`<${Head} title="Tenant not found" sub=${id} /><div class="panel"><${Empty} title="No tenant has this id.">See <a href=${to("tenants")}>all tenants</a>.<//></div>`;
  if (!tenant) return html`<${Head} title="Tenant" sub=${id} /><${Awaited} live=${live} rows=${8} />`;
  const items = quotas.data?.items;
  return html`
    <p class="crumbs"><a href=${to("tenants")}>Tenants</a> <span aria-hidden="true">/</span> ${tenant.name}</p>
    <${Head} title=${tenant.name} sub=${html`<${Badge} state=${tenant.status} kind=${tenant.status === "active" ? "active" : "failed"} /> <${Copy} text=${tenant.id} label="id" />`}>
      <a class="button" href=${to("leases", { tenant_id: tenant.id })}><${Icon} name="leases" />Leases</a>
      <a class="button" href=${to("costs", { tenant_id: tenant.id })}><${Icon} name="costs" />Costs</a>
      <a class="button" href=${to("budgets", { tenant_id: tenant.id })}><${Icon} name="budgets" />Budgets</a>
      <a class="button" href=${to("events", { tenant_id: tenant.id })}><${Icon} name="events" />Events</a>
      <button type="button" onClick=${() => edit(tenant)}><${Icon} name="edit" />Edit</button>
      ${tenant.status === "active" ? html`<button type="button" onClick=${() => suspend(tenant)}>Suspend</button>` : html`<button type="button" onClick=${() => activate(tenant)}>Activate</button>`}
    <//>
    <div class="panels">
      <${Panel} title="Terms">
        <${Facts} rows=${[
          ["Longest lease", span(tenant.max_ttl_seconds)],
          ["With extensions", span(tenant.max_total_seconds)],
          ["Created", shortTime(tenant.created_at)],
          ["Last changed", shortTime(tenant.updated_at)],
        ]} />
      <//>
      <${Panel} title="Quotas" aside=${items && html`<button type="button" class="ghost" onClick=${() => editQuotas(tenant, items)}><${Icon} name="edit" />Edit quotas</button>`}>
        <${Awaited} live=${quotas} rows=${4}>${items && (items.length ? html`<${Limits} items=${items} />` : html`<${Empty} title="No GPUs are allowed yet.">Set a quota for <code>gpus</code>.<//>`)}<//>
      <//>
    </div>
    <${ApiKeys} tenantId=${tenant.id} />
  `;
}

const HOUR = 3600;
const hours = (seconds) => String(seconds / HOUR);

const TERMS = (tenant) => [
  { name: "name", label: "Name", value: tenant?.name ?? "", required: true, maxlength: 63 },
  { name: "max_ttl_seconds", label: "Longest lease, hours", type: "number", min: "0.02", step: "any", value: tenant ? hours(tenant.max_ttl_seconds) : "", placeholder: "the installation's default" },
  { name: "max_total_seconds", label: "Longest lease with extensions, hours", type: "number", min: "0.02", step: "any", value: tenant ? hours(tenant.max_total_seconds) : "", placeholder: "the installation's default" },
];

function termsOf({ name, max_ttl_seconds: ttl, max_total_seconds: total }) {
  const seconds = (text) => (text === "" ? undefined : Math.round(Number(text) * HOUR));
  return { name: name.trim(), max_ttl_seconds: seconds(ttl), max_total_seconds: seconds(total) };
}

/** `then` gets the new tenant. */
export const createTenant = (then) =>
  confirm({
    title: "Create a tenant",
    text: html`<p>A new tenant may use no GPUs until you set its quota.</p>`,
    fields: TERMS(null),
    yes: "Create",
    request: (values) => ["POST", "/v1/tenants", termsOf(values)],
    done: (saved) => {
      then(saved);
      return `${saved.name} was created.`;
    },
  });

const edit = (tenant) =>
  confirm({
    title: `Edit ${tenant.name}`,
    fields: TERMS(tenant),
    yes: "Save",
    request: (values) => ["PATCH", `/v1/tenants/${tenant.id}`, termsOf(values)],
    done: (saved) => `${saved.name} was saved.`,
  });

const suspend = (tenant) =>
  confirm({
    title: `Suspend ${tenant.name}?`,
    text: html`<p>The tenant gets no VM and no more time for one. Its queued leases end, and a running lease that loses its VM is not replaced.</p>`,
    fields: [{ name: "end_leases", label: "End its running leases too", kind: "check", value: false }],
    yes: "Suspend",
    danger: true,
    request: (values) => ["PATCH", `/v1/tenants/${tenant.id}`, { status: "suspended", ...values }],
    done: (saved) => `${saved.name} is suspended.`,
  });

const activate = (tenant) =>
  confirm({
    title: `Activate ${tenant.name}?`,
    text: html`<p>The tenant can create and extend leases again.</p>`,
    yes: "Activate",
    request: () => ["PATCH", `/v1/tenants/${tenant.id}`, { status: "active" }],
    done: (saved) => `${saved.name} is active.`,
  });
