/** The request of a form as JSON, as a call with curl and as a command. */
import { addressOf } from "../api.js";
import { html, useState } from "../ui.js";
import { Copy } from "./basics.js";
import { asCommand, asCurl, asJson } from "./lease_request.js";

const FORMS = {
  CLI: asCommand,
  curl: (body) => asCurl(body, addressOf("/v1/leases")),
  JSON: asJson,
};

export function SameRequest({ body }) {
  const [form, setForm] = useState("CLI");
  const text = FORMS[form](body);
  return html`
    <section class="panel">
      <header><h2>The same request</h2>
        <div class="segments" role="group" aria-label="Form of the request">
          ${Object.keys(FORMS).map((name) => html`<button key=${name} type="button" aria-pressed=${name === form} onClick=${() => setForm(name)}>${name}</button>`)}
        </div>
      </header>
      <${Copy} text=${text} label=${`the request as ${form}`} block />
    </section>
  `;
}
