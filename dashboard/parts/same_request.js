/** The request of a form as JSON, as a call with curl and as a command. */
import { addressOf } from "../api.js";
import { html, useState } from "../ui.js";
import { Copy } from "./basics.js";
import { asCommand, asCurl, asJson } from "./lease_request.js";

const LEASES = "/v1/leases";

/** A lease also has a command. */
const formsOf = (path) => ({
  ...(path === LEASES && { CLI: asCommand }),
  curl: (body) => asCurl(body, addressOf(path)),
  JSON: asJson,
});

export function SameRequest({ body, path = LEASES }) {
  const forms = formsOf(path);
  const [form, setForm] = useState(Object.keys(forms)[0]);
  const text = forms[form](body);
  return html`
    <section class="panel">
      <header><h2>The same request</h2>
        <div class="segments" role="group" aria-label="Form of the request">
          ${Object.keys(forms).map((name) => html`<button key=${name} type="button" aria-pressed=${name === form} onClick=${() => setForm(name)}>${name}</button>`)}
        </div>
      </header>
      <${Copy} text=${text} label=${`the request as ${form}`} block />
    </section>
  `;
}
