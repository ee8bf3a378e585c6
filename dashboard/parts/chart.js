/** Charts over time. The drawing is uPlot's; legend, read-out and the table are HTML, which screen readers can read. */
import { classes, html, useEffect, useLayoutEffect, useRef, useState } from "../ui.js";
import { DAY, HOUR } from "../steps.js";
import { Scroll } from "./basics.js";

const HEIGHT = 210;
const MOST_COLOURS = 10;
const WIDE_ENOUGH = 60; // pixels between two labels of the time axis, at least
const HOURS = [1, 2, 3, 4, 6, 12].map((one) => one * HOUR);
const DAYS = [1, 2, 7, 14, 28].map((one) => one * DAY);
const MONTHS = [30, 60, 90, 180].map((one) => one * DAY); // the library takes thirty days and more as calendar months
const COUNTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];
const MINUTES = [1, 2, 5, 10, 15, 30].map((one) => one * 60);
const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];
const UTC = { timeZone: "UTC" };
const INCREMENTS = { bars: COUNTS, lines: SPANS, levels: COUNTS };
const LINES = ["lines", "levels"];
const SHORTEST = 5; // pixels of a dash

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
const axisText = { hour: text(hour), day: text(date), utcDay: text({ ...date, ...UTC }), month: text({ month: "short", ...UTC }) };
const stepText = { hour: text({ ...date, ...hour }), day: text({ ...date, year: "numeric", ...UTC }), month: text({ month: "long", year: "numeric", ...UTC }) };

const colourOf = (series, place) => (series.key === "other" ? "other" : (place % MOST_COLOURS) + 1);

/**
 * `data`: `{length, starts, series: [{key, name, values, total}]}` of usage_series.js. `kind`: areas (stacked), bars
 * (stacked), lines (of seconds) or levels (lines of numbers, of which 0 is one). `show` writes a value, `tick` one of the
 * axis, `sum` a total. `most`: the upper end of the axis. `link(series)`: where its name leads, or null.
 */
export function Chart({ title, data, kind, show, tick = show, sum = show, link = () => null, most = null, height = HEIGHT }) {
  const [at, setAt] = useState(null);
  const daily = data.length > HOUR;
  const when = data.length > DAY ? stepText.month : daily ? stepText.day : stepText.hour;
  return html`
    <figure class="chart" aria-label=${title}>
      <${Canvas} title=${title} data=${data} kind=${kind} tick=${tick} most=${most} height=${height} daily=${daily} onPoint=${setAt} />
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
      <${Table} title=${title} data=${data} zeros=${kind === "levels"} show=${show} when=${when} daily=${daily} />
    </figure>
  `;
}

