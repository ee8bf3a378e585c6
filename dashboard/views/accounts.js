/** The cloud accounts, the state of their observation, and VMs without a lease. */
import { nudge } from "../changes.js";
import { count, fineSpan, NOTHING, providerName, span, usd, words } from "../format.js";
import { intention } from "../intentions.js";
import { useLive } from "../live.js";
import { Ago, Awaited, Badge, Copy, Empty, Head, Left, Panel, Scroll } from "../parts/basics.js";
import { CordonButton, Cordoned } from "../parts/brakes.js";
import { confirm, say } from "../parts/dialogs.js";
import { Icon } from "../parts/icons.js";
import { refined, route, to } from "../router.js";
import { html } from "../ui.js";

const KINDS = { ok: "active", unchecked: "queued", failing: "failed", failing_catalogue: "failed", disabled: "failed", draining: "releasing" };
const CAUSES = {
  ended_lease: "its lease has ended",
  other_attempt: "its lease has another VM",
  lost_row: "its lease was lost with the database",
  copied_tags: "not launched by gpulease: the tags were copied",
  leftover: "leftover resource of a VM",
};

export function Accounts() {
  const { query } = route.use();
  const open = query.get("open") === "true";
  const accounts = useLive("/v1/ops/accounts", 5);
  const orphans = useLive(`/v1/ops/orphans?limit=100${open ? "" : "&gone=true"}`, 5, { keep: true });
  const items = orphans.data?.items;
  return html`
    <${Head} title="Accounts" sub="Cloud accounts, and VMs without a lease" />
    <${Awaited} live=${accounts} rows=${5}>
      <div class="panels">${accounts.data?.items.map((one) => html`<${Account} key=${one.name} account=${one} />`)}</div>
      ${accounts.data?.items.length === 0 && html`<div class="panel"><${Empty} title="No accounts yet.">Add your cloud accounts to <code>gpulease.toml</code> and start a worker.<//></div>`}
    <//>
    <${Panel} title="Orphans" wide flush aside=${html`<a href=${refined({ open: open ? null : "true" })}>${open ? "Include terminated orphans" : "Hide terminated orphans"}</a>`}>
      <${Awaited} live=${orphans} rows=${4}>
        ${items && (items.length ? html`<${Orphans} items=${items} />` : html`<${Empty} title="No orphans.">${open ? "Every observed VM belongs to a lease." : "Every VM of the last 30 days belonged to a lease."}<//>`)}
        ${orphans.data?.next_cursor && html`<p class="note">Only the latest 100 are shown; <code>gpulease ops orphans</code> lists all.</p>`}
      <//>
    <//>
  `;
}

function Account({ account }) {
  return html`
    <section class="panel account">
      <header><h2><a href=${to("capacity", { provider: account.provider })}>${account.name}</a></h2><span class="aside"><${Badge} state=${account.state} kind=${KINDS[account.state] ?? "queued"} /></span></header>
      <p class="sub">${providerName(account.provider)}${account.identity && html` · <code>${account.identity}</code>`} · checked ${account.checked_at ? html`<${Ago} at=${account.checked_at} />` : "never"}</p>
      <${Cordoned} account=${account} />
      ${account.last_error && html`<p class="notice" data-tone="bad"><${Icon} name="warning" /><span><strong>${account.last_error.code ?? account.last_error.class}</strong> ${account.last_error.message}</span></p>`}
      <${Checks} account=${account} />
      <${Scroll} label=${`Regions of ${account.name}`}>
        <table class="groups">
          <thead><tr><th scope="col">Region</th><th scope="col" class="n">VMs</th><th scope="col" class="n">Last full listing</th><th scope="col" class="n">Duration</th></tr></thead>
          <tbody>
            ${account.regions.map(
              (one) => html`
                <tr key=${one.region}>
                  <th scope="row"><a href=${to("leases", { region: one.region })}>${one.region}</a>${one.last_error && html`<span class="under bad" title=${one.last_error.message}>${one.last_error.code ?? one.last_error.class}</span>`}${one.catalogue_error && html`<span class="under bad" title=${one.catalogue_error}>offerings cannot be read</span>`}${one.blocked && html`<span class="under bad" title=${one.blocked.message}>blocked: ${one.blocked.code ?? one.blocked.class}</span>`}${one.cordons.map((cordon) => html`<span class="under bad" title=${cordon.note}>cordoned: ${cordonedOfferings(cordon)}</span>`)}</th>
                  <td class="n">${one.listed === null ? NOTHING : count(one.listed)}</td>
                  <td class="n">${one.last_complete_listing_at ? html`<${Ago} at=${one.last_complete_listing_at} />` : "never"}</td>
                  <td class="n">${one.listing_seconds === null ? NOTHING : fineSpan(one.listing_seconds)}</td>
                </tr>
              `,
            )}
          </tbody>
        </table>
      <//>
    </section>
  `;
}

const cordonedOfferings = (cordon) =>
  [cordon.instance_type ?? "every type", cordon.zone ?? "every zone", cordon.market ?? "every market"].join(", ");

/** What the last checks of the account's rights, images, subnets and quotas found, and a button for another run. */
function Checks({ account }) {
  const checks = useLive(account.failed_checks ? checksPath(account) : null, 15);
  const failed = checks.data?.checks.filter((one) => one.result === "failed") ?? [];
  return html`
    <p class="sub">
      ${account.last_check_at ? html`Rights, images, subnets and quotas checked <${Ago} at=${account.last_check_at} />: ${account.failed_checks ? html`<strong>${account.failed_checks} failed</strong>` : "none failed"}` : "Rights, images, subnets and quotas are not checked yet"}
    </p>
    <p class="account-actions">
      <button type="button" class="ghost" aria-label=${`Check again: ${account.name}`} onClick=${() => checkAgain(account)}><${Icon} name="check" />Check again</button>
      <${CordonButton} account=${account} />
    </p>
    ${failed.length > 0 && html`<ul class="notices" aria-label=${`Failed checks of ${account.name}`}>${failed.map((one) => html`<${FailedCheck} key=${`${one.region}/${one.subject}/${one.name}`} check=${one} />`)}</ul>`}
  `;
}

const FailedCheck = ({ check }) => html`
  <li class="notice" data-tone="bad"><${Icon} name="warning" /><span><strong>${words(check.subject)} ${check.name}</strong>${check.region && ` in ${check.region}`}: ${check.detail}.<span class="under">Fix: ${check.fix}</span></span></li>
`;

const checksPath = (account) => `/v1/ops/accounts/${encodeURIComponent(account.name)}/checks`;

async function checkAgain(account) {
  try {
    await intention()(null, () => ["POST", checksPath(account)]);
    nudge();
    say(`A worker checks ${account.name} within a minute. No VM is started.`);
  } catch (error) {
    say(error.message, "bad");
  }
}

const Orphans = ({ items }) => html`
  <${Scroll} label="Orphans">
    <table class="list cards">
      <caption class="vh">Orphans</caption>
      <thead><tr><th scope="col">State</th><th scope="col">VM</th><th scope="col">Location</th><th scope="col">Cause</th><th scope="col" class="n">Age</th><th scope="col" class="n">USD/h</th><th scope="col" class="n">Compute cost</th><th scope="col" class="n">End</th><th scope="col"><span class="vh">Actions</span></th></tr></thead>
      <tbody>${items.map((one) => html`<${Orphan} key=${one.id} one=${one} />`)}</tbody>
    </table>
  <//>
`;

const STATES = { seen: "failed", ending: "releasing", gone: "released", adopted: "active" };

const Orphan = ({ one }) => html`
  <tr>
    <td data-label="State"><${Badge} state=${one.state} kind=${STATES[one.state] ?? "queued"} /></td>
    <th scope="row" data-label="VM"><${Copy} text=${one.instance_id} label="instance id" /><span class="under">${one.instance_type}</span></th>
    <td data-label="Location">${providerName(one.provider)} ${one.zone || one.region}<span class="under">account ${one.account}</span></td>
    <td data-label="Cause">${CAUSES[one.cause] ?? words(one.cause)}${one.lease_id && html`<a class="under" href=${to(`leases/${one.lease_id}`)}>${one.lease_id}</a>`}${one.adopt_error && html`<span class="under bad">${one.adopt_error}</span>`}${one.end_error && html`<span class="under bad">cannot be ended: ${one.end_error.code ?? one.end_error.class}</span>`}</td>
    <td data-label="Age" class="n">${span(one.age_seconds)}</td>
    <td data-label="USD/h" class="n">${one.price_per_hour === null ? NOTHING : usd(one.price_per_hour)}</td>
    <td data-label="Compute cost" class="n">${one.cost === null ? NOTHING : usd(one.cost)}</td>
    <td data-label="End" class="n">${one.gone_at ? html`<${Ago} at=${one.gone_at} />` : one.end_after ? html`<${Left} at=${one.end_after} over="next cycle" soon=${0} />` : "by an operator"}</td>
    <td class="do">${one.state === "seen" && html`<button type="button" class="ghost" aria-label=${`End now ${one.instance_id}`} onClick=${() => end(one)}><${Icon} name="release" />End now</button>`}</td>
  </tr>
`;

function end(orphan) {
  confirm({
    title: `End ${orphan.instance_id}?`,
    text: html`<p>This VM belongs to no lease (${orphan.instance_type}, ${providerName(orphan.provider)} ${orphan.region}). The next cycle of
      garbage collection ends it, and its disk is deleted. This cannot be undone.</p>`,
    yes: "End the VM",
    danger: true,
    request: () => ["POST", `/v1/ops/orphans/${orphan.id}/end`],
    done: () => `${orphan.instance_id} will be ended in the next cycle.`,
  });
}
