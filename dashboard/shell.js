/** The frame around every view: navigation, who is signed in, and whether the API responds. */
import { awaySince } from "./api.js";
import { withoutStream } from "./changes.js";
import { useNow } from "./clock.js";
import { count, span } from "./format.js";
import { useLive } from "./live.js";
import { Icon } from "./parts/icons.js";
import { go, restoreScroll, route, to } from "./router.js";
import { signOut } from "./session.js";
import { save } from "./storage.js";
import { html, useEffect, useRef, useState } from "./ui.js";
import { Title } from "./title.js";
import { Accounts } from "./views/accounts.js";
import { Audit } from "./views/audit.js";
import { Budgets } from "./views/budgets.js";
import { Capacity } from "./views/capacity.js";
import { Costs } from "./views/costs.js";
import { Create } from "./views/create.js";
import { CreateGroup } from "./views/create_group.js";
import { Events } from "./views/events.js";
import { Fleet } from "./views/fleet.js";
import { Group } from "./views/group.js";
import { Groups } from "./views/groups.js";
import { Keys } from "./views/keys.js";
import { Lease } from "./views/lease.js";
import { Leases } from "./views/leases.js";
import { NotFound } from "./views/not_found.js";
import { Overview } from "./views/overview.js";
import { Prices } from "./views/prices.js";
import { Quotas } from "./views/quotas.js";
import { Reconciliation } from "./views/reconciliation.js";
import { Stuck } from "./views/stuck.js";
import { Tenant } from "./views/tenant.js";
import { Tenants } from "./views/tenants.js";
import { Usage } from "./views/usage.js";
import { Volumes } from "./views/volumes.js";
import { Webhook, Webhooks } from "./views/webhooks.js";

const SUMMARY = "/v1/ops/summary";
const LEASES = { path: "leases", name: "Leases", view: Leases, item: Lease, pages: { new: Create } };
const GROUPS = { path: "groups", name: "Groups", view: Groups, item: Group, pages: { new: CreateGroup } };
const VOLUMES = { path: "volumes", name: "Volumes", view: Volumes };

/** `item`: the view of one of them, at `#/path/id`. `pages`: views at fixed addresses below. */
const OPERATORS = [
  { path: "fleet", name: "Fleet", view: Fleet },
  LEASES,
  GROUPS,
  VOLUMES,
  { path: "usage", name: "Usage", view: Usage },
  { path: "costs", name: "Costs", view: Costs },
  { path: "budgets", name: "Budgets", view: Budgets },
  { path: "prices", name: "Prices", view: Prices },
  { path: "capacity", name: "Capacity", view: Capacity },
  { path: "tenants", name: "Tenants", view: Tenants, item: Tenant },
  { path: "accounts", name: "Accounts", view: Accounts, alarms: (summary) => total(summary.orphans, "orphans") },
  { path: "reconciliation", name: "Reconciliation", view: Reconciliation },
  { path: "stuck", name: "Stuck", view: Stuck, alarms: (summary) => summary.stuck.length },
  { path: "events", name: "Events", view: Events },
  { path: "webhooks", name: "Webhooks", view: Webhooks, item: Webhook },
  { path: "audit", name: "Audit", view: Audit },
];
const TENANTS = [
  { path: "overview", icon: "fleet", name: "Overview", view: Overview },
  LEASES,
  GROUPS,
  VOLUMES,
  { path: "usage", name: "Usage", view: Usage },
  { path: "costs", name: "Costs", view: Costs },
  { path: "budgets", name: "Budgets", view: Budgets },
  { path: "prices", name: "Prices", view: Prices },
  { path: "capacity", name: "Capacity", view: Capacity },
  { path: "quotas", name: "Quotas", view: Quotas },
  { path: "keys", name: "Keys", view: Keys },
  { path: "events", name: "Events", view: Events },
  { path: "webhooks", name: "Webhooks", view: Webhooks, item: Webhook, role: "admin" },
  { path: "audit", name: "Audit", view: Audit, role: "admin" },
];
const HOMES = [undefined, OPERATORS[0].path, TENANTS[0].path];

const total = (rows, name) => rows.reduce((sum, row) => sum + row[name], 0);

/** `{here, View, id}` of an address; `here` is undefined where no view has it. */
function find(views, [first, id, ...rest]) {
  const here = HOMES.includes(first) ? views[0] : views.find((one) => one.path === first);
  const page = here?.pages?.[id];
  const View = id === undefined ? here?.view : page ?? here?.item;
  return View && !rest.length ? { here, View, id: page ? undefined : id } : { View: NotFound };
}

