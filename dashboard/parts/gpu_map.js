/** GPUs paid for and in use, and a heat map with a cell for each GPU. */
import { count, counted, usd, words } from "../format.js";
import { useLive } from "../live.js";
import { byModel, loadOf, mapped } from "../metrics_series.js";
import { to } from "../router.js";
import { html, useMemo, useState } from "../ui.js";
import { Awaited, Empty, Panel, Scroll } from "./basics.js";

const POLL_SECONDS = 60;
const MOST_LEASES = 200;
const LEGEND = [["unknown", "unknown"], ["idle", "up to 5 %"], ["low", "up to 25 %"], ["half", "up to 50 %"], ["high", "up to 75 %"], ["full", "more"]];

export function GpuMap() {
  const fleet = useLive("/v1/metrics/fleet", POLL_SECONDS);
  const { data } = fleet;
  return html`
    <${Panel} title="GPUs paid for and in use" aside=${data && `${count(data.gpus_paid)} paid for`} wide>
      <${Awaited} live=${fleet} rows=${3}>${data && (data.gpus_paid || data.leases.length ? html`<${Use} fleet=${data} /><${HeatMap} leases=${data.leases} />` : html`<${Empty} title="No GPU is paid for now." />`)}<//>
    <//>
  `;
}

function Use({ fleet }) {
  const { gpus_paid: paid, gpus_in_use: used, gpus_idle: idle, gpus_unknown: unknown, idle_cost_per_hour: cost } = fleet;
  const parts = [["used", "In use", used], ["idle", "Idle", idle], ["unknown", "Unknown", unknown]];
  return html`
    <div class="stack gpu-use" aria-hidden="true" data-empty=${paid === 0}>${parts.filter(([, , gpus]) => gpus).map(([key, , gpus]) => html`<i key=${key} data-use=${key} style=${{ flexGrow: gpus }}></i>`)}</div>
    <dl class="sums gpu-sums">
      <div><dt>Paid for</dt><dd class="num">${count(paid)}</dd></div>
      ${parts.map(([key, name, gpus]) => html`<div key=${key}><dt><i class="dot" data-use=${key} aria-hidden="true"></i>${name}</dt><dd class="num">${count(gpus)}</dd></div>`)}
      <div><dt>Cost of idle GPUs</dt><dd class="num">${usd(cost)}<small> an hour</small></dd></div>
    </dl>
  `;
}

/** A link for each lease, with a cell for each of its GPUs. */
function HeatMap({ leases }) {
  const [all, setAll] = useState(false);
  const { shown, rest } = useMemo(() => mapped(leases, all ? leases.length : MOST_LEASES), [leases, all]);
  const groups = useMemo(() => byModel(shown), [shown]);
  if (!leases.length) return null;
  return html`
    <div class="gpu-map">
      ${groups.map(
        ({ model, leases: own, gpus, mean }) => html`
          <section key=${model} aria-label=${model}>
            <h3>${model} <span class="muted num">${counted(gpus, "GPU")}${mean === null ? "" : `, ${Math.round(mean)} % on average`}</span></h3>
            <ul>${own.map((lease) => html`<${Cells} key=${lease.lease_id} lease=${lease} />`)}</ul>
          </section>
        `,
      )}
    </div>
    <${Rest} leases=${rest} />
    <${Legend} />
    ${leases.length > MOST_LEASES && html`<button type="button" class="ghost more" onClick=${() => setAll(!all)}>${all ? "Show fewer" : `Show all ${counted(leases.length, "lease")}`}</button>`}
    <${Table} leases=${shown} />
  `;
}

/** The GPUs without a cell, a line for each model. */
const Rest = ({ leases }) =>
  leases.length > 0 && html`
    <ul class="flat gpu-rest" aria-label="Further GPUs by model">
      ${byModel(leases).map(({ model, leases: own, gpus, mean }) => html`<li key=${model}>${model} <span class="muted num">${counted(gpus, "further GPU")} of ${counted(own.length, "lease")}, ${mean === null ? "utilization unknown" : `${Math.round(mean)} % on average`}</span></li>`)}
    </ul>
  `;

const percents = (gpus) => gpus.map((percent) => (percent === null ? "unknown" : `${Math.round(percent)} %`)).join(", ");
const described = (lease) => `${lease.name || lease.lease_id}, ${words(lease.state)}${lease.health ? `, ${lease.health}` : ""}: ${percents(lease.gpus)}`;

const Cells = ({ lease }) => html`
  <li><a href=${to(`leases/${lease.lease_id}`)} data-health=${lease.health} aria-label=${described(lease)} title=${described(lease)}>${lease.gpus.map((percent, place) => html`<i key=${place} data-load=${loadOf(percent)}></i>`)}</a></li>
`;

const Legend = () => html`
  <ul class="legend flat" aria-label="Colours">
    ${LEGEND.map(([load, name]) => html`<li key=${load}><i data-load=${load}></i>${name}</li>`)}
    <li><i data-health="degraded"></i>degraded</li><li><i data-health="failing"></i>failing</li>
  </ul>
`;

function Table({ leases }) {
  const [open, setOpen] = useState(false);
  return html`
    <details class="as-table" onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>Show as table<span class="vh">: GPUs by lease</span></summary>
      ${open &&
      html`
        <${Scroll} label="GPUs by lease, table">
          <table class="list plain">
            <thead><tr><th scope="col">Lease</th><th scope="col">Model</th><th scope="col">Health</th><th scope="col">Utilization of each GPU</th></tr></thead>
            <tbody>${leases.map((lease) => html`<tr key=${lease.lease_id}><th scope="row"><a class="long" href=${to(`leases/${lease.lease_id}`)}>${lease.name || lease.lease_id}</a></th><td>${lease.gpu_model}</td><td>${lease.health ?? "unknown"}</td><td class="num">${percents(lease.gpus)}</td></tr>`)}</tbody>
          </table>
        <//>
      `}
    </details>
  `;
}
