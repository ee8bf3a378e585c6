/** Dialogs before something is done, and short messages after it. Any module opens them; they render in one place. */
import { nudge } from "../changes.js";
import { intention, Unanswered } from "../intentions.js";
import { html, shared, useLayoutEffect, useRef, useState } from "../ui.js";
import { FormField, fieldErrors, useFields } from "./fields.js";
import { Icon } from "./icons.js";

const question = shared(null);
const messages = shared([]);
const SHOWN_MS = 6000;
let last = 0;

/**
 * Asks before something is done. `request(values)` makes the change as `[method, path, body]`, and `done(answer, values)` the
 * message for afterwards, or null for none. Instead, `act(values)` does what changes nothing at the API. What they raise is
 * shown in the dialog, which then stays. `fields`: as in fields.js, each with its first `value`, and with `when(values)`
 * where it depends on the others whether it is shown. Without `cancel` the dialog only informs.
 */
export function confirm({ title, text, yes, danger = false, cancel = true, fields = [], request, done, act }) {
  question.set({ id: (last += 1), title, text, yes, danger, cancel, fields, request, done, act });
}

/** A message for a few seconds. */
export function say(text, tone = "good") {
  const one = { id: (last += 1), text, tone };
  messages.set([...messages.get(), one]);
  setTimeout(() => dismiss(one), SHOWN_MS);
}

/** At the end of a session: the next one begins without the dialog and the messages of this one. */
function forget() {
  question.set(null);
  messages.set([]);
}

function dismiss(one) {
  messages.set(messages.get().filter((other) => other !== one));
}

export function Dialogs() {
  const asked = question.use();
  useLayoutEffect(() => forget, []);
  return html`${asked && html`<${Question} key=${asked.id} asked=${asked} />`}<${Messages} />`;
}

function Question({ asked }) {
  const dialog = useRef(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const { values, change } = useFields(Object.fromEntries(asked.fields.map((field) => [field.name, field.value])));
  const [send] = useState(intention);
  useLayoutEffect(() => dialog.current.showModal(), []);
  const close = () => dialog.current?.close();
  const go = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      const message = asked.act ? await asked.act(values) : asked.done(await send(values, () => asked.request(values)), values);
      if (message) say(message);
      close();
    } catch (error) {
      if (question.get() !== asked) say(`${asked.title}: ${error.message}`, "bad");
      setProblem(error);
      setBusy(false);
    }
    nudge();
  };
  const fields = asked.fields.filter(({ when = () => true }) => when(values));
  const errors = problem ? fieldErrors(problem, fields.map((field) => field.name)) : {};
  return html`
    <dialog ref=${dialog} aria-labelledby="question-title" onClose=${() => question.get() === asked && question.set(null)}>
      <form onSubmit=${go}>
        <h2 id="question-title">${asked.title}</h2>
        ${asked.text && html`<div class="text">${asked.text}</div>`}
        ${fields.map(({ value, when, ...field }) => html`<${FormField} key=${field.name} field=${field} value=${values[field.name]} error=${errors[field.name]} change=${change} />`)}
        ${problem && html`<p class="refused" role="alert"><${Icon} name="warning" /> ${errors[""] ?? problem.message}${problem instanceof Unanswered && ` Press ${asked.yes} again: it is made only once.`}</p>`}
        <div class="buttons">
          ${asked.cancel && html`<button type="button" onClick=${close} autofocus=${asked.fields.length === 0}>Cancel</button>`}
          <button type="submit" class=${asked.danger ? "danger" : "primary"} disabled=${busy}>${busy ? "Working…" : asked.yes}</button>
        </div>
      </form>
    </dialog>
  `;
}

const Messages = () => html`
  <div class="messages" role="status" aria-live="polite">
    ${messages.use().map(
      (one) => html`
        <p key=${one.id} data-tone=${one.tone}>
          ${one.text}
          <button type="button" class="ghost tiny" aria-label="Dismiss" onClick=${() => dismiss(one)}><${Icon} name="close" /></button>
        </p>
      `,
    )}
  </div>
`;
