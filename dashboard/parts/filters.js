/** Filters of lists. Their values live in the address. */
import { words } from "../format.js";
import { go, refined } from "../router.js";
import { html, useState } from "../ui.js";
import { Icon } from "./icons.js";

const PERIODS = [["900", "15 minutes"], ["3600", "1 hour"], ["86400", "24 hours"], ["604800", "7 days"], ["2592000", "30 days"]];

/** The start of the last `period` seconds before `now`, as the API takes it. */
export const startOf = (period, now) => new Date(now - Number(period) * 1000).toISOString();

export const Period = ({ value, any = false }) => html`
  <label class="field"><span>Last</span>
    <select value=${value} onChange=${(event) => go(refined({ period: event.target.value }))}>
      ${any && html`<option value="">any time</option>`}
      ${PERIODS.map(([seconds, label]) => html`<option key=${seconds} value=${seconds}>${label}</option>`)}
    </select>
  </label>
`;

/** One of the options; a value of the address that is not among them is shown too. `several`: each choice is added. */
export function SelectFilter({ name, label, query, options, show = words, several = false }) {
  const value = several ? "" : query.get(name) ?? "";
  const chosen = query.getAll(name);
  const all = value && !options.includes(value) ? [value, ...options] : options;
  const set = (event) => go(refined({ [name]: several ? [...chosen, event.target.value] : event.target.value }));
  return html`
    <label class="field"><span>${label}</span>
      <select value=${value} data-on=${value !== ""} onChange=${set}>
        <option value="">${several && chosen.length ? "add…" : "any"}</option>
        ${all.filter((one) => !several || !chosen.includes(one)).map((one) => html`<option key=${one} value=${one}>${show(one)}</option>`)}
      </select>
    </label>
  `;
}

/** A text that counts when Enter is pressed or the field is left. New data on the page leave what is typed alone. */
export function Entered({ name, label, query, placeholder }) {
  const [typed, setTyped] = useState(null);
  const enter = (event) => {
    go(refined({ [name]: event.target.value.trim() }));
    setTyped(null);
  };
  return html`
    <label class="field"><span>${label}</span>
      <input value=${typed ?? query.get(name) ?? ""} placeholder=${placeholder} maxlength="100" spellcheck=${false} autocomplete="off" onInput=${(event) => setTyped(event.target.value)} onChange=${enter} onBlur=${() => setTyped(null)} />
    </label>
  `;
}

/** The chosen values of a filter with several, each with a button that removes it. */
export const Chosen = ({ name, query, label, show = words }) =>
  query.getAll(name).map(
    (value) => html`<a key=${value} class="button chosen" href=${refined({ [name]: query.getAll(name).filter((one) => one !== value) })} aria-label=${`Remove the ${label} filter ${show(value)}`}>${show(value)}<${Icon} name="close" /></a>`,
  );

/** Links of which one is chosen, such as the range of a report. `text(value)` names one. */
export const Choices = ({ label, name, values, chosen, text }) => html`
  <ul class="chips" aria-label=${label}>
    ${values.map((one) => html`<li key=${one}><a href=${refined({ [name]: one })} aria-current=${one === chosen ? "true" : null}>${text(one)}</a></li>`)}
  </ul>
`;
