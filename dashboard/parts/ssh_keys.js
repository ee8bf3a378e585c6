/** The stored SSH keys of a tenant: the names that a lease request may use. */
import { shortTime } from "../format.js";
import { useLive } from "../live.js";
import { mayManageLeases } from "../session.js";
import { html } from "../ui.js";
import { Awaited, Badge, Empty, Panel, Scroll } from "./basics.js";
import { confirm } from "./dialogs.js";
import { Icon } from "./icons.js";

const PATH = "/v1/ssh-keys";

/** Default keys are those of the API key that calls. Members change their own keys, admins all keys of the tenant. */
export function SshKeys({ me }) {
  const live = useLive(`${PATH}?limit=100`, 30);
  const items = live.data?.items;
  return html`
    <${Panel} title="SSH keys" wide flush aside=${mayManageLeases() && html`<button type="button" class="ghost" onClick=${add}><${Icon} name="plus" />Add an SSH key</button>`}>
      <${Awaited} live=${live} rows=${3}>
        ${items && (items.length ? html`<${Table} items=${items} me=${me} />` : html`<${Empty} title="No SSH keys yet.">Add the content of <code>~/.ssh/id_ed25519.pub</code>. Your default keys are used for each of your leases that names no key.<//>`)}
      <//>
    <//>
  `;
}

const Table = ({ items, me }) => html`
  <${Scroll} label="SSH keys">
    <table class="list cards">
      <thead><tr><th scope="col">Name</th><th scope="col">Fingerprint</th><th scope="col">Use</th><th scope="col">Created</th><th scope="col"><span class="vh">Actions</span></th></tr></thead>
      <tbody>
        ${items.map(
          (key) => html`
            <tr key=${key.id}>
              <th scope="row" data-label="Name">${key.name}</th>
              <td data-label="Fingerprint"><code>${key.fingerprint}</code></td>
              <td data-label="Use">${key.default ? html`<${Badge} state="default" kind="active" />` : html`<span class="muted">by name</span>`}</td>
              <td data-label="Created">${shortTime(key.created_at)}</td>
              <td class="do">${(me.role === "admin" || key.key_id === me.key_id) && html`<span class="actions"><button type="button" class="ghost" aria-label=${key.default ? `Do not use ${key.name} by default` : `Use ${key.name} by default`} onClick=${() => flip(key)}>${key.default ? "Remove default" : "Make default"}</button><button type="button" class="ghost" aria-label=${`Delete ${key.name}`} onClick=${() => remove(key)}>Delete</button></span>`}</td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  <//>
`;

const add = () =>
  confirm({
    title: "Add an SSH key",
    fields: [
      { name: "name", label: "Name", value: "", required: true, maxlength: 63, placeholder: "laptop" },
      { name: "public_key", label: "Public key", kind: "textarea", value: "", required: true, placeholder: "ssh-ed25519 AAAA… me@laptop" },
      { name: "default", label: "Use it for each of my leases that names no key", kind: "check", value: true },
    ],
    yes: "Add",
    request: ({ name, public_key: key, default: always }) => ["POST", PATH, { name: name.trim(), public_key: key.trim(), default: always }],
    done: (_, { name }) => `${name.trim()} was added.`,
  });

const flip = (key) =>
  confirm({
    title: key.default ? `Stop using ${key.name} by default?` : `Use ${key.name} by default?`,
    text: html`<p>Your default keys are used for each of your new leases that names no key. Existing leases do not change.</p>`,
    yes: key.default ? "Remove default" : "Make default",
    request: () => ["PATCH", `${PATH}/${key.id}`, { default: !key.default }],
    done: () => `${key.name} was saved.`,
  });

const remove = (key) =>
  confirm({
    title: `Delete ${key.name}?`,
    text: html`<p>New leases can no longer use this key. VMs that have it keep it until their lease ends.</p>`,
    yes: "Delete",
    danger: true,
    request: () => ["DELETE", `${PATH}/${key.id}`],
    done: () => `${key.name} was deleted.`,
  });
