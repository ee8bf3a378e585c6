/** What can be done with a lease: release, extend, reboot, rename and label. Each opens a dialog first. */
import { now } from "../clock.js";
import { gpuText, providerName, shortTime, span, usd, words } from "../format.js";
import { to } from "../router.js";
import { mayManageLeases, session } from "../session.js";
import { html } from "../ui.js";
import { confirm } from "./dialogs.js";
import { Icon } from "./icons.js";
import { labelLines, parseLabels } from "./labels.js";

/** Terms to add: seconds and words. */
const TERMS = [
  [3600, "1 hour"],
  [4 * 3600, "4 hours"],
  [12 * 3600, "12 hours"],
  [24 * 3600, "1 day"],
];

const MINUTE = 60;

/** The most seconds that the tenant's limits allow to add now. Operators have no limit: those of other tenants are not known here. */
export function mostToAdd({ created_at: created, expires_at: expires }, limits, at) {
  if (!limits) return Infinity;
  const [begin, end] = [Date.parse(created) / 1000, Date.parse(expires) / 1000];
  return Math.min(begin + limits.max_total_seconds, at / 1000 + limits.max_ttl_seconds) - end;
}

/** What the dialog of an extension offers, `[seconds, words]`: the terms of at most so many seconds, and the rest up to them. */
export function termsUpTo(most) {
  const fitting = TERMS.filter(([seconds]) => seconds <= most);
  const rest = Math.floor(most / MINUTE) * MINUTE;
  const isLess = rest >= MINUTE && rest < TERMS.at(-1)[0] && !fitting.some(([seconds]) => seconds === rest);
  return isLess ? [...fitting, [rest, span(rest)]] : fitting;
}

export const offeredTerms = (item, limits, at) => termsUpTo(mostToAdd(item, limits, at));

/** Tells that the limits leave no time to add. */
export const refuseExtension = (title) =>
  confirm({ title, text: html`<p>The lease already lasts as long as your tenant's limits allow.</p>`, yes: "Close", cancel: false, act: () => null });

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
    request: () => ["DELETE", `/v1/leases/${lease.id}`],
    done: () => `${nameOf(lease)} is being released.`,
  });
}

function addedTerm(lease, seconds, label) {
  const rate = lease.cost.price_per_hour;
  const cost = rate ? `, adds at most ${usd((rate * seconds) / 3600)}` : "";
  return `${label}, until ${shortTime(Date.parse(lease.expires_at) + seconds * 1000)}${cost}`;
}

function extend(lease) {
  const terms = offeredTerms(lease, session.get()?.me?.tenant, now());
  if (!terms.length) return refuseExtension(`Extend ${nameOf(lease)}`);
  confirm({
    title: `Extend ${nameOf(lease)}`,
    text: html`<p>The lease ends ${shortTime(lease.ends_at)}${lease.ends_at === lease.expires_at ? "" : ", when its cost reaches the spend cap. An extension keeps the cap"}.</p>`,
    fields: [{ name: "extend_by_seconds", label: "Time to add", kind: "choices", value: terms[0][0], options: terms.map(([seconds, label]) => [seconds, addedTerm(lease, seconds, label)]) }],
    yes: "Extend",
    request: (values) => ["POST", `/v1/leases/${lease.id}/extend`, values],
    done: (lasting) => `${nameOf(lease)} now ends ${shortTime(lasting.expires_at)}.`,
  });
}

function reboot(lease) {
  confirm({
    title: `Reboot ${nameOf(lease)}?`,
    text: html`<p>The VM restarts and keeps its disk. Running programs end without notice. The lease stays billed.</p>`,
    yes: "Reboot",
    danger: true,
    request: () => ["POST", `/v1/leases/${lease.id}/reboot`],
    done: () => `${nameOf(lease)} is being rebooted.`,
  });
}

function edit(lease) {
  confirm({
    title: `Edit ${nameOf(lease)}`,
    fields: [
      { name: "name", label: "Name", value: lease.name, required: true, maxlength: 63 },
      { name: "labels", label: "Labels, one key=value per line", kind: "textarea", rows: 4, value: labelLines(lease.labels) },
      !lease.terminal && { name: "max_cost", label: "Max cost, USD", inputmode: "decimal", value: lease.max_cost ?? "", placeholder: "none", hint: `The lease ends before it costs more. Cost so far: ${usd(lease.cost.accrued)}.` },
    ].filter(Boolean),
    yes: "Save",
    request: ({ name, labels, max_cost: cap }) => {
      const capped = cap === undefined || cap.trim() === (lease.max_cost ?? "") ? {} : { max_cost: cap.trim() || null };
      return ["PATCH", `/v1/leases/${lease.id}`, { name: name.trim(), labels: parseLabels(labels), ...capped }];
    },
    done: (saved) => `${saved.name} was saved.`,
  });
}

/** Buttons for the actions on a lease; a disabled one says why. `large`: all of them, as on the lease's own page. */
export const LeaseActions = ({ lease, large }) =>
  mayManageLeases() &&
  html`
    <span class="actions">
      ${large && html`<a class="button" href=${to("leases/new", { from: lease.id })}><${Icon} name="plus" />Create again</a>`}
      ${large && html`<button type="button" aria-label=${`Edit ${nameOf(lease)}`} onClick=${() => edit(lease)}><${Icon} name="edit" />Edit</button>`}
      ${large && !lease.terminal && html`<${Do} what="Reboot" icon="reboot" lease=${lease} rule=${lease.actions.reboot} act=${reboot} large />`}
      ${!lease.terminal && html`<${Do} what="Extend" icon="clock" lease=${lease} rule=${lease.actions.extend} act=${extend} large=${large} />`}
      ${!lease.terminal && html`<${Do} what="Release" icon="release" lease=${lease} rule=${lease.actions.release} act=${release} large=${large} />`}
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
