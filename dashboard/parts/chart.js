/** Charts over time. The drawing is uPlot's; legend, read-out and the table are HTML, which screen readers can read. */
import { classes, html, useEffect, useLayoutEffect, useRef, useState } from "../ui.js";
import { Scroll } from "./basics.js";

const HEIGHT = 210;
const MOST_COLOURS = 10;
const WIDE_ENOUGH = 60; // pixels between two labels of the time axis, at least
const UTC = { timeZone: "UTC" };

let library = null;
/** Loaded with the first chart, and not with the page. */
const load = () => (library ??= import("../vendor/uplot.js").then((found) => found.default));

const hour = { hour: "2-digit", minute: "2-digit" };
const date = { day: "numeric", month: "short" };
const text = (options) => {
  const format = new Intl.DateTimeFormat("en-GB", options);
  return (seconds) => format.format(new Date(seconds * 1000));
};
/** How a moment reads: on the axis, and in full. A day is one of UTC, an hour is one of the reader's clock. */
const axisText = { hour: text(hour), day: text(date), utcDay: text({ ...date, ...UTC }) };
const stepText = { hour: text({ ...date, ...hour }), day: text({ ...date, year: "numeric", ...UTC }) };

const colourOf = (series, place) => (series.key === "other" ? "other" : (place % MOST_COLOURS) + 1);

/**
 * `data`: `{length, starts, series: [{key, name, values, total}]}` of usage_series.js. `kind`: areas (stacked), bars
 * (stacked) or lines. `show` writes a value, `sum` a total. `link(series)`: where its name leads, or null.
 */
export function Chart({ title, data, kind, show, sum = show, link = () => null, height = HEIGHT }) {
  const [at, setAt] = useState(null);
  const daily = data.length > 3600;
  const when = daily ? stepText.day : stepText.hour;
  return html`
    <figure class="chart" aria-label=${title}>
      <${Canvas} title=${title} data=${data} kind=${kind} show=${show} height=${height} daily=${daily} onPoint=${setAt} />
      <ul class="key">
        ${data.series.map((one, place) => {
          const where = link(one);
          const value = at === null ? one.total : one.values[at];
          return html`
            <li key=${one.key}>
              <i class="swatch" data-series=${colourOf(one, place)} aria-hidden="true"></i>
              ${where ? html`<a href=${where}>${one.name}</a>` : html`<span>${one.name}</span>`}
              ${value !== null && value !== undefined && html`<span class="num strong">${at === null ? sum(value) : show(value)}</span>`}
            </li>
          `;
        })}
        <li class="when muted num">${at === null ? "" : when(data.starts[at])}</li>
      </ul>
      <${Table} title=${title} data=${data} show=${show} when=${when} daily=${daily} />
    </figure>
  `;
}

function Canvas({ title, data, kind, show, height, daily, onPoint }) {
  const place = useRef(null);
  const scheme = useScheme();
  const [uPlot, setLibrary] = useState(null);
  useEffect(() => void load().then((found) => setLibrary(() => found)), []);
  useLayoutEffect(() => {
    if (!uPlot) return undefined;
    const node = place.current;
    const made = new uPlot(options(uPlot, node, { data, kind, show, height, daily, onPoint }), rows(data, kind), node);
    const resized = new ResizeObserver(() => made.setSize({ width: node.clientWidth, height }));
    resized.observe(node);
    return () => {
      resized.disconnect();
      made.destroy();
    };
  }, [uPlot, data, kind, height, scheme]);
  return html`<div class="canvas" role="img" aria-label=${`${title}: chart. The same figures follow as a table.`} style=${{ height: `${height}px` }} ref=${place}></div>`;
}

/** Changes whenever another colour scheme applies: a canvas does not follow by itself. */
function useScheme() {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const changed = () => setCount((before) => before + 1);
    const system = matchMedia("(prefers-color-scheme: dark)");
    const chosen = new MutationObserver(changed);
    system.addEventListener("change", changed);
    chosen.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      system.removeEventListener("change", changed);
      chosen.disconnect();
    };
  }, []);
  return count;
}

