/** The offerings: capacity failures, cool-offs and times to ready. */
import { count, counted, fineSpan, marketName, NOTHING, percent, providerName, span, usd, words } from "../format.js";
import { useLive } from "../live.js";
import { Awaited, Badge, Empty, Figure, Head, Left, Panel, Scroll } from "../parts/basics.js";
import { Icon } from "../parts/icons.js";
import { go, refined, route, to } from "../router.js";
import { html, useMemo } from "../ui.js";

const FILTERS = ["provider", "region", "gpu_model", "instance_type", "market"];
const valueOf = (one, name) => (name === "gpu_model" ? one.gpu.model : one[name]);

export function Capacity({ me }) {
  const { query } = route.use();
  const operator = me.role === "operator";
  const offerings = useLive("/v1/offerings?limit=200", 15, { all: true });
  const summary = useLive(operator ? "/v1/ops/summary" : null, 5);
  const all = offerings.data?.items;
  const shown = useMemo(() => all?.filter((one) => FILTERS.every((name) => !query.get(name) || valueOf(one, name) === query.get(name))), [all, query]);
  const cooling = shown?.filter((one) => one.availability.status === "cooling_off") ?? [];
  return html`
    <${Head} title="Capacity" sub="Recent launches, refusals and cool-offs" />
    <${Figures} operator=${operator} summary=${summary.data} all=${all} cooling=${cooling} />
    <${Choices} query=${query} all=${all ?? []} />
    <${Panel} title="Offerings" aside=${shown && count(shown.length)} wide flush>
      <${Awaited} live=${offerings} rows=${10}>
        ${shown && (shown.length ? html`<${InstanceTypes} offerings=${shown} everything=${query.get("untried") === "true"} />` : html`<${NoOffering} any=${all.length > 0} />`)}
      <//>
    <//>
    <div class="panels">
      <${Panel} title="In cool-off now" aside=${offerings.data && count(cooling.length)} wide flush>
        <${Awaited} live=${offerings} rows=${3}><${Cooling} items=${cooling} /><//>
      <//>
    </div>
  `;
}

const NoOffering = ({ any }) =>
  any
    ? html`<${Empty} title="No offering matches the filters."><a href=${to("capacity")}>Clear filters</a>.<//>`
    : html`<${Empty} title="No offerings yet.">Workers load the offerings within a minute after they start. If none appear, check the <a href=${to("accounts")}>accounts</a>.<//>`;

function Figures({ operator, summary, all, cooling }) {
  if (!operator) return null;
  const loading = !summary;
  const ready = summary?.time_to_ready;
  return html`
    <div class="figures">
      <${Figure} loading=${loading} name="Time to ready, p50" value=${ready && (ready.leases ? fineSpan(ready.p50_seconds) : NOTHING)} more=${ready && `${counted(ready.leases, "lease")} in 24 h`} href=${to("leases", { state: "active" })} />
      <${Figure} loading=${loading} name="Time to ready, p95" value=${ready && (ready.leases ? fineSpan(ready.p95_seconds) : NOTHING)} more="from creation to ready" href=${to("leases", { state: "active" })} />
      <${Figure} loading=${loading} name="Capacity failures" value=${summary && count(summary.capacity_failures.total)} more="24 hours" href=${to("fleet")} />
      <${Figure} loading=${loading} name="Interruptions" value=${summary && count(summary.interruptions.total)} more="by the provider, 24 hours" href=${to("fleet")} />
      <${Figure} loading=${!all} name="Cooling off" value=${count(cooling.length)} more=${all && `of ${counted(all.length, "offering")}`} href=${to("capacity")} tone=${cooling.length ? "warn" : "good"} />
    </div>
  `;
}

const LABELS = { provider: "Cloud", region: "Region", gpu_model: "GPU", instance_type: "Instance type", market: "Market" };
const SHOW = { provider: providerName, market: marketName };

function Choices({ query, all }) {
  const options = useMemo(() => Object.fromEntries(FILTERS.map((name) => [name, [...new Set(all.map((one) => valueOf(one, name)))].sort()])), [all]);
  return html`
    <div class="filters"><div class="row">
      ${FILTERS.map((name) => {
        const value = query.get(name) ?? "";
        const known = value && !options[name].includes(value) ? [value, ...options[name]] : options[name];
        return html`
          <label class="field" key=${name}><span>${LABELS[name]}</span>
            <select value=${value} data-on=${value !== ""} onChange=${(event) => go(refined({ [name]: event.target.value }))}>
              <option value="">any</option>
              ${known.map((one) => html`<option key=${one} value=${one}>${(SHOW[name] ?? String)(one)}</option>`)}
            </select>
          </label>
        `;
      })}
      ${FILTERS.some((name) => query.has(name)) && html`<a class="button ghost" href=${to("capacity")}><${Icon} name="close" />Clear filters</a>`}
    </div></div>
  `;
}

/** Rows are instance types in a market, columns are regions. A cell sums up the zones. */
function grid(offerings) {
  const rows = new Map();
  const columns = new Map();
  for (const one of offerings) {
    const column = `${one.provider} ${one.account} ${one.region}`;
    const row = `${one.gpu.model} ${String(one.gpu.count).padStart(3, "0")} ${one.instance_type} ${one.market}`;
    columns.set(column, one);
    if (!rows.has(row)) rows.set(row, { first: one, cells: new Map() });
    const cells = rows.get(row).cells;
    if (!cells.has(column)) cells.set(column, []);
    cells.get(column).push(one);
  }
  const sorted = (map) => [...map.entries()].sort(([a], [b]) => a.localeCompare(b));
  return { rows: sorted(rows), columns: sorted(columns) };
}

