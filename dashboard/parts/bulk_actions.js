/** Releases or extends several leases of the list. Each is a request of its own: some may fail while others succeed. */
import { nudge } from "../changes.js";
import { now } from "../clock.js";
import { counted, usd, words } from "../format.js";
import { intention } from "../intentions.js";
import { session } from "../session.js";
import { html } from "../ui.js";
import { confirm } from "./dialogs.js";
import { Icon } from "./icons.js";
import { mostToAdd, nameOf, termsUpTo } from "./lease_actions.js";

/** What the leases cost in an hour together; those without a VM cost nothing. */
export const ratesOf = (leases) => leases.reduce((sum, lease) => sum + Number(lease.cost.price_per_hour ?? 0), 0);

const ACTIONS = {
  release: { past: "released", result: "being released", button: "Release", request: (lease) => ["DELETE", `/v1/leases/${lease.id}`] },
  extend: { past: "extended", result: "extended", button: "Extend", request: (lease, values) => ["POST", `/v1/leases/${lease.id}/extend`, values] },
};

/**
 * Sends the request of each lease, one after the other. Raises an Error that names those that failed. The next call with
 * the same values leaves out those that succeeded.
 */
function sender(action, leases) {
  const sends = new Map(leases.map((lease) => [lease, intention()]));
  const finished = new Set();
  return async (values) => {
    const failures = [];
    for (const [lease, send] of sends) {
      const key = `${lease.id} ${JSON.stringify(values)}`;
      if (finished.has(key)) continue;
      await send(values, () => ACTIONS[action].request(lease, values)).then(
        () => finished.add(key),
        (problem) => failures.push(`${nameOf(lease)}: ${problem.message}`),
      );
    }
    nudge();
    const { past, result, button } = ACTIONS[action];
    if (failures.length) throw new Error(`${counted(failures.length, "lease")} of ${leases.length} failed, the others were ${past}. ${failures.join(" ")} Press ${button} to try these again.`);
    return `${counted(leases.length, "lease")} ${leases.length === 1 ? "is" : "are"} ${result}.`;
  };
}

/** Opens the dialog for those of `leases` that allow the action. */
function ask(action, leases, text, fields = []) {
  const rule = (lease) => lease.actions[action];
  const able = leases.filter((lease) => rule(lease).available);
  const others = leases.filter((lease) => !rule(lease).available);
  const { past, button } = ACTIONS[action];
  const names = html`
    <ul class="names" tabindex="0" aria-label="Leases">${able.map((lease) => html`<li key=${lease.id}>${nameOf(lease)} <span class="muted num">${usd(lease.cost.price_per_hour ?? 0)}/h</span></li>`)}</ul>
    ${others.length > 0 && html`<p>Not ${past}: ${others.map((lease) => `${nameOf(lease)} (${words(rule(lease).reason_code)})`).join(", ")}.</p>`}
  `;
  if (!able.length) return confirm({ title: `No lease can be ${past}`, text: names, yes: "Close", cancel: false, act: async () => null });
  return confirm({
    title: `${button} ${counted(able.length, "lease")}?`,
    text: html`<p>${text(able)}</p>${names}`,
    fields: fields.map((field) => field(able)),
    yes: button,
    danger: action === "release",
    act: sender(action, able),
  });
}

const release = (leases) => ask("release", leases, (able) => `Together they cost ${usd(ratesOf(able))} an hour. Their VMs and disks will be deleted. This cannot be undone.`);

const term = (terms) => (leases) => ({
  name: "extend_by_seconds",
  label: "Time to add to each",
  kind: "choices",
  value: terms[0][0],
  options: terms.map(([seconds, label]) => [seconds, `${label}, adds at most ${usd((ratesOf(leases) * seconds) / 3600)}`]),
});

/** Offers what each of the leases accepts. */
function extend(leases) {
  const limits = session.get()?.me?.tenant;
  const able = leases.filter((lease) => lease.actions.extend.available);
  const most = able.map((lease) => [lease, mostToAdd(lease, limits, now())]);
  const terms = termsUpTo(Math.min(...most.map(([, seconds]) => seconds)));
  if (terms.length) return ask("extend", leases, (some) => `Together they cost ${usd(ratesOf(some))} an hour.`, [term(terms)]);
  const full = most.filter(([, seconds]) => !termsUpTo(seconds).length).map(([lease]) => nameOf(lease));
  const text = html`<p>As long as your tenant's limits allow already: ${full.join(", ")}. Choose leases without these.</p>`;
  return confirm({ title: "No time fits all chosen leases", text, yes: "Close", cancel: false, act: async () => null });
}

/** The bar above the list while leases are chosen. `clear()` chooses none. */
export const BulkActions = ({ leases, clear }) => html`
  <div class="bulk" role="region" aria-label="Chosen leases">
    <span class="strong num" role="status">${counted(leases.length, "lease")} chosen, ${usd(ratesOf(leases))}/h</span>
    <button type="button" onClick=${() => extend(leases)}><${Icon} name="clock" />Extend chosen</button>
    <button type="button" onClick=${() => release(leases)}><${Icon} name="release" />Release chosen</button>
    <button type="button" class="ghost" onClick=${clear}><${Icon} name="close" />Choose none</button>
  </div>
`;