export function Shell({ me }) {
  const current = route.use();
  const views = me.role === "operator" ? OPERATORS : TENANTS.filter((one) => !one.role || one.role === me.role);
  const { here, View, id } = find(views, current.parts);
  const place = current.parts.join("/");
  const searching = useSearchKey();
  const main = useArrival(searching, current, `${place} ${current.query.get("cursor") ?? ""}`);
  return html`
    <${Title} view=${here?.name ?? "Not found"} />
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), main.current.focus())}>Skip to content</a>
    <div class="shell">
      <header class="side">
        <a class="brand" href=${to(views[0].path)}><img src="icon.svg" alt="" width="24" height="24" />gpulease</a>
        <nav aria-label="Views"><ul>${views.map((one) => html`<${Way} key=${one.path} one=${one} here=${one === here} me=${me} />`)}</ul></nav>
        <div class="who">
          <${Theme} />
          <${Polling} />
          <p><span class="strong">${me.key_name}</span><span class="muted">${me.tenant?.name ? `${me.role}, ${me.tenant.name}` : me.role}</span></p>
          <button type="button" class="ghost" onClick=${() => signOut()}><${Icon} name="out" />Sign out</button>
        </div>
      </header>
      <main id="main" tabindex="-1" ref=${main}><${View} key=${place} me=${me} id=${id} home=${views[0]} /></main>
    </div>
  `;
}

/** A new view begins at its top, and screen readers hear its heading; a step back restores the scroll position. */
function useArrival(searching, { entry, position }, place) {
  const main = useRef(null);
  const before = useRef(place);
  useEffect(() => {
    const moved = before.current !== place;
    before.current = place;
    const field = searching.current ? searchField() : null;
    if (moved) (field ?? main.current.querySelector("h1"))?.focus({ preventScroll: true });
    if (field) searching.current = false;
    if (position !== null) restoreScroll(position);
    else if (moved) scrollTo(0, 0);
  }, [entry, place]);
  return main;
}

const searchField = () => document.querySelector("main input[type=search]");

/** The key / goes to the search field of the view, or to that of the leases. True until that view has come. */
function useSearchKey() {
  const searching = useRef(false);
  useEffect(() => {
    const press = (event) => {
      const typing = event.target.closest("input, select, textarea, dialog");
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || typing) return;
      event.preventDefault();
      const field = searchField();
      searching.current = !field;
      if (field) field.focus();
      else go(to("leases"));
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  return searching;
}

const Way = ({ one, here, me }) => html`
  <li>
    <a href=${to(one.path)} aria-current=${here ? "page" : null}>
      <${Icon} name=${one.icon ?? one.path} /><span>${one.name}</span>
      ${one.alarms && me.role === "operator" && html`<${Alarms} of=${one.alarms} />`}
    </a>
  </li>
`;

/** How many things of a view need attention. */
function Alarms({ of }) {
  const { data } = useLive(SUMMARY, 5);
  const number = data ? of(data) : 0;
  return number ? html`<span class="alarms">${count(number)}<span class="vh"> problems</span></span>` : null;
}

const SCHEMES = [
  ["auto", "auto", "Match system"],
  ["light", "sun", "Light"],
  ["dark", "moon", "Dark"],
];

function Theme() {
  const [chosen, setChosen] = useState(document.documentElement.dataset.theme ?? "auto");
  const choose = (name) => {
    save("localStorage", "gpulease.theme", name === "auto" ? null : name);
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    setChosen(name);
  };
  return html`
    <div class="segments" role="group" aria-label="Colours">
      ${SCHEMES.map(
        ([name, icon, label]) => html`
          <button key=${name} type="button" aria-pressed=${name === chosen} aria-label=${label} title=${label} onClick=${() => choose(name)}>
            <${Icon} name=${icon} />
          </button>
        `,
      )}
    </div>
  `;
}

/** A quiet word where something between the page and the API blocks the event stream. */
const Polling = () => withoutStream.use() && html`<p><span class="muted">Live updates are blocked. The page polls.</span></p>`;

/** Shown while the API does not respond. */
export function Banner() {
  const since = awaySince.use();
  return html`<div role="alert" class="banner-place">${since !== null && html`<${AwayFor} since=${since} />`}</div>`;
}

const AwayFor = ({ since }) => html`
  <div class="banner">
    <${Icon} name="warning" />
    <p><strong>The API does not respond</strong> <span>This data is <${For} since=${since} /> old. The page retries automatically.</span></p>
  </div>
`;

/** Not told again every second. */
function For({ since }) {
  useNow();
  return html`<span aria-live="off">${span((Date.now() - since) / 1000)}</span>`;
}