const telling = (one) => one.statistics.launches + one.statistics.refusals > 0 || one.availability.status === "cooling_off";

/** Instance types without launches and cool-offs are hidden, unless the user shows them or there are no others. */
function InstanceTypes({ offerings, everything }) {
  const whole = useMemo(() => grid(offerings), [offerings]);
  const rows = whole.rows.filter(([, row]) => [...row.cells.values()].flat().some(telling));
  const silent = whole.rows.length - rows.length;
  const all = everything || rows.length === 0;
  return html`
    <${Heat} rows=${all ? whole.rows : rows} columns=${whole.columns} />
    <${Legend} />
    ${silent > 0 && rows.length > 0 && html`<p class="note pad"><a href=${refined({ untried: all ? null : "true" })}>${all ? "Hide" : "Show"} ${counted(silent, "instance type")} without recent launches</a></p>`}
  `;
}

function Heat({ rows, columns }) {
  return html`
    <${Scroll} label="Heat map of offerings">
      <table class="heat">
        <caption class="vh">Share of refused launches for each instance type and region, and zones in cool-off</caption>
        <thead><tr><th scope="col">Instance type</th>${columns.map(([key, one]) => html`<th scope="col" key=${key}><span class="muted">${providerName(one.provider)}</span><br />${one.region}</th>`)}</tr></thead>
        <tbody>
          ${rows.map(
            ([key, row]) => html`
              <tr key=${key}>
                <th scope="row">${row.first.gpu.count} × ${row.first.gpu.model}<span class="under">${row.first.instance_type}, ${marketName(row.first.market)}</span></th>
                ${columns.map(([column]) => html`<${Cell} key=${column} zones=${row.cells.get(column)} />`)}
              </tr>
            `,
          )}
        </tbody>
      </table>
    <//>
  `;
}

/** Four steps from "no refusals" to "all refused"; "untried" without recent launches. */
function heat(launches, refusals) {
  const tries = launches + refusals;
  if (!tries) return "untried";
  const share = refusals / tries;
  return share === 0 ? "none" : share < 0.34 ? "some" : share < 0.67 ? "many" : "most";
}

function Cell({ zones }) {
  if (!zones) return html`<td class="no"><span class="vh">not offered</span></td>`;
  const of = (name) => zones.reduce((all, one) => all + one.statistics[name], 0);
  const [launches, refusals] = [of("launches"), of("refusals")];
  const cooling = zones.filter((one) => one.availability.status === "cooling_off");
  const out = zones.filter((one) => one.availability.status === "unavailable");
  const until = cooling.map((one) => one.availability.until).sort()[0];
  const ready = zones.map((one) => one.statistics.ready_seconds).filter((one) => one !== null);
  const title = zones.map((one) => `${one.zone}: ${one.statistics.launches} launched, ${one.statistics.refusals} refused, ${words(one.availability.status)}${one.availability.reason ? ` (${words(one.availability.reason)})` : ""}, ${one.price_per_hour ? usd(one.price_per_hour) : "no price"}/h`).join("\n");
  return html`
    <td data-heat=${out.length === zones.length ? "out" : heat(launches, refusals)} title=${title}>
      ${out.length === zones.length ? html`<b>unavailable</b>` : launches + refusals ? html`<b class="num">${refusals} of ${launches + refusals}</b>` : html`<b class="muted">no launches</b>`}
      <span class="under">${cooling.length ? html`<span class="pause">cool-off ${cooling.length}/${zones.length} · <${Left} at=${until} over="ending" soon=${0} /></span>` : ready.length ? `ready in ${span(Math.max(...ready))}` : counted(zones.length, "zone")}</span>
    </td>
  `;
}

const Legend = () => html`
  <ul class="legend" aria-label="Colours">
    <li><i data-heat="untried"></i>no recent launches</li><li><i data-heat="none"></i>no refusals</li><li><i data-heat="some"></i>up to a third</li>
    <li><i data-heat="many"></i>up to two thirds</li><li><i data-heat="most"></i>more refused</li><li><i data-heat="out"></i>unavailable</li>
  </ul>
`;

function Cooling({ items }) {
  if (!items.length) return html`<${Empty} title="No offering is in cool-off.">When an offering refuses a launch, gpulease skips it for some minutes. Each repetition doubles the time.<//>`;
  const sorted = [...items].sort((a, b) => a.availability.until.localeCompare(b.availability.until));
  return html`
    <${Scroll} label="Cooling off">
      <table class="list cards">
        <thead><tr><th scope="col">Offering</th><th scope="col">Zone</th><th scope="col">Cause</th><th scope="col" class="n">Refused</th><th scope="col" class="n">Success</th><th scope="col" class="n">Ends in</th></tr></thead>
        <tbody>
          ${sorted.map(
            (one) => html`
              <tr key=${one.account + one.zone + one.instance_type + one.market}>
                <th scope="row" data-label="Offering">${one.instance_type}<span class="under">${one.gpu.count} × ${one.gpu.model}, ${marketName(one.market)}</span></th>
                <td data-label="Zone">${providerName(one.provider)} ${one.zone}</td>
                <td data-label="Cause"><${Badge} state="releasing" text=${words(one.availability.reason ?? "cooling off")} /></td>
                <td data-label="Refused" class="n">${count(one.statistics.refusals)}</td>
                <td data-label="Success" class="n">${one.statistics.success_rate === null ? NOTHING : percent(one.statistics.success_rate)}</td>
                <td data-label="Ends in" class="n"><${Left} at=${one.availability.until} over="any moment" soon=${0} /></td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    <//>
  `;
}
