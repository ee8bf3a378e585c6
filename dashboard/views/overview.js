/** A tenant's own picture: room, what runs, what ends soon. */
import { count, gpuText, usd } from "../format.js";
import { useLive } from "../live.js";
import { Accrued, Ago, Awaited, Badge, Empty, Figure, Head, Left, Panel } from "../parts/basics.js";
import { nameOf } from "../parts/lease_actions.js";
import { to } from "../router.js";
import { html } from "../ui.js";
import { Limits } from "./quotas.js";

const STATES = ["queued", "provisioning", "booting", "active", "releasing"];

export function Overview() {
  const running = useLive("/v1/leases?state=!terminal&sort=expires_at&limit=200", 5);
  const ended = useLive("/v1/leases?state=released&state=failed&sort=-updated_at&limit=6", 10);
  const quotas = useLive("/v1/quotas", 5);
  const items = running.data?.items;
  const of = (name) => quotas.data?.items.find((one) => one.resource === name);
  const room = (name, show) => (of(name) ? (of(name).limit === null ? "no limit" : `of ${show(of(name).limit)}`) : "none allowed");
  const more = running.data?.next_cursor ? "+" : "";
  return html`
    <${Head} title="Overview" sub="Your tenant" />
    <div class="figures">
      <${Figure} loading=${!items} name="Leases running" value=${items && count(items.length) + more} more=${items && `${count(items.filter((one) => one.state === "active").length)}${more} active`} href=${to("leases")} />
      <${Figure} loading=${!quotas.data} name="GPUs" value=${quotas.data && count(Number(of("gpus")?.used ?? 0))} more=${room("gpus", (value) => count(Number(value)))} href=${to("quotas")} />
      <${Figure} loading=${!quotas.data} name="USD per hour" value=${quotas.data && usd(of("spend_per_hour")?.used ?? 0)} more=${room("spend_per_hour", usd)} href=${to("quotas")} />
      <${Figure} loading=${!items} name="Cost of running leases" value=${items && usd(items.reduce((all, one) => all + Number(one.cost.accrued), 0)) + more} more="since each lease started" href=${to("leases")} />
    </div>
    <div class="panels two">
      <${Panel} title="Ends soonest" aside=${items && html`<a href=${to("leases", { sort: "expires_at" })}>all</a>`}>
        <${Awaited} live=${running} rows=${5}>
          ${items && (items.length ? html`<${Short} items=${items.slice(0, 8)} end=${(one) => html`<${Left} at=${one.expires_at} />`} />` : html`<${Empty} title="No lease is running.">Create a lease with <code>gpulease lease create --gpu A10G:1 --ttl 1h</code>; it appears here automatically.<//>`)}
        <//>
      <//>
      <${Panel} title="Room"><${Awaited} live=${quotas} rows=${4}>${quotas.data && html`<${Limits} items=${quotas.data.items} />`}<//><//>
      <${Panel} title="By state"><${Awaited} live=${running} rows=${4}>${items && html`<${ByState} items=${items} more=${more} />`}<//><//>
      <${Panel} title="Ended last" aside=${html`<a href=${to("leases", { state: ["released", "failed"] })}>all</a>`}>
        <${Awaited} live=${ended} rows=${4}>
          ${ended.data && (ended.data.items.length ? html`<${Short} items=${ended.data.items} end=${(one) => html`<${Ago} at=${one.ended_at} />`} />` : html`<${Empty} title="Nothing has ended yet." />`)}
        <//>
      <//>
    </div>
  `;
}

const Short = ({ items, end }) => html`
  <ul class="lines">
    ${items.map(
      (one) => html`
        <li key=${one.id}>
          <${Badge} state=${one.state} /><a class="strong" href=${to(`leases/${one.id}`)}>${nameOf(one)}</a><span class="muted num">${gpuText(one)}</span>
          <span class="end num"><${Accrued} cost=${one.cost} /><span class="muted"> · </span>${end(one)}</span>
        </li>
      `,
    )}
  </ul>
`;

const ByState = ({ items, more }) => html`
  <ul class="lines">
    ${STATES.map((state) => html`<li key=${state}><${Badge} state=${state} /><a class="end num" href=${to("leases", { state })}>${count(items.filter((one) => one.state === state).length)}${more}<span class="vh"> leases ${state}</span></a></li>`)}
  </ul>
`;
