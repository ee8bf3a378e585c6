/** The whole installation on one page. Every number links to its list. */
import { count, counted, fineSpan, marketName, NOTHING, providerName, shortTime, usd } from "../format.js";
import { now, useNow } from "../clock.js";
import { useLive } from "../live.js";
import { Ago, Awaited, Badge, Bar, Empty, Figure, Head, Panel } from "../parts/basics.js";
import { Brakes } from "../parts/brakes.js";
import { BudgetPanel } from "../parts/budgets.js";
import { GpuMap } from "../parts/gpu_map.js";
import { to } from "../router.js";
import { html, useState } from "../ui.js";
import { useTenantNames } from "./leases.js";

const LIVE = ["queued", "provisioning", "booting", "active", "releasing"];
const ENDED = ["released", "failed"];
const SHOWN = 8;
const PLACES = 5;
const QUIET_SECONDS = 60;

const live = (filter = {}) => to("leases", { state: "!terminal", ...filter });
const sum = (rows, name) => rows.reduce((all, row) => all + row[name], 0);

export function Fleet() {
  const summary = useLive("/v1/ops/summary", 5);
  const tenants = useTenantNames(true);
  const data = summary.data;
  return html`
    <${Head} title="Fleet" sub=${html`All tenants, all clouds. Cost covers compute, disks and public addresses.${data && html` Updated ${shortTime(data.as_of)}.`}`} />
    ${data && html`<${Brakes} summary=${data} />`}
    <${Figures} data=${data} />
    <${BudgetPanel} tenants=${tenants} />
    <${Panel} title="Leases by state" wide><${Awaited} live=${summary} rows=${4}>${data && html`<${States} rows=${data.by_state} />`}<//><//>
    <${GpuMap} />
    <div class="panels">
      <${Groups} title="By provider" live=${summary} rows=${data?.by_provider} label=${(row) => providerName(row.name)} link=${(row) => live({ provider: row.name })} />
      <${Groups} title="By GPU model" live=${summary} rows=${data?.by_gpu_model} link=${(row) => live({ gpu_model: row.name })} />
      <${Groups} title="By region" live=${summary} rows=${data?.by_region} link=${(row) => live({ region: row.name })} />
      <${Groups} title="By tenant" live=${summary} rows=${data?.by_tenant} link=${(row) => live({ tenant_id: row.tenant_id })} />
      <${Panel} title="Capacity failures and interruptions" aside="24 hours">
        <${Awaited} live=${summary} rows=${4}>
          ${data && html`<${Places} found=${data.capacity_failures} name="failures" title="Refused for lack of capacity" none="No capacity failures in 24 hours." />`}
          ${data && html`<${Places} found=${data.interruptions} name="interruptions" title="Interrupted by the provider" none="No interruptions in 24 hours." />`}
        <//>
      <//>
      <${Panel} title="Processes"><${Awaited} live=${summary} rows=${3}>${data && html`<${Processes} data=${data} />`}<//><//>
    </div>
  `;
}

function Figures({ data }) {
  const loading = !data;
  const orphans = data ? sum(data.orphans, "orphans") : 0;
  const stuck = data?.stuck.length ?? 0;
  const running = data ? data.by_state.filter((row) => LIVE.includes(row.state)) : [];
  const active = running.find((row) => row.state === "active")?.leases ?? 0;
  const ready = data?.time_to_ready;
  return html`
    <div class="figures">
      <${Figure} loading=${loading} name="Leases running" value=${count(sum(running, "leases"))} more=${`${count(active)} active`} href=${live()} />
      <${Figure} loading=${loading} name="GPUs" value=${data && count(data.gpus)} more=${data && counted(data.by_gpu_model.length, "model")} href=${to("leases", { state: ["booting", "active"] })} />
      <${Figure} loading=${loading} name="USD per hour" value=${data && usd(data.spend_per_hour)} more=${data && `≈ ${usd(Number(data.spend_per_hour) * 24)} a day`} href=${to("leases", { state: ["booting", "active", "releasing"] })} />
      <${Figure} loading=${loading} name="Month to date" value=${data && html`<${MonthToDate} data=${data} />`} more="since the 1st, UTC" href=${to("costs", { range: "30d", by: "tenant" })} />
      <${Figure} loading=${loading} name="Time to ready" value=${ready && (ready.leases ? fineSpan(ready.p50_seconds) : NOTHING)} more=${ready && (ready.leases ? `p95 ${fineSpan(ready.p95_seconds)}, ${count(ready.leases)} in 24 h` : "none in 24 hours")} href=${to("usage")} />
      <${Figure} loading=${loading} name="Needs attention" value=${count(stuck + orphans)} more=${`${count(stuck)} stuck, ${counted(orphans, "orphan")}`} href=${to(stuck || !orphans ? "stuck" : "accounts")} tone=${stuck + orphans ? "bad" : "good"} />
    </div>
  `;
}

