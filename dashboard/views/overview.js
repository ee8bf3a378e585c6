/** A tenant's own picture: what runs, what it costs, what needs attention, what ends soon. */
import { now, useNow } from "../clock.js";
import { count, counted, gpuText, resourceName, usd, words } from "../format.js";
import { useLive } from "../live.js";
import { Accrued, Ago, Awaited, Badge, Empty, Figure, Head, Left, Panel } from "../parts/basics.js";
import { BudgetPanel } from "../parts/budgets.js";
import { GpuMap } from "../parts/gpu_map.js";
import { nameOf } from "../parts/lease_actions.js";
import { Limits, Use } from "../parts/quota_limits.js";
import { to } from "../router.js";
import { html } from "../ui.js";
import { usagePath } from "../usage_series.js";
import { Gpus, Spend } from "./usage.js";

const STATES = ["queued", "provisioning", "booting", "active", "releasing"];
const CHART_HEIGHT = 150;

export function Overview() {
  const summary = useLive("/v1/summary", 10);
  const soonest = useLive("/v1/leases?state=!terminal&sort=expires_at&limit=8", 5);
  const ended = useLive("/v1/leases?state=released&state=failed&sort=-updated_at&limit=6", 10);
  const quotas = useLive("/v1/quotas", 5);
  const usage = useLive(usagePath("24h", "gpu_model"), 60, { keep: true });
  const data = summary.data;
  return html`
    <${Head} title="Overview" sub="Your tenant. Cost covers compute, disks and public addresses." />
    <${Figures} data=${data} quotas=${quotas.data?.items} />
    <${Panel} title="Leases by state" wide><${Awaited} live=${summary} rows=${2}>${data && html`<${ByState} rows=${data.by_state} />`}<//><//>
    <div class="charts">
      <${Spend} live=${usage} by="gpu_model" height=${CHART_HEIGHT} />
      <${Gpus} live=${usage} by="gpu_model" height=${CHART_HEIGHT} />
    </div>
    <${GpuMap} />
    <div class="panels two">
      <${Panel} title="Needs attention" aside=${data && count(data.attention.total)}>
        <${Awaited} live=${summary} rows=${4}>${data && html`<${Attention} found=${data.attention} quotas=${quotas.data?.items} />`}<//>
      <//>
      <${Panel} title="Ends soonest" aside=${soonest.data && html`<a href=${to("leases", { sort: "expires_at" })}>all</a>`}>
        <${Awaited} live=${soonest} rows=${5}>
          ${soonest.data && (soonest.data.items.length ? html`<${Short} items=${soonest.data.items} end=${(one) => html`<${Left} at=${one.ends_at} />`} />` : html`<${Empty} title="No lease is running.">Create a lease with <code>gpulease lease create --gpu A10G:1 --ttl 1h</code>; it appears here automatically.<//>`)}
        <//>
      <//>
      <${Panel} title="Quota"><${Awaited} live=${quotas} rows=${4}>${quotas.data && html`<${Limits} items=${quotas.data.items} />`}<//><//>
      <${BudgetPanel} all />
      <${Panel} title="Ended last" aside=${html`<a href=${to("leases", { state: ["released", "failed"] })}>all</a>`}>
        <${Awaited} live=${ended} rows=${4}>
          ${ended.data && (ended.data.items.length ? html`<${Short} items=${ended.data.items} end=${(one) => html`<${Ago} at=${one.ended_at} />`} />` : html`<${Empty} title="Nothing has ended yet." />`)}
        <//>
      <//>
    </div>
  `;
}

function Figures({ data, quotas }) {
  const of = (name) => quotas?.find((one) => one.resource === name);
  const limit = (name, show) => (of(name) ? (of(name).limit === null ? "no limit" : `of ${show(of(name).limit)}`) : "none allowed");
  const active = data?.by_state.find((row) => row.state === "active")?.leases ?? 0;
  return html`
    <div class="figures">
      <${Figure} loading=${!data} name="Leases running" value=${data && count(data.leases)} more=${`${count(active)} active`} href=${to("leases")} />
      <${Figure} loading=${!data || !quotas} name="GPUs" value=${data && count(data.gpus)} more=${quotas && limit("gpus", (value) => count(Number(value)))} href=${to("quotas")} />
      <${Figure} loading=${!data || !quotas} name="USD per hour" value=${data && usd(data.spend_per_hour)} more=${quotas && (of("spend_per_hour") ? `VMs: ${usd(of("spend_per_hour").used)} ${limit("spend_per_hour", usd)}` : "no limit")} href=${to("quotas")} />
      <${Figure} loading=${!data} name="Running cost to date" value=${data && html`<${Growing} data=${data} amount=${data.accrued} />`} more="since each lease started" href=${to("leases")} />
      <${Figure} loading=${!data} name="Month to date" value=${data && html`<${Growing} data=${data} amount=${data.spend_month_to_date} />`} more="since the 1st, UTC" href=${to("costs", { range: "30d" })} />
    </div>
  `;
}

/** Between two answers an amount goes on at the present rate. */
function Growing({ data, amount }) {
  useNow();
  const hours = Math.max(0, now() - Date.parse(data.as_of)) / 3_600_000;
  return usd(Number(amount) + hours * Number(data.spend_per_hour));
}

const KINDS = { interrupted: "failed", stuck: "releasing", failed: "failed", expiring_soon: "releasing", quota_nearly_used: "releasing" };

function Attention({ found, quotas }) {
  if (!found.total) return html`<${Empty} title="Nothing needs attention.">Interruptions, failures of the last 24 hours, leases that end soon and quotas nearly used appear here.<//>`;
  return html`
    <ul class="lines">
      ${found.items.map(
        (one) => html`
          <li key=${one.code + (one.lease_id ?? one.name)}>
            <${Badge} state=${one.code} kind=${KINDS[one.code] ?? "queued"} />
            ${one.lease_id ? html`<a class="strong" href=${to(`leases/${one.lease_id}`)}>${one.name || one.lease_id}</a>` : html`<a class="strong" href=${to("quotas")}>${resourceName(one.name)}</a><${UsedOf} quota=${quotas?.find((quota) => quota.resource === one.name)} />`}
            ${one.message && html`<span class="muted">${one.code === "stuck" ? `${words(one.message)} for long` : one.message}</span>`}
            ${one.lease_id && html`<span class="end num">${one.code === "expiring_soon" ? html`<${Left} at=${one.expires_at} />` : html`<${Ago} at=${one.created_at} />`}</span>`}
          </li>
        `,
      )}
    </ul>
    ${found.total > found.items.length && html`<p class="note">${counted(found.total - found.items.length, "more item")}</p>`}
  `;
}

const UsedOf = ({ quota }) => quota && html`<span class="end num"><${Use} quota=${quota} resource=${quota.resource} /></span>`;

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

function ByState({ rows }) {
  const of = (state) => rows.find((row) => row.state === state) ?? { state, leases: 0, gpus: 0 };
  return html`
    <ul class="states">
      ${STATES.map(of).map(
        (row) => html`
          <li key=${row.state}>
            <a href=${to("leases", { state: row.state })}><${Badge} state=${row.state} /><span class="num strong">${count(row.leases)}</span><span class="num muted">${counted(row.gpus, "GPU")}</span></a>
          </li>
        `,
      )}
    </ul>
  `;
}
