/** The API keys of a tenant, for its admins and for operators: create, rotate and revoke. */
import { NOTHING, shortTime } from "../format.js";
import { useLive } from "../live.js";
import { html } from "../ui.js";
import { Ago, Awaited, Badge, Empty, Panel, Scroll } from "./basics.js";
import { confirm } from "./dialogs.js";
import { Icon } from "./icons.js";
import { reveal } from "./secrets.js";

const ROLES = [
  ["viewer", "viewer: reads"],
  ["member", "member: also manages leases"],
  ["admin", "admin: also manages keys"],
];
const OVERLAPS = [["0", "at once"], ["3600", "in 1 hour"], ["86400", "in 1 day"], ["604800", "in 7 days"]];
const DAY_MS = 86_400_000;

export function ApiKeys({ tenantId }) {
  const path = `/v1/tenants/${encodeURIComponent(tenantId)}/keys`;
  const live = useLive(`${path}?limit=200`, 15, { all: true });
  const items = live.data?.items;
  return html`
    <${Panel} title="API keys" wide flush aside=${html`<button type="button" class="ghost" onClick=${() => create(path)}><${Icon} name="plus" />Create a key</button>`}>
      <${Awaited} live=${live} rows=${3}>
        ${items && (items.length ? html`<${Table} items=${items} />` : html`<${Empty} title="No API keys yet.">Create one for each person or program.<//>`)}
      <//>
    <//>
  `;
}

const Table = ({ items }) => html`
  <${Scroll} label="API keys">
    <table class="list cards">
      <thead><tr><th scope="col">Name</th><th scope="col">Role</th><th scope="col">Prefix</th><th scope="col">State</th><th scope="col" class="n">Last used</th><th scope="col">Expires</th><th scope="col"><span class="vh">Actions</span></th></tr></thead>
      <tbody>
        ${items.map((key) => {
          const [state, kind] = stateOf(key);
          return html`
            <tr key=${key.id}>
              <th scope="row" data-label="Name">${key.name}</th>
              <td data-label="Role">${key.role}</td>
              <td data-label="Prefix"><code>${key.prefix}</code></td>
              <td data-label="State"><${Badge} state=${state} kind=${kind} />${key.previous_valid_until && html`<span class="under">previous secret until ${shortTime(key.previous_valid_until)}</span>`}</td>
              <td data-label="Last used" class="n">${key.last_used_at ? html`<${Ago} at=${key.last_used_at} />` : "never"}</td>
              <td data-label="Expires">${key.expires_at ? shortTime(key.expires_at) : NOTHING}</td>
              <td class="do">${kind === "active" && html`<span class="actions"><button type="button" class="ghost" aria-label=${`Rotate ${key.name}`} onClick=${() => rotate(key)}>Rotate</button><button type="button" class="ghost" aria-label=${`Revoke ${key.name}`} onClick=${() => revoke(key)}>Revoke</button></span>`}</td>
            </tr>
          `;
        })}
      </tbody>
    </table>
  <//>
`;

function stateOf(key) {
  if (key.revoked_at) return ["revoked", "released"];
  if (key.expires_at && Date.parse(key.expires_at) < Date.now()) return ["expired", "released"];
  return ["active", "active"];
}

const show = (key) =>
  reveal({
    name: key.name,
    secret: key.secret,
    again: () => ["POST", `/v1/keys/${key.id}/rotate`, { overlap_seconds: 0 }],
    done: show,
    lost: key.previous_valid_until ? "The previous secret also stops working at once." : "",
  });

const create = (path) =>
  confirm({
    title: "Create an API key",
    fields: [
      { name: "name", label: "Name", value: "", required: true, maxlength: 63, placeholder: "who or what uses it" },
      { name: "role", label: "Role", kind: "choices", value: "member", options: ROLES },
      { name: "budget", label: "Budget for its whole life, USD", inputmode: "decimal", value: "", placeholder: "none", hint: "All leases of the key together cost at most this. Leases end when they exceed it." },
      { name: "days", label: "Expires after days", type: "number", min: 1, value: "", placeholder: "never" },
    ],
    yes: "Create",
    request: ({ name, role, budget, days }) => {
      const expires = days === "" ? {} : { expires_at: new Date(Date.now() + Number(days) * DAY_MS).toISOString() };
      return ["POST", path, { name: name.trim(), role, budget: budget.trim() || undefined, ...expires }];
    },
    done: show,
  });

const rotate = (key) =>
  confirm({
    title: `Rotate ${key.name}?`,
    text: html`<p>The key gets a new secret.</p>`,
    fields: [{ name: "overlap_seconds", label: "The old secret stops working", kind: "choices", value: "0", options: OVERLAPS }],
    yes: "Rotate",
    danger: true,
    request: ({ overlap_seconds: overlap }) => ["POST", `/v1/keys/${key.id}/rotate`, { overlap_seconds: Number(overlap) }],
    done: show,
  });

const revoke = (key) =>
  confirm({
    title: `Revoke ${key.name}?`,
    text: html`<p>Programs that use this key are refused at once. This cannot be undone.</p>`,
    yes: "Revoke",
    danger: true,
    request: () => ["DELETE", `/v1/keys/${key.id}`],
    done: () => `${key.name} is revoked.`,
  });
