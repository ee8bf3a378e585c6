/** Costs over time, the month's forecast, savings and the most expensive leases. */
import { count, counted, gpuText, marketName, percent, shortTime, usd, words } from "../format.js";
import { useLive } from "../live.js";
import { Awaited, Bar, Empty, Figure, Head, Panel, Refused } from "../parts/basics.js";
import { Chart } from "../parts/chart.js";
import { Downloads } from "../parts/cost_downloads.js";
import { Choices, SelectFilter } from "../parts/filters.js";
import { Forecast } from "../parts/forecast.js";
import { go, refined, route, to } from "../router.js";
import { html, useMemo, useRef } from "../ui.js";
import { byGroup, costSeries, costsPath, idleCost, RANGES } from "../cost_series.js";
import { useTenantNames } from "./leases.js";

const POLL_SECONDS = { hour: 60, day: 300, month: 900 };
const GROUPS = { tenant: "tenant", provider: "cloud", gpu_model: "GPU model", market: "market", region: "region" };
const FILTERS = { tenant: "tenant_id", provider: "provider", gpu_model: "gpu_model", region: "region" };
const LABEL = /^label:./;
const MOST_PAGES = 30;
const TOP = 8;
const money = (value) => usd(Number(value));
const dollars = (value) => (Number.isInteger(value) ? `$${count(value)}` : usd(value));
const hours = (value) => (value >= 100 || Number.isInteger(value) ? count(value) : String(Number(value.toFixed(1))));

/** What the address asks: a value that it lacks, or that does not fit, is the first one. */
function choiceOf(query, operator) {
  const range = query.get("range") in RANGES ? query.get("range") : "30d";
  const label = LABEL.test(query.get("by") ?? "") ? query.get("by") : null;
  const pick = (name, values) => (values.includes(query.get(name)) ? query.get(name) : values[0]);
  const groups = Object.keys(GROUPS).filter((one) => operator || one !== "tenant");
  const { buckets } = RANGES[range];
  return { range, buckets, bucket: pick("bucket", buckets), groups, by: label ?? pick("by", groups), label, tenantId: operator ? query.get("tenant_id") : null };
}

