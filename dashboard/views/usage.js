/** Use and cost over time. */
import { count, counted, fineSpan, shortTime, usd } from "../format.js";
import { useLive } from "../live.js";
import { Awaited, Empty, Figure, Head, Panel } from "../parts/basics.js";
import { Chart } from "../parts/chart.js";
import { Choices } from "../parts/filters.js";
import { route, to } from "../router.js";
import { html, useMemo } from "../ui.js";
import { byGroup, byMeasure, RANGES, usagePath } from "../usage_series.js";

const POLL_SECONDS = 60;
const GROUPS = { provider: "cloud", gpu_model: "GPU model", tenant: "tenant" };
const FILTERS = { provider: "provider", gpu_model: "gpu_model", tenant: "tenant_id" };
const READY = [
  { key: "ready_seconds_p50", name: "median", of: (item) => item.ready_seconds_p50 },
  { key: "ready_seconds_p95", name: "95th percentile", of: (item) => item.ready_seconds_p95 },
];
const FAILURES = [
  { key: "leases_failed", name: "failed leases", of: (item) => item.leases_failed },
  { key: "capacity_failures", name: "refused for lack of capacity", of: (item) => item.capacity_failures },
  { key: "interruptions", name: "interrupted by the provider", of: (item) => item.interruptions },
];
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const gpus = (value) => (value >= 100 || Number.isInteger(value) ? count(value) : String(Number(value.toFixed(1))));
const money = (value) => usd(Number(value));
const dollars = (value) => (Number.isInteger(value) ? `$${count(value)}` : usd(value));

export function Usage({ me }) {
  const { query } = route.use();
  const range = query.get("range") in RANGES ? query.get("range") : "24h";
  const groups = me.role === "operator" ? ["tenant", "provider", "gpu_model"] : ["provider", "gpu_model"];
  const by = groups.includes(query.get("by")) ? query.get("by") : "provider";
  const grouped = useLive(usagePath(range, by), POLL_SECONDS, { keep: true });
  const whole = useLive(usagePath(range, "none"), POLL_SECONDS, { keep: true });
  const daily = RANGES[range].step === "day";
  const used = whole.data?.items.length > 0;
  return html`
    <${Head} title="Usage" sub=${`Cost covers compute, disks and public addresses. ${daily ? "Days are days in UTC." : `Times: ${zone}.`}`}>
      <div class="pickers">
        <${Choices} label="Range" name="range" values=${Object.keys(RANGES)} chosen=${range} text=${(one) => RANGES[one].name} />
        <${Choices} label="Divide by" name="by" values=${groups} chosen=${by} text=${(one) => `by ${GROUPS[one]}`} />
      </div>
    <//>
    <${Totals} usage=${whole.data} />
    <${Awaited} live=${whole} rows=${8}>
      ${whole.data && !used && html`<div class="panel"><${Empty} title=${`Nothing was used in the last ${RANGES[range].name}.`}>${range === "90d" ? "Create" : "Choose a longer range, or create"} a lease with <code>gpulease lease create --gpu A10G:1 --ttl 1h</code>; the current hour appears within a minute.<//></div>`}
      ${used && html`<div class="charts"><${Spend} live=${grouped} by=${by} /><${Gpus} live=${grouped} by=${by} /><${Ready} usage=${whole.data} /><${Failures} usage=${whole.data} /></div>`}
    <//>
  `;
}

function Totals({ usage }) {
  const all = usage && (usage.groups[0] ?? { cost: "0", gpu_hours: 0, leases_created: 0, leases_ready: 0, leases_failed: 0, capacity_failures: 0, interruptions: 0 });
  const hours = usage && (Date.parse(usage.as_of) - Date.parse(usage.starts_at)) / 3_600_000;
  const every = (filter) => to("leases", { state: "any", ...filter });
  return html`
    <div class="figures">
      <${Figure} loading=${!usage} name="Cost" value=${all && usd(all.cost)} more=${all && `${usd(Number(all.cost) / hours)} per hour`} href=${every()} />
      <${Figure} loading=${!usage} name="GPU hours" value=${all && gpus(all.gpu_hours)} more=${all && `${gpus(all.gpu_hours / hours)} GPUs on average`} href=${every()} />
      <${Figure} loading=${!usage} name="Leases created" value=${all && count(all.leases_created)} more=${all && `${count(all.leases_ready)} became ready`} href=${every()} />
      <${Figure} loading=${!usage} name="Failed leases" value=${all && count(all.leases_failed)} more=${all && `${counted(all.capacity_failures, "refusal")}, ${counted(all.interruptions, "interruption")}`} href=${to("leases", { state: "failed" })} tone=${all?.leases_failed ? "bad" : undefined} />
    </div>
  `;
}

/** Where the name of a group leads. */
const linkOf = (by) => (series) => (["other", "unknown", null].includes(series.key) ? null : to("leases", { state: "any", [FILTERS[by]]: series.key }));

/** USD per hour in each step, stacked. */
export function Spend({ live, by, height }) {
  const data = useMemo(() => live.data && byGroup(live.data, (item) => Number(item.spend_per_hour), (group) => group.cost), [live.data]);
  return html`<${Panel} title="Spend per hour" aside=${live.data && updated(live.data)}><${Awaited} live=${live} rows=${5}>${data && html`<${Chart} title="Spend per hour" data=${data} kind="areas" show=${money} tick=${dollars} link=${linkOf(by)} height=${height} />`}<//><//>`;
}

/** GPUs in use in each step on average, stacked. */
export function Gpus({ live, by, height }) {
  const data = useMemo(() => live.data && byGroup(live.data, (item) => item.gpus, (group) => group.gpu_hours), [live.data]);
  return html`<${Panel} title="GPUs in use" aside="total in GPU hours"><${Awaited} live=${live} rows=${5}>${data && html`<${Chart} title="GPUs in use" data=${data} kind="areas" show=${gpus} sum=${(value) => `${gpus(value)} h`} link=${linkOf(by)} height=${height} />`}<//><//>`;
}

function Ready({ usage }) {
  const data = useMemo(() => byMeasure(usage, READY, null), [usage]);
  const any = data.series.some((one) => one.values.some((value) => value !== null));
  return html`<${Panel} title="Time to ready" aside="from creation to ready">${any ? html`<${Chart} title="Time to ready" data=${data} kind="lines" show=${fineSpan} />` : html`<${Empty} title="No lease became ready in this range.">Leases that wait explain themselves on <a href=${to("leases", { state: ["queued", "provisioning", "booting"] })}>their pages</a>.<//>`}<//>`;
}

function Failures({ usage }) {
  const data = useMemo(() => byMeasure(usage, FAILURES, 0), [usage]);
  const any = data.series.some((one) => one.values.some(Boolean));
  return html`<${Panel} title="Failures and interruptions" aside=${any && html`<a href=${to("capacity")}>by instance type</a>`}>${any ? html`<${Chart} title="Failures and interruptions" data=${data} kind="bars" show=${count} />` : html`<${Empty} title="No failures in this range.">No lease failed, no launch was refused for lack of capacity, and no VM was interrupted.<//>`}<//>`;
}

const updated = (usage) => `total in USD, until ${shortTime(usage.as_of)}`;
