/** Small things that all views are made of. */
import { Away } from "../api.js";
import { useNow } from "../clock.js";
import { fullTime, NOTHING, span, usd, words } from "../format.js";
import { classes, html, useState } from "../ui.js";
import { Icon } from "./icons.js";

/** A state in colour and in words. `kind` chooses the colour where the word itself does not. */
export const Badge = ({ state, kind = state, text = words(state) }) =>
  html`<span class="badge" data-kind=${kind}><i aria-hidden="true"></i>${text}</span>`;

/** A framed part of a view with a heading; `aside` stands at its right. */
export const Panel = ({ title, aside, note, children, wide, flush }) => html`
  <section class=${classes("panel", wide && "wide", flush && "flush")}>
    <header><h2>${title}</h2>${aside && html`<span class="aside">${aside}</span>`}</header>
    ${note && html`<p class="note">${note}</p>`}
    ${children}
  </section>
`;

/** A figure with its name; the whole card is a link to what stands behind it. */
export const Figure = ({ name, value, more, href, tone, loading }) => html`
  <a class="figure" href=${href} data-tone=${tone}>
    <span class="name">${name}</span>
    <span class="value">${loading ? html`<${Bone} width="5ch" />` : value}</span>
    <span class="more">${loading ? html`<${Bone} width="11ch" />` : more}</span>
  </a>
`;

/** A place holder while the first answer is awaited. */
export const Bone = ({ width = "100%" }) => html`<span class="bone" style=${{ width }} aria-hidden="true"></span>`;

export const Bones = ({ rows = 5 }) => html`
  <div class="bones" role="status"><span class="vh">Loading</span>
    ${Array.from({ length: rows }, (_, row) => html`<${Bone} key=${row} width=${`${92 - ((row * 13) % 34)}%`} />`)}
  </div>
`;

/** Nothing to show, and what to do next. */
export const Empty = ({ title, children }) => html`
  <div class="empty"><p class="strong">${title}</p>${children && html`<p>${children}</p>`}</div>
`;

/** What the API refused. When it is away the banner says so already. */
export const Refused = ({ error }) =>
  error && !(error instanceof Away)
    ? html`<p class="refused" role="alert"><${Icon} name="warning" /> ${error.message}</p>`
    : null;

/** Bones before the first answer, the refusal if it was refused, else the children. */
export function Awaited({ live, rows, children }) {
  if (live.data !== undefined) return children;
  if (live.error && !(live.error instanceof Away)) return html`<${Refused} error=${live.error} />`;
  return html`<${Bones} rows=${rows} />`;
}

/** A wide table that scrolls in its own frame, also by keyboard. */
export const Scroll = ({ label, children }) =>
  html`<div class="scroll" role="region" aria-label=${label} tabindex="0">${children}</div>`;

/** A share as a bar, from 0 to 1. */
export const Bar = ({ share, tone }) => html`
  <span class="bar" data-tone=${tone} aria-hidden="true"><i style=${{ width: `${Math.min(Math.max(share, 0), 1) * 100}%` }}></i></span>
`;

/** Used of a limit: words and bar. Without a limit there is no bar to fill. */
export function Meter({ used, limit, show = String }) {
  const share = limit === null ? 0 : Number(limit) === 0 ? Number(Number(used) > 0) : Number(used) / Number(limit);
  const tone = share >= 1 ? "bad" : share >= 0.8 ? "warn" : "good";
  return html`
    <span class="meter">
      <span class="num">${show(used)} <span class="muted">${limit === null ? "no limit" : `of ${show(limit)}`}</span></span>
      ${limit !== null && html`<${Bar} share=${share} tone=${tone} />`}
    </span>
  `;
}

const Moment = ({ at, children }) => html`<time datetime=${at} title=${fullTime(at)}>${children}</time>`;

/** How long ago: 4 m 12 s ago. */
export function Ago({ at, suffix = " ago" }) {
  const now = useNow();
  return at ? html`<${Moment} at=${at}>${span((now - Date.parse(at)) / 1000)}${suffix}<//>` : NOTHING;
}

/** How long until. A time that has come reads `over`. */
export function Left({ at, over = "over", soon = 900 }) {
  const left = (Date.parse(at) - useNow()) / 1000;
  if (!at) return NOTHING;
  return html`<span class=${classes("left", left < soon && "soon")}><${Moment} at=${at}>${left > 0 ? span(left) : over}<//></span>`;
}

/** What a lease has cost until now: it goes on by itself between two answers. */
export function Accrued({ cost }) {
  const now = useNow();
  const hours = cost.price_per_hour === null ? 0 : Math.max(0, now - Date.parse(cost.as_of)) / 3_600_000;
  return html`<span class="num">${usd(Number(cost.accrued) + hours * Number(cost.price_per_hour ?? 0))}</span>`;
}

/** A text to copy, as code. `block`: of several lines. */
export function Copy({ text, label, short, block }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(setDone, 1500, false);
  };
  return html`
    <span class=${classes("copy", block && "block")}>
      ${block ? html`<pre tabindex="0">${text}</pre>` : html`<code title=${text}>${short ?? text}</code>`}
      <button type="button" class="ghost tiny" onClick=${copy} aria-label=${`Copy ${label}`}>
        <${Icon} name=${done ? "check" : "copy"} /><span class="vh" role="status">${done ? "copied" : ""}</span>
      </button>
    </span>
  `;
}

/** Names and values. */
export const Facts = ({ rows }) => html`
  <dl class="facts">
    ${rows.filter(Boolean).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value ?? NOTHING}</dd></div>`)}
  </dl>
`;

/** The head of a view. `children` stand at its right. */
export const Head = ({ title, sub, children }) => html`
  <div class="head"><div><h1 tabindex="-1">${title}</h1><p class="sub">${sub}</p></div><div class="tools">${children}</div></div>
`;
