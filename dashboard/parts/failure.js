/** Why a lease failed or ended early, what was tried, and what to change in the next request. */
import { counted, providerName, words } from "../format.js";
import { html } from "../ui.js";
import { Icon } from "./icons.js";

const OTHERS = "Allow more regions or clouds, another GPU model, or the market any.";
const ADVICE = {
  budget_exceeded: "Release a lease, request a shorter or cheaper one, or ask for a higher budget.",
  quota_exceeded: "Release a lease, request fewer GPUs, or ask an operator for a higher quota.",
  capacity_exhausted: `Let the next lease wait for capacity. ${OTHERS}`,
  price_cap: "Raise or remove the maximum price per hour, or request another quote.",
  provider_quota: `An operator must raise the quota at the provider. ${OTHERS}`,
  provider_auth: "An operator must repair the credentials of the cloud account.",
  provider_error: `Try again in a few minutes. ${OTHERS}`,
  launch_timeout: `Try again. ${OTHERS}`,
  boot_timeout: "Read the console output below. Check the start-up script and the image.",
  request_too_long: "Let the start-up script fetch a part of itself, or give the lease fewer SSH keys.",
  image_missing: "Choose another image or region, or ask an operator to configure the image.",
  region_not_listed: "Try again in a minute: gpulease has not listed this region yet.",
  interrupted: "Use the market on demand, or replace the VM on interruption, and store checkpoints.",
  instance_lost: "Create the lease again. The VM was deleted outside gpulease.",
  tenant_suspended: "Ask an operator why the tenant is suspended.",
  spend_cap: "Raise the spend cap, or choose a cheaper offering.",
  gpu_check_failed: `The GPUs of every VM failed the check. Try again later. ${OTHERS}`,
  gpu_failed: "Replace the VM on GPU failure, and store checkpoints.",
  idle: "Keep a lease that you still need, or request a longer idle time.",
  group_pool_failed: "Wait: the group tries another pool.",
  group_incomplete: "Create a new group, or grow this one later.",
  group_member_lost: "Create the group again, with replacement on member loss or a smaller minimum size.",
  reservation_ended: "Choose the market reserved first, so that the lease does not depend on one reservation.",
};

/** A notice for a lease that has a reason: the cause, the errors of its attempts in groups, and advice. */
export function Failure({ lease, attempts }) {
  const { reason } = lease;
  const groups = lease.state === "failed" ? errorGroups(attempts ?? []) : [];
  const advice = lease.terminal && ADVICE[reason.code];
  return html`
    <section class="notice" data-tone=${lease.state === "failed" ? "bad" : "plain"} aria-label="Reason"><${Icon} name="warning" />
      <div class="reason">
        <p><strong>${words(reason.code)}</strong>: ${reason.message} <span class="by">Caused by ${reason.origin}.</span></p>
        ${lease.provider_message && html`<p class="under">Provider error (operators only): ${lease.provider_message}</p>`}
        ${groups.length > 0 && html`<ul class="lines" aria-label="Errors of the attempts">${groups.map((group) => html`<${Group} key=${group.key} group=${group} />`)}</ul>`}
        ${advice && html`<p><strong>What to try</strong>: ${advice}</p>`}
      </div>
    </section>
  `;
}

const Group = ({ group: { code, message, places } }) => html`
  <li><span><code>${code}</code> ${message}</span><span class="muted">${counted(places.length, "attempt")}: ${[...new Set(places)].join("; ")}</span></li>
`;

/** Attempts with the same error, the most frequent error first. */
function errorGroups(attempts) {
  const found = new Map();
  for (const { error, offering } of attempts) {
    if (!error) continue;
    const code = error.code ?? error.class;
    const message = error.provider_message ?? error.message;
    const key = `${code} ${error.message}`;
    if (!found.has(key)) found.set(key, { key, code, message, places: [] });
    found.get(key).places.push(`${offering.instance_type} in ${providerName(offering.provider)} ${offering.zone || offering.region}`);
  }
  return [...found.values()].sort((a, b) => b.places.length - a.places.length);
}
