/** Questions before something is done, and short messages after it. Both come from anywhere and show at one place. */
import { html, shared, useLayoutEffect, useRef, useState } from "../ui.js";
import { Icon } from "./icons.js";

const question = shared(null);
const messages = shared([]);
const SHOWN_MS = 6000;
let last = 0;

/**
 * Asks before something is done. `act(choice)` does it and answers the message for afterwards; what it raises is shown in
 * the dialog, which then stays. `choices`: `[[value, label], …]`, the first one chosen.
 */
export function confirm({ title, text, yes, danger = false, choices = null, legend = "", act }) {
  question.set({ title, text, yes, danger, choices, legend, act });
}

/** A message for a few seconds. */
export function say(text, tone = "good") {
  const one = { id: (last += 1), text, tone };
  messages.set([...messages.get(), one]);
  setTimeout(() => dismiss(one), SHOWN_MS);
}

function dismiss(one) {
  messages.set(messages.get().filter((other) => other !== one));
}

export function Dialogs() {
  const asked = question.use();
  return html`${asked && html`<${Question} key=${asked.title} asked=${asked} />`}<${Messages} />`;
}

function Question({ asked }) {
  const dialog = useRef(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [choice, setChoice] = useState(asked.choices?.[0][0]);
  useLayoutEffect(() => dialog.current.showModal(), []);
  const close = () => dialog.current?.close();
  const go = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      say(await asked.act(choice));
      close();
    } catch (problem) {
      setError(problem.message);
      setBusy(false);
    }
  };
  return html`
    <dialog ref=${dialog} aria-labelledby="question-title" onClose=${() => question.set(null)}>
      <form onSubmit=${go}>
        <h2 id="question-title">${asked.title}</h2>
        <div class="text">${asked.text}</div>
        ${asked.choices && html`<${Choices} asked=${asked} choice=${choice} choose=${setChoice} />`}
        ${error && html`<p class="refused" role="alert"><${Icon} name="warning" /> ${error}</p>`}
        <div class="buttons">
          <button type="button" onClick=${close} autofocus>Cancel</button>
          <button type="submit" class=${asked.danger ? "danger" : "primary"} disabled=${busy}>${busy ? "Working…" : asked.yes}</button>
        </div>
      </form>
    </dialog>
  `;
}

const Choices = ({ asked, choice, choose }) => html`
  <fieldset class="choices">
    <legend>${asked.legend}</legend>
    ${asked.choices.map(
      ([value, label]) => html`
        <label key=${value}>
          <input type="radio" name="choice" checked=${value === choice} onChange=${() => choose(value)} /><span>${label}</span>
        </label>
      `,
    )}
  </fieldset>
`;

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