export function Costs({ me }) {
  const { query } = route.use();
  const operator = me.role === "operator";
  const tenants = useTenantNames(operator);
  const { range, buckets, bucket, groups, by, label, tenantId } = choiceOf(query, operator);
  const path = (group, step = bucket) => costsPath(range, step, group, tenantId);
  const seconds = POLL_SECONDS[bucket];
  const grouped = useLive(path(by), seconds, { all: MOST_PAGES, keep: true });
  const markets = useLive(path("market"), seconds, { all: MOST_PAGES, keep: true });
  const leases = useLive(path("lease", range !== "24h" && bucket === "hour" ? "day" : bucket), 2 * seconds, { all: MOST_PAGES, keep: true });
  const used = markets.data?.total.leases > 0;
  return html`
    <${Head} title="Costs" sub=${`Compute, network disks and public addresses, in USD. ${bucket === "hour" ? "" : "Days and months are those of UTC."}`}>
      <${Downloads} path=${path(by)} range=${range} tenantId=${tenantId} me=${me} />
    <//>
    <div class="filters"><div class="row">
      <${Choices} label="Range" name="range" values=${Object.keys(RANGES)} chosen=${range} text=${(one) => RANGES[one].name} />
      ${buckets.length > 1 && html`<${Choices} label="Bucket" name="bucket" values=${buckets} chosen=${bucket} text=${(one) => `by ${one}`} />`}
      <${Choices} label="Divide by" name="by" values=${groups} chosen=${by} text=${(one) => `by ${GROUPS[one]}`} />
      <${LabelKey} label=${label} />
      ${operator && html`<${SelectFilter} name="tenant_id" label="Tenant" query=${query} options=${[...tenants.keys()]} show=${(id) => tenants.get(id) ?? id} />`}
    </div></div>
    <${Totals} report=${markets.data} tenantId=${tenantId} />
    <${Awaited} live=${markets} rows=${6}>
      ${markets.data && !used && html`<div class="panel"><${Empty} title=${`Nothing was billed in the last ${RANGES[range].name}.`}>Choose a longer range, or create a lease with <code>gpulease lease create --gpu A10G:1 --ttl 1h</code>; its cost appears within a minute.<//></div>`}
      ${used && html`<${Spend} live=${grouped} bucket=${bucket} by=${by} names=${tenants} tenantId=${tenantId} />`}
    <//>
    <div class="panels">
      <${Forecast} tenantId=${tenantId} tenants=${tenants} />
      ${used && html`<${Savings} report=${markets.data} />`}
      ${used && html`<${Top} live=${leases} />`}
    </div>
  `;
}

/** Divides by the values of a label, such as those of `team`. */
function LabelKey({ label }) {
  const choose = (event) => {
    event.preventDefault();
    const key = new FormData(event.currentTarget).get("key").trim();
    go(refined({ by: key ? `label:${key}` : null }));
  };
  return html`
    <form class="field" onSubmit=${choose}><label for="label-key">by label</label>
      <input id="label-key" key=${label} name="key" defaultValue=${label?.slice("label:".length) ?? ""} placeholder="team" title="The key of a label; Enter divides by its values" maxlength="63" spellcheck=${false} autocomplete="off" data-on=${label !== null} />
    </form>
  `;
}

function Totals({ report, tenantId }) {
  const all = report?.total;
  const loading = !report;
  const days = report && (Math.min(Date.parse(report.as_of), Date.parse(report.ends_at)) - Date.parse(report.starts_at)) / 86_400_000;
  const href = to("leases", { state: "any", tenant_id: tenantId });
  const idle = all && idleCost(all);
  return html`
    <div class="figures">
      <${Figure} loading=${loading} name="Cost" value=${all && usd(all.cost)} more=${all && `${usd(Number(all.cost) / days)} a day`} href=${href} />
      <${Figure} loading=${loading} name="On-demand price" value=${all && usd(all.list_cost)} more="of the same machines" href=${href} />
      <${Figure} loading=${loading} name="Savings" value=${all && usd(all.savings)} more=${all && (Number(all.list_cost) ? `${percent(Number(all.savings) / Number(all.list_cost))} by spot and reservations` : "by spot and reservations")} href=${href} />
      <${Figure} loading=${loading} name="GPU hours" value=${all && hours(all.gpu_hours)} more=${all && (all.gpu_hours ? `${usd(Number(all.cost) / all.gpu_hours)} per GPU hour` : counted(all.leases, "lease"))} href=${href} />
      ${idle !== null && idle !== undefined && html`<${Figure} name="Idle GPU hours" value=${hours(all.idle_gpu_hours)} more=${`≈ ${usd(idle)} without load`} href=${href} tone=${all.idle_gpu_hours > 0 ? "warn" : undefined} />`}
    </div>
  `;
}

function Spend({ live, bucket, by, names, tenantId }) {
  const shown = useRef(null); // until the report of another bucket or division comes, the chart stays as it is
  const made = useMemo(() => (live.settled ? costSeries(live.data, bucket, by, names) : null), [live.data, live.settled, bucket, by, names]);
  const data = (shown.current = made ?? shown.current);
  const link = ({ key }) => {
    if (key === "other" || key === null || !(FILTERS[by] || LABEL.test(by))) return null;
    const filter = FILTERS[by] ? { [FILTERS[by]]: key } : { label: `${by.replace("label:", "")}:${key}` };
    return to("leases", { state: "any", tenant_id: tenantId, ...filter });
  };
  const title = `Cost per ${bucket}`;
  return html`
    <${Panel} title=${title} aside=${live.data && `total in USD, until ${shortTime(live.data.as_of)}`}>
      <${Awaited} live=${live} rows=${5}>
        ${data && html`<${Chart} title=${title} data=${data} kind="areas" show=${money} tick=${dollars} link=${link} />`}
        ${live.data && html`<${Refused} error=${live.error} />`}
        ${live.data && !live.data.complete && html`<p class="note">The chart lacks the end of the range: choose one tenant or a shorter range.</p>`}
      <//>
    <//>
  `;
}

/** Cost beside the on-demand price, by market. */
function Savings({ report }) {
  const rows = byGroup(report.items, "market");
  return html`
    <${Panel} title="Savings by market">
      <table class="groups">
        <thead><tr><th scope="col">Market</th><th scope="col" class="n">Cost</th><th scope="col" class="n">Savings</th></tr></thead>
        <tbody>
          ${rows.map((row) => html`<tr key=${row.key}><th scope="row">${marketName(row.key)}<span class="under">${usd(row.list_cost)} on demand, ${hours(row.gpu_hours)} GPU hours</span></th><td class="n">${usd(row.cost)}</td><td class="n">${usd(row.savings)}</td></tr>`)}
        </tbody>
      </table>
    <//>
  `;
}

/** The most expensive leases and volumes of the range. */
function Top({ live }) {
  const rows = useMemo(() => byGroup(live.data?.items ?? [], "lease").slice(0, TOP), [live.data]);
  return html`
    <${Panel} title="Most expensive leases and volumes">
      <${Awaited} live=${live} rows=${5}>
        ${live.data && html`<${Refused} error=${live.error} />`}
        ${live.data && !live.data.complete ? html`<p class="note">The range has too many leases to rank: choose one tenant or a shorter range.</p>` : html`<${Ranking} rows=${rows} />`}
      <//>
    <//>
  `;
}

function Ranking({ rows }) {
  const ids = rows.map((row) => row.key).filter((id) => id.startsWith("lease_"));
  const known = useLive(ids.length ? `/v1/leases?ids=${ids.join(",")}` : null, 60, { keep: true }).data?.items ?? [];
  const leases = new Map(known.map((lease) => [lease.id, lease]));
  return html`
    <table class="groups">
      <thead><tr><th scope="col">Lease or volume</th><th scope="col" class="n">GPU hours</th><th scope="col" class="n">Cost</th></tr></thead>
      <tbody>
        ${rows.map((row) => {
          const lease = leases.get(row.key);
          return html`
            <tr key=${row.key}>
              <th scope="row">${lease ? html`<a href=${to(`leases/${row.key}`)}>${lease.name}</a><span class="under">${gpuText(lease)}, ${words(lease.state)}</span>` : html`<span class="id">${row.key}</span>`}<${Bar} share=${row.cost / rows[0].cost} /></th>
              <td class="n">${hours(row.gpu_hours)}</td>
              <td class="n">${usd(row.cost)}</td>
            </tr>
          `;
        })}
      </tbody>
    </table>
  `;
}