/** What is drawn: stacked series from the top of the stack down, so that each covers the part below it. */
function rows(data, kind) {
  const ends = [...data.starts, data.starts.at(-1) + data.length];
  const held = (values) => [...values, kind === "bars" ? null : values.at(-1)];
  if (kind === "lines") return [ends, ...data.series.map((one) => held(one.values))];
  const sums = data.starts.map(() => 0);
  const stacked = data.series.map((one) => one.values.map((value, step) => (sums[step] += value)));
  return [ends, ...stacked.map(held).reverse()];
}

function options(uPlot, node, { data, kind, show, height, daily, onPoint }) {
  const figure = node.closest(".chart");
  const colours = [...figure.querySelectorAll(".swatch")].map((one) => getComputedStyle(one).backgroundColor);
  const style = getComputedStyle(node);
  const [ink, line, card] = [style.color, style.borderTopColor, style.backgroundColor];
  const drawn = kind === "lines" ? colours : [...colours].reverse();
  const stepped = uPlot.paths.stepped({ align: 1 });
  const bars = uPlot.paths.bars({ align: 1, size: [0.86, 48], gap: 1 });
  const last = data.starts.length - 1;
  const days = data.length * data.starts.length > 2 * 86_400;
  const axis = { stroke: ink, font: `12px ${style.fontFamily}`, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  return {
    width: node.clientWidth,
    height,
    padding: [10, 8, 0, 0],
    legend: { show: false },
    tzDate: daily ? (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : undefined,
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, sync: { key: "usage" } },
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, space: WIDE_ENOUGH, values: (_, splits) => splits.map(days ? (daily ? axisText.utcDay : axisText.day) : axisText.hour), incrs: days ? [86_400, 2, 7, 14, 30].map((one, n) => (n ? one * 86_400 : one)) : [3600, 7200, 10_800, 14_400, 21_600, 43_200] },
      { ...axis, size: axisWidth(show), values: (_, splits) => splits.map(show), space: 36 },
    ],
    series: [
      {},
      ...drawn.map((colour) =>
        kind === "lines"
          ? { stroke: colour, width: 2, paths: stepped, points: { show: false } }
          : { stroke: kind === "areas" ? card : colour, width: kind === "areas" ? 1 : 0, fill: colour, paths: kind === "areas" ? stepped : bars, points: { show: false } },
      ),
    ],
    hooks: {
      setCursor: [
        (chart) => {
          const found = chart.cursor.left >= 0 ? chart.posToVal(chart.cursor.left, "x") : null;
          onPoint(found === null ? null : Math.min(Math.max(Math.floor((found - data.starts[0]) / data.length), 0), last));
        },
      ],
    },
  };
}

/** As wide as its longest label needs. */
const axisWidth = () => (chart, values) => {
  const longest = (values ?? []).reduce((found, one) => (one.length > found.length ? one : found), "");
  chart.ctx.font = `${12 * devicePixelRatio}px sans-serif`;
  return Math.ceil(chart.ctx.measureText(longest).width / devicePixelRatio) + 18;
};

/** The newest step first; steps in which nothing happened are left out. */
function Table({ title, data, show, when, daily }) {
  const [open, setOpen] = useState(false);
  const used = data.starts.map((_, step) => step).filter((step) => data.series.some((one) => one.values[step]));
  return html`
    <details onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>Show as table<span class="vh">: ${title}</span></summary>
      ${open &&
      html`
        <${Scroll} label=${`${title}, table`}>
          <table class=${classes("list", "plain")}>
            <caption class="vh">${title}</caption>
            <thead><tr><th scope="col">${daily ? "Day (UTC)" : "Hour"}</th>${data.series.map((one) => html`<th key=${one.key} scope="col" class="n">${one.name}</th>`)}</tr></thead>
            <tbody>${used.reverse().map((step) => html`<tr key=${step}><th scope="row" class="num">${when(data.starts[step])}</th>${data.series.map((one) => html`<td key=${one.key} class="n">${one.values[step] === null ? "–" : show(one.values[step])}</td>`)}</tr>`)}</tbody>
          </table>
        <//>
      `}
    </details>
  `;
}
