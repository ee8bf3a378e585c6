/** Form fields. A field's `name` is the path of the value in the request's body, such as `gpu/model`, as error pointers have it. */
import { html, useState } from "../ui.js";
import { Icon } from "./icons.js";

/** The messages of a Problem by field name; `""` holds those that belong to none of `names`. */
export function fieldErrors(problem, names) {
  const found = {};
  for (const { pointer, detail } of problem.errors ?? []) {
    const path = pointer.replace(/^#?\/(body\/)?(lease\/)?/, "");
    const name = names.find((one) => path === one || path.startsWith(`${one}/`)) ?? "";
    (found[name] ??= []).push(detail);
  }
  return Object.fromEntries(Object.entries(found).map(([name, details]) => [name, details.join("; ")]));
}

/**
 * One field: `{name, label, kind, hint, options, ...attributes}`. Kinds: `text` (any type of input), `select`, `textarea`,
 * `check` (true or false), `choices` (one of few) and `checks` (several of many). Options are `[[value, label], …]`.
 */
export function FormField({ field, value, error, change }) {
  const { name, label, kind = "text", hint, options, wide, ...attributes } = field;
  const id = `field-${name.replaceAll("/", "-")}`;
  const notes = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ") || null;
  const common = { id, name, "aria-describedby": notes, "aria-invalid": error ? "true" : null, ...attributes };
  const set = (event) => change(name, event.target.value);
  const below = html`
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${error && html`<p class="refused" id=${`${id}-error`}><${Icon} name="warning" /> ${error}</p>`}
  `;
  if (kind === "choices" || kind === "checks") return html`<${Group} field=${field} value=${value} change=${change} notes=${notes}>${below}<//>`;
  if (kind === "check") {
    return html`
      <div class="form-field check" data-wide=${wide}>
        <label><input type="checkbox" ...${common} checked=${value} onChange=${(event) => change(name, event.target.checked)} /><span>${label}</span></label>${below}
      </div>
    `;
  }
  return html`
    <div class="form-field" data-wide=${wide}>
      <label for=${id}>${label}</label>
      ${kind === "select" && html`<select ...${common} value=${value} onChange=${set}>${options.map(([one, text]) => html`<option key=${one} value=${one}>${text}</option>`)}</select>`}
      ${kind === "textarea" && html`<textarea rows="3" spellcheck=${false} ...${common} value=${value} onInput=${set}></textarea>`}
      ${kind === "text" && html`<input type="text" autocomplete="off" spellcheck=${false} ...${common} list=${options ? `${id}-list` : null} value=${value} onInput=${set} />`}
      ${kind === "text" && options && html`<datalist id=${`${id}-list`}>${options.map(([one, text]) => html`<option key=${one} value=${one}>${text}</option>`)}</datalist>`}
      ${below}
    </div>
  `;
}

/** Radio buttons, or check boxes of which several may be on. */
function Group({ field, value, change, notes, children }) {
  const { name, label, kind, options, wide } = field;
  const several = kind === "checks";
  const flip = (one) => change(name, several ? (value.includes(one) ? value.filter((other) => other !== one) : [...value, one]) : one);
  return html`
    <fieldset class=${`form-field ${kind}`} aria-describedby=${notes} data-wide=${wide}>
      <legend>${label}</legend>
      <div class="options">
        ${options.map(
          ([one, text]) => html`
            <label key=${one}>
              <input type=${several ? "checkbox" : "radio"} name=${name} checked=${several ? value.includes(one) : value === one} onChange=${() => flip(one)} /><span>${text}</span>
            </label>
          `,
        )}
      </div>
      ${children}
    </fieldset>
  `;
}

/** `{values, change, reset}` of a form whose first values are `initial`. */
export function useFields(initial) {
  const [values, setValues] = useState(initial);
  return { values, change: (name, value) => setValues((before) => ({ ...before, [name]: value })), reset: setValues };
}
