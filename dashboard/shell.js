/** What stands around every view: the way to the others, who is signed in, and whether the API answers. */
import { awaySince } from "./api.js";
import { useNow } from "./clock.js";
import { count, span } from "./format.js";
import { useLive } from "./live.js";
import { Icon } from "./parts/icons.js";
import { route, to } from "./router.js";
import { signOut } from "./session.js";
import { html, useEffect, useRef, useState } from "./ui.js";
import { Accounts } from "./views/accounts.js";
import { Capacity } from "./views/capacity.js";
import { Fleet } from "./views/fleet.js";
import { Lease } from "./views/lease.js";
import { Leases } from "./views/leases.js";
import { Overview } from "./views/overview.js";
import { Quotas } from "./views/quotas.js";
import { Stuck } from "./views/stuck.js";
import { Tenants } from "./views/tenants.js";
import { Usage } from "./views/usage.js";

const SUMMARY = "/v1/ops/summary";

const OPERATORS = [
  { path: "fleet", name: "Fleet", view: Fleet },
  { path: "leases", name: "Leases", view: Leases },
  { path: "usage", name: "Usage", view: Usage },
  { path: "capacity", name: "Capacity", view: Capacity },
  { path: "tenants", name: "Tenants", view: Tenants },
  { path: "accounts", name: "Accounts", view: Accounts, alarms: (summary) => total(summary.orphans, "orphans") },
  { path: "stuck", name: "Stuck", view: Stuck, alarms: (summary) => summary.stuck.length },
];
const TENANTS = [
  { path: "overview", icon: "fleet", name: "Overview", view: Overview },
  { path: "leases", name: "Leases", view: Leases },
  { path: "usage", name: "Usage", view: Usage },
  { path: "capacity", name: "Capacity", view: Capacity },
  { path: "quotas", name: "Quotas", view: Quotas },
];

const total = (rows, name) => rows.reduce((sum, row) => sum + row[name], 0);

export function Shell({ me }) {
  const { parts } = route.use();
  const views = me.role === "operator" ? OPERATORS : TENANTS;
  const here = views.find((one) => one.path === parts[0]) ?? views[0];
  const View = here.path === "leases" && parts[1] ? Lease : here.view;
  const title = parts[1] ? `${parts[1]} · ` : "";
  const main = useArrival(`${here.path}/${parts[1] ?? ""}`, `${title}${here.name} · gpulease`);
  return html`
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), main.current.focus())}>Skip to content</a>
    <div class="shell">
      <header class="side">
        <a class="brand" href=${to(views[0].path)}><img src="icon.svg" alt="" width="24" height="24" />gpulease</a>
        <nav aria-label="Views"><ul>${views.map((one) => html`<${Way} key=${one.path} one=${one} here=${one === here} me=${me} />`)}</ul></nav>
        <div class="who">
          <${Theme} />
          <p><span class="strong">${me.key_name}</span><span class="muted">${me.role}</span></p>
          <button type="button" class="ghost" onClick=${() => signOut()}><${Icon} name="out" />Sign out</button>
        </div>
      </header>
      <main id="main" tabindex="-1" ref=${main}><${View} key=${`${here.path}/${parts[1] ?? ""}`} me=${me} id=${parts[1]} /></main>
    </div>
  `;
}

/** Names the page, begins at its top and tells screen readers of a new view; not at the first one. */
function useArrival(place, title) {
  const main = useRef(null);
  const first = useRef(true);
  useEffect(() => {
    document.title = title;
  }, [title]);
  useEffect(() => {
    if (!first.current) {
      scrollTo(0, 0);
      main.current.querySelector("h1")?.focus({ preventScroll: true });
    }
    first.current = false;
  }, [place]);
  return main;
}

const Way = ({ one, here, me }) => html`
  <li>
    <a href=${to(one.path)} aria-current=${here ? "page" : null}>
      <${Icon} name=${one.icon ?? one.path} /><span>${one.name}</span>
      ${one.alarms && me.role === "operator" && html`<${Alarms} of=${one.alarms} />`}
    </a>
  </li>
`;

/** How many things of a view want somebody to look. */
function Alarms({ of }) {
  const { data } = useLive(SUMMARY, 5);
  const number = data ? of(data) : 0;
  return number ? html`<span class="alarms">${count(number)}<span class="vh"> problems</span></span>` : null;
}

const SCHEMES = [
  ["auto", "auto", "System"],
  ["light", "sun", "Light"],
  ["dark", "moon", "Dark"],
];

function Theme() {
  const [chosen, setChosen] = useState(document.documentElement.dataset.theme ?? "auto");
  const choose = (name) => {
    if (name === "auto") {
      localStorage.removeItem("gpulease.theme");
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem("gpulease.theme", name);
      document.documentElement.dataset.theme = name;
    }
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

/** Says that the API is away, since when, and that nothing need be done. */
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