/** Between two responses it grows at the present rate. */
function MonthToDate({ data }) {
  useNow();
  const hours = Math.max(0, now() - Date.parse(data.as_of)) / 3_600_000;
  return usd(Number(data.spend_month_to_date) + hours * Number(data.spend_per_hour));
}

function States({ rows }) {
  const of = (state) => rows.find((row) => row.state === state) ?? { state, leases: 0, gpus: 0 };
  const running = LIVE.map(of);
  const all = sum(running, "leases");
  return html`
    <div class="stack" aria-hidden="true" data-empty=${all === 0}>
      ${running.filter((row) => row.leases).map((row) => html`<i key=${row.state} data-kind=${row.state} style=${{ flexGrow: row.leases }}></i>`)}
    </div>
    <ul class="states">
      ${[...running, ...ENDED.map(of)].map(
        (row) => html`
          <li key=${row.state}>
            <a href=${to("leases", { state: row.state })}>
              <${Badge} state=${row.state} /><span class="num strong">${count(row.leases)}</span>
              <span class="num muted">${LIVE.includes(row.state) ? counted(row.gpus, "GPU") : "in the records"}</span>
            </a>
          </li>
        `,
      )}
    </ul>
    ${all === 0 && html`<${Empty} title="No lease is running."><a href=${to("leases/new")}>Create a lease</a>, or use <code>gpulease lease create --gpu A10G:1 --ttl 1h</code>.<//>`}
  `;
}

function Groups({ title, live: summary, rows, link, label = (row) => row.name }) {
  const [all, setAll] = useState(false);
  const sorted = rows && [...rows].sort((a, b) => Number(b.spend_per_hour) - Number(a.spend_per_hour) || b.leases - a.leases);
  const shown = all ? sorted : sorted?.slice(0, SHOWN);
  const most = Math.max(...(rows ?? []).map((row) => Number(row.spend_per_hour)), 0.0001);
  return html`
    <${Panel} title=${title} aside=${rows && count(rows.length)}>
      <${Awaited} live=${summary} rows=${4}>
        ${rows?.length === 0 && html`<${Empty} title="No lease is running." />`}
        ${rows?.length > 0 &&
        html`
          <table class="groups">
            <thead><tr><th scope="col"><span class="vh">Name</span></th><th scope="col" class="n">Leases</th><th scope="col" class="n">GPUs</th><th scope="col" class="n">USD/h</th></tr></thead>
            <tbody>
              ${shown.map(
                (row) => html`
                  <tr key=${row.tenant_id ?? row.name}>
                    <th scope="row"><a href=${link(row)}>${label(row)}</a><${Bar} share=${Number(row.spend_per_hour) / most} /></th>
                    <td class="n"><a href=${link(row)} tabindex="-1">${count(row.leases)}</a></td>
                    <td class="n">${count(row.gpus)}</td>
                    <td class="n">${usd(row.spend_per_hour)}</td>
                  </tr>
                `,
              )}
            </tbody>
          </table>
          ${rows.length > SHOWN && html`<button type="button" class="ghost more" onClick=${() => setAll(!all)}>${all ? "Show fewer" : `Show all ${rows.length}`}</button>`}
        `}
      <//>
    <//>
  `;
}

function Places({ found, name, title, none }) {
  if (!found.total) return html`<p class="note">${none}</p>`;
  const most = found.worst[0][name];
  return html`
    <table class="groups">
      <thead><tr><th scope="col">${title}</th><th scope="col" class="n">${count(found.total)} total</th></tr></thead>
      <tbody>
        ${found.worst.slice(0, PLACES).map((row) => {
          const { provider, region, instance_type: type, market } = row;
          return html`
            <tr key=${provider + region + type + market}>
              <th scope="row">
                <a href=${to("capacity", { provider, region, instance_type: type })}>${type}</a>
                <span class="under">${marketName(market)}, ${providerName(provider)} ${region}</span><${Bar} share=${row[name] / most} tone="warn" />
              </th>
              <td class="n">${count(row[name])}</td>
            </tr>
          `;
        })}
      </tbody>
    </table>
  `;
}

function Processes({ data }) {
  if (!data.processes.length) return html`<${Empty} title="No worker has reported.">Start one with <code>gpulease-server worker</code>.<//>`;
  return html`
    <ul class="lines">
      ${data.processes.map((row) => {
        const healthy = row.last_seen_seconds < QUIET_SECONDS || row.kind === "deadman";
        const seen = new Date(Date.parse(data.as_of) - row.last_seen_seconds * 1000).toISOString();
        return html`
          <li key=${row.kind}>
            <${Badge} state=${row.kind} kind=${healthy ? "ok" : "failed"} text=${healthy ? "healthy" : "silent"} />
            <span class="strong">${row.kind}</span><span class="num muted">${count(row.processes)} running</span>
            <span class="end muted">${healthy && row.kind !== "deadman" ? "just now" : html`<${Ago} at=${seen} />`}</span>
          </li>
        `;
      })}
    </ul>
  `;
}