function Canvas({ title, data, kind, tick, most, height, daily, onPoint }) {
  const place = useRef(null);
  const scheme = useScheme();
  const [uPlot, setLibrary] = useState(null);
  useEffect(() => void load().then((found) => setLibrary(() => found)), []);
  useLayoutEffect(() => {
    if (!uPlot) return undefined;
    const node = place.current;
    const made = new uPlot(options(uPlot, node, { data, kind, tick, most, height, daily, onPoint }), rows(data, kind), node);
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

/** What is drawn, the last series first: of a stack, each part covers what is below its upper edge. */
function rows(data, kind) {
  const ends = [...data.starts, data.starts.at(-1) + data.length];
  const held = (values) => [...values, kind === "bars" ? null : values.at(-1)];
  if (LINES.includes(kind)) return [ends, ...data.series.map((one) => held(one.values)).reverse()];
  const sums = data.starts.map(() => 0);
  const stacked = data.series.map((one) => one.values.map((value, step) => (sums[step] += value)));
  return [ends, ...stacked.map(held).reverse()];
}

function options(uPlot, node, { data, kind, tick, most, height, daily, onPoint }) {
  const swatches = [...node.closest(".chart").querySelectorAll(".swatch")];
  const colours = swatches.map((one) => getComputedStyle(one).backgroundColor);
  const style = getComputedStyle(node);
  const axis = { stroke: style.color, font: `12px ${style.fontFamily}`, grid: { stroke: style.borderTopColor, width: 1 }, ticks: { show: false } };
  const drawn = { areas: areaOf(uPlot, style.backgroundColor), bars: barOf(uPlot), lines: lineOf, levels: lineOf }[kind];
  const whole = data.length * data.starts.length;
  const long = whole > 2 * DAY;
  const monthly = data.length > DAY;
  const moment = monthly ? axisText.month : daily ? axisText.utcDay : long ? axisText.day : axisText.hour;
  return {
    width: node.clientWidth,
    height,
    padding: [10, 22, 0, 0],
    legend: { show: false },
    tzDate: daily ? (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : undefined,
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, sync: { key: "usage" } },
    scales: { y: { range: (_, low, high) => [0, most ?? (high > 0 ? high * 1.08 : 1)] } },
    axes: [
      { ...axis, size: 30, grid: { show: false }, space: WIDE_ENOUGH, incrs: monthly ? MONTHS : long ? DAYS : whole > 3 * HOUR ? HOURS : MINUTES, values: (_, splits) => splits.map(moment) },
      { ...axis, size: widthOf, space: 36, values: (_, splits) => splits.map(tick), ...(INCREMENTS[kind] && { incrs: INCREMENTS[kind] }) },
    ],
    series: [{}, ...colours.reverse().map(drawn)],
    hooks: { setCursor: [(chart) => onPoint(stepAt(chart, data))] },
  };
}

/** The step under the pointer, or null. */
function stepAt(chart, data) {
  if (chart.cursor.left < 0) return null;
  const moment = chart.posToVal(chart.cursor.left, "x");
  return Math.max(data.starts.findLastIndex((start) => start <= moment), 0);
}

const NO_POINTS = { points: { show: false } };
const areaOf = (uPlot, card) => (fill) => ({ stroke: card, width: 1, fill, paths: uPlot.paths.stepped({ align: 1 }), ...NO_POINTS });
const barOf = (uPlot) => (fill) => ({ width: 0, fill, paths: uPlot.paths.bars({ align: 1, size: [0.86, 48], gap: 1 }), ...NO_POINTS });
const lineOf = (stroke) => ({ stroke, width: 2, paths: dashes, ...NO_POINTS });

/** A dash as long as its step for each value, joined to its neighbours; a value between gaps is seen as well. */
function dashes(chart, series, first, last) {
  const [times, values] = [chart.data[0], chart.data[series]];
  const stroke = new Path2D();
  const x = (step) => Math.round(chart.valToPos(times[step], "x", true));
  const y = (step) => Math.round(chart.valToPos(values[step], "y", true));
  for (let step = first; step < last; step += 1) {
    if (values[step] === null) continue;
    if (step > first && values[step - 1] !== null) stroke.lineTo(x(step), y(step));
    else stroke.moveTo(x(step), y(step));
    const joined = (values[step + 1] ?? null) !== null;
    stroke.lineTo(joined ? x(step + 1) : Math.max(x(step + 1), x(step) + SHORTEST * devicePixelRatio), y(step));
  }
  return { stroke, fill: null, clip: null };
}

/** As wide as its longest label needs. */
function widthOf(chart, values) {
  const longest = (values ?? []).reduce((found, one) => (one.length > found.length ? one : found), "");
  chart.ctx.font = `${12 * devicePixelRatio}px sans-serif`;
  return Math.ceil(chart.ctx.measureText(longest).width / devicePixelRatio) + 18;
}

/** The newest step first; steps in which nothing happened are left out. `zeros`: a zero is a value. */
function Table({ title, data, zeros, show, when, daily }) {
  const [open, setOpen] = useState(false);
  const used = data.starts.map((_, step) => step).filter((step) => data.series.some((one) => (zeros ? one.values[step] !== null : one.values[step])));
  return html`
    <details onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>Show as table<span class="vh">: ${title}</span></summary>
      ${open &&
      html`
        <${Scroll} label=${`${title}, table`}>
          <table class=${classes("list", "plain")}>
            <caption class="vh">${title}</caption>
            <thead><tr><th scope="col">${data.length > DAY ? "Month (UTC)" : daily ? "Day (UTC)" : data.length < HOUR ? "Time" : "Hour"}</th>${data.series.map((one) => html`<th key=${one.key} scope="col" class="n">${one.name}</th>`)}</tr></thead>
            <tbody>${used.reverse().map((step) => html`<tr key=${step}><th scope="row" class="num">${when(data.starts[step])}</th>${data.series.map((one) => html`<td key=${one.key} class="n">${one.values[step] === null ? "–" : show(one.values[step])}</td>`)}</tr>`)}</tbody>
          </table>
        <//>
      `}
    </details>
  `;
}
