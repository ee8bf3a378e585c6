/** Releasing and extending a lease, each after a question. */
import { change } from "../api.js";
import { nudge } from "../changes.js";
import { gpuText, providerName, shortTime, usd, words } from "../format.js";
import { html } from "../ui.js";
import { confirm } from "./dialogs.js";
import { Icon } from "./icons.js";

const TERMS = [
  [3600, "1 hour"],
  [4 * 3600, "4 hours"],
  [12 * 3600, "12 hours"],
  [24 * 3600, "1 day"],
];

export const nameOf = (lease) => lease.name || lease.id;

function release(lease) {
  const place = lease.placement;
  confirm({
    title: `Release ${nameOf(lease)}?`,
    text: place
      ? html`<p>Its VM (${gpuText(lease)}, ${providerName(place.provider)} ${place.region}) and its disk will be deleted. Cost so far:
          ${" "}${usd(lease.cost.accrued)}. This cannot be undone.</p>`
      : html`<p>The lease has no VM yet, and none will start. This cannot be undone.</p>`,
    yes: "Release",
    danger: true,
    act: async () => {
      await change("DELETE", `/v1/leases/${lease.id}`);
      nudge();
      return `${nameOf(lease)} is being released.`;
    },
  });
}

function addedTerm(lease, seconds, label) {
  const price = lease.placement?.price_per_hour;
  const cost = price ? `, adds at most ${usd((price * seconds) / 3600)}` : "";
  return `${label}, until ${shortTime(Date.parse(lease.expires_at) + seconds * 1000)}${cost}`;
}

function extend(lease) {
  confirm({
    title: `Extend ${nameOf(lease)}`,
    text: html`<p>The lease ends ${shortTime(lease.expires_at)}.</p>`,
    legend: "Time to add",
    choices: TERMS.map(([seconds, label]) => [seconds, addedTerm(lease, seconds, label)]),
    yes: "Extend",
    act: async (seconds) => {
      const lasting = await change("POST", `/v1/leases/${lease.id}/extend`, { extend_by_seconds: seconds });
      nudge();
      return `${nameOf(lease)} now ends ${shortTime(lasting.expires_at)}.`;
    },
  });
}

/** Buttons for what may be done with a lease now; why not, where it may not. */
export const LeaseActions = ({ lease, large }) => html`
  <span class="actions">
    <${Do} what="Extend" icon="clock" lease=${lease} rule=${lease.actions.extend} act=${extend} large=${large} />
    <${Do} what="Release" icon="release" lease=${lease} rule=${lease.actions.release} act=${release} large=${large} />
  </span>
`;

function Do({ what, icon, lease, rule, act, large }) {
  const why = rule.available ? what : `${what}: ${words(rule.reason_code)}`;
  return html`
    <button type="button" class=${large ? "" : "ghost"} disabled=${!rule.available} title=${why}
      aria-label=${`${what} ${nameOf(lease)}`} onClick=${() => act(lease)}>
      <${Icon} name=${icon} />${what}
    </button>
  `;
}
