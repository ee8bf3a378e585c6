/** The operators' brakes with the buttons that set and lift them, and what else needs an operator, as notices. */
import { troubles } from "../troubles.js";
import { html } from "../ui.js";
import { Ago } from "./basics.js";
import { confirm } from "./dialogs.js";
import { Icon } from "./icons.js";

const NOTE = { name: "note", label: "Reason, shown to other operators", value: "", maxlength: 500 };
const noted = ({ note }) => (note?.trim() ? { note: note.trim() } : {});

const changing = (method, path, body, message) => ({
  request: (values) => [method, path, body && { ...body, ...noted(values) }],
  done: () => message,
});

const stopLaunches = () =>
  confirm({
    title: "Stop all launches?",
    text: html`<p>No tenant's lease gets a VM until you allow launches again. New leases wait. Running VMs stay.</p>`,
    fields: [NOTE],
    yes: "Stop launches",
    danger: true,
    ...changing("PUT", "/v1/ops/launches", { stopped: true }, "All launches are stopped."),
  });

const allowLaunches = () =>
  confirm({
    title: "Allow launches?",
    text: html`<p>Waiting leases get VMs at once, and their tenants are billed.</p>`,
    yes: "Allow launches",
    ...changing("PUT", "/v1/ops/launches", { stopped: false }, "Launches are allowed."),
  });

const resume = (hold) =>
  confirm({
    title: "Resume the installation?",
    text: html`<p>gpulease set the hold because: ${hold.reason}. After you resume, gpulease launches and ends VMs again, and ends VMs without a lease. Check the orphans first.</p>`,
    yes: "Resume",
    danger: true,
    ...changing("POST", "/v1/ops/resume", undefined, "The hold is lifted."),
  });

/** The state of launch stop and hold, then all else. Without either, one line and the button that stops launches. */
export function Brakes({ summary }) {
  const { launches_stopped: stop, hold } = summary.brakes;
  const others = troubles(summary).filter((trouble) => !["hold", "launches_stopped"].includes(trouble.name));
  return html`
    ${stop &&
    html`<div class="notice" data-tone="warn"><${Icon} name="warning" /><p><strong>All launches are stopped</strong> since <${Ago} at=${stop.since} />${stop.note && `: ${stop.note}`}.</p><button type="button" onClick=${allowLaunches}>Allow launches</button></div>`}
    ${hold &&
    html`<div class="notice" data-tone="bad"><${Icon} name="warning" /><p><strong>On hold</strong>: ${hold.reason}. gpulease launches and ends no VM until an operator resumes.</p><button type="button" onClick=${() => resume(hold)}>Resume</button></div>`}
    ${others.length > 0 &&
    html`<div class="notice" data-tone="warn"><${Icon} name="warning" /><ul>${others.map((trouble) => html`<li><strong>${trouble.name}</strong>${trouble.place && ` ${trouble.place}`}${trouble.since && html` for <${Ago} at=${trouble.since} suffix="" />`}${trouble.message && `: ${trouble.message}`}</li>`)}</ul></div>`}
    ${!stop && html`<p class="brakes muted">${hold || summary.active_brakes.length ? "Launches are allowed." : "No brakes active."} <button type="button" class="ghost" onClick=${stopLaunches}>Stop launches</button></p>`}
  `;
}

const cordon = (account) =>
  confirm({
    title: `Cordon ${account.name}?`,
    text: html`<p>gpulease launches no VM in this account until you lift the cordon. Running VMs stay.</p>`,
    fields: [NOTE],
    yes: "Cordon",
    danger: true,
    ...changing("PUT", pathOf(account), { cordoned: true }, `${account.name} is cordoned.`),
  });

const uncordon = (account) =>
  confirm({
    title: `Lift the cordon of ${account.name}?`,
    text: html`<p>gpulease launches VMs in this account again.</p>`,
    yes: "Lift the cordon",
    ...changing("PUT", pathOf(account), { cordoned: false }, `${account.name} is open for launches.`),
  });

const pathOf = (account) => `/v1/ops/accounts/${encodeURIComponent(account.name)}/cordon`;

/** A notice, if the account is cordoned. */
export const Cordoned = ({ account: { cordoned: brake } }) =>
  brake && html`<p class="notice" data-tone="warn"><${Icon} name="warning" /><span><strong>Cordoned</strong> since <${Ago} at=${brake.since} />: no launches here${brake.note && ` (${brake.note})`}.</span></p>`;

export const CordonButton = ({ account }) => html`
  <button type="button" class="ghost" aria-label=${`${account.cordoned ? "Lift the cordon of" : "Cordon"} ${account.name}`} onClick=${() => (account.cordoned ? uncordon : cordon)(account)}>
    <${Icon} name="release" />${account.cordoned ? "Lift the cordon" : "Cordon"}
  </button>
`;
