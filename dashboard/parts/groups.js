/** What the list of groups and the page of one show alike: state, progress, pool, and the actions on a group. */
import { now } from "../clock.js";
import { counted, marketName, shortTime, usd, words } from "../format.js";
import { mayManageLeases, session } from "../session.js";
import { html } from "../ui.js";
import { Badge, Bar } from "./basics.js";
import { confirm } from "./dialogs.js";
import { Icon } from "./icons.js";
import { offeredTerms, refuseExtension } from "./lease_actions.js";

const KINDS = { forming: "provisioning", degraded: "interruption", ended: "released" };

export const GroupBadge = ({ state }) => html`<${Badge} state=${state} kind=${KINDS[state] ?? state} />`;

/** Active members of all, as words and a bar. */
export const Ready = ({ group }) => html`
  <span class="meter">
    <span class="num">${group.ready} <span class="muted">of ${group.size} ready</span></span>
    <${Bar} share=${group.ready / group.size} tone=${group.ready >= group.min_size ? "good" : "warn"} />
  </span>
`;

/** us-east-1a, p5.48xlarge, on demand */
export const poolText = (pool) => `${pool.zone ?? pool.region}, ${pool.instance_type}, ${marketName(pool.market)}`;

export const endsAlready = (group) => group.terminal || group.state === "releasing";

/** USD an hour of all members: what they are billed, or would be billed at their first choice. Null: no member is live. */
export const priceNow = ({ cost, estimate }) => cost.price_per_hour ?? estimate?.price_per_hour ?? null;

const ENDED = ["released", "failed"];

/** What a new member costs. */
function eachText({ estimate, members }) {
  const live = members.filter((one) => !ENDED.includes(one.state)).length;
  return estimate && live ? ` Each new member costs ${usd(Number(estimate.price_per_hour) / live)} an hour, with disks and address.` : "";
}

function resize(group) {
  confirm({
    title: `Scale ${group.name}`,
    text: html`<p>New members join at the next ranks. A smaller group releases its last ranks, and their VMs are deleted.${eachText(group)}</p>`,
    fields: [{ name: "size", label: "Members", inputmode: "numeric", value: String(group.size), required: true, pattern: "[0-9]{1,3}" }],
    yes: "Scale",
    request: ({ size }) => ["PATCH", `/v1/groups/${group.id}`, { size: Number(size) }],
    done: (_, { size }) => `${group.name} now has ${counted(Number(size), "member")}.`,
  });
}

function extend(group) {
  const terms = offeredTerms(group, session.get()?.me?.tenant, now());
  if (!terms.length) return refuseExtension(`Extend ${group.name}`);
  const until = (seconds) => shortTime(Date.parse(group.expires_at) + seconds * 1000);
  const added = (seconds) => (priceNow(group) === null ? "" : `, at most ${usd((Number(priceNow(group)) * seconds) / 3600)}`);
  confirm({
    title: `Extend ${group.name}`,
    text: html`<p>The last member ends ${shortTime(group.expires_at)}. All members are extended to the same time, or none.</p>`,
    fields: [{ name: "extend_by_seconds", label: "Time to add", kind: "choices", value: terms[0][0], options: terms.map(([seconds, label]) => [seconds, `${label}, until ${until(seconds)}${added(seconds)}`]) }],
    yes: "Extend",
    request: (values) => ["POST", `/v1/groups/${group.id}/extend`, values],
    done: (lasting) => `${group.name} now ends ${shortTime(lasting.expires_at)}.`,
  });
}

function release(group) {
  confirm({
    title: `Release ${group.name}?`,
    text: html`<p>All ${counted(group.size, "member")} and their VMs will be deleted. This cannot be undone.</p>`,
    yes: "Release",
    danger: true,
    request: () => ["DELETE", `/v1/groups/${group.id}`],
    done: () => `${group.name} is being released.`,
  });
}

export const GroupActions = ({ group }) =>
  mayManageLeases() && !endsAlready(group)
    ? html`
        <button type="button" onClick=${() => resize(group)}><${Icon} name="edit" />Scale</button>
        <button type="button" onClick=${() => extend(group)}><${Icon} name="clock" />Extend</button>
        <button type="button" class="danger" onClick=${() => release(group)}><${Icon} name="release" />Release</button>
      `
    : null;

export const reasonText = (group) => (group.reason ? `${words(group.reason.code)}: ${group.reason.message}` : null);
