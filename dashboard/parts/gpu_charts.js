/** A lease's GPUs over time: utilization, memory, power and temperature. */
import { useLive } from "../live.js";
import { anySample, measureSeries, metricsPath, RANGES } from "../metrics_series.js";
import { html, useMemo, useState } from "../ui.js";
import { Awaited, Empty, Panel } from "./basics.js";
import { Chart } from "./chart.js";

const POLL_SECONDS = 60;
const HEIGHT = 150;
const percent = (value) => `${Math.round(value)} %`;
const MEASURES = [
  { key: "gpu_percent", title: "GPU utilization", show: percent, most: 100 },
  { key: "memory_percent", title: "GPU memory in use", show: percent, most: 100 },
  { key: "power_w", title: "Power", show: (value) => `${Math.round(value)} W` },
  { key: "temperature_c", title: "Temperature", show: (value) => `${Math.round(value)} °C` },
];

/** Shown from the time on when the lease has a VM. */
export function GpuCharts({ lease }) {
  const [range, setRange] = useState("1h");
  const metrics = useLive(metricsPath(lease.id, range), POLL_SECONDS, { keep: true });
  const { data } = metrics;
  return html`
    <section class="panel wide gpu-charts" aria-labelledby="gpu-charts">
      <header><h2 id="gpu-charts">GPUs over time</h2>
        <div class="segments" role="group" aria-label="Range of the charts">
          ${Object.entries(RANGES).map(([key, { name }]) => html`<button key=${key} type="button" aria-pressed=${key === range} onClick=${() => setRange(key)}>${name}</button>`)}
        </div>
      </header>
      <${Awaited} live=${metrics} rows=${5}>
        ${data && (anySample(data) ? html`<div class="charts small">${MEASURES.map((one) => html`<${Measure} key=${one.key} metrics=${data} measure=${one} />`)}</div>` : html`<${None} lease=${lease} range=${range} />`)}
      <//>
    </section>
  `;
}

function Measure({ metrics, measure: { key, title, show, most } }) {
  const data = useMemo(() => measureSeries(metrics, key), [metrics, key]);
  return html`<div><h3>${title}</h3><${Chart} title=${title} data=${data} kind="levels" show=${show} most=${most} height=${HEIGHT} /></div>`;
}

const None = ({ lease, range }) => html`
  <${Empty} title=${`No samples in the last ${RANGES[range].name}.`}>${lease.terminal ? "Choose a longer range. Samples are kept for 7 days, hourly values for 400 days." : "The agent on the VM sends the first sample within two minutes after the boot. Without an agent there are none."}<//>
`;
