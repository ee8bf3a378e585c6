/** Leases that stay in a state for too long, and what that means. */
import { count, NOTHING, words } from "../format.js";
import { useLive } from "../live.js";
import { Ago, Awaited, Badge, Empty, Head, Scroll } from "../parts/basics.js";
import { to } from "../router.js";
import { html } from "../ui.js";
import { useTenantNames } from "./leases.js";

const MEANING = {
  releasing: ["releasing", "The provider has not confirmed that the VM was deleted. gpulease retries; check the account's errors."],
  settling: ["queued", "A create of unknown outcome. gpulease searches until it is certain that no VM exists. Usually no action is needed."],
  provisioning: ["provisioning", "The VM did not start in time. gpulease tries the next candidate."],
  booting: ["booting", "The VM runs but does not become ready. gpulease ends it; check its console output."],
  deadline: ["releasing", "The lease was extended, but the VM's tag still has the old deadline. The dead-man switch would end the VM too early."],
  samples: ["queued", "Hours of GPU samples could not be summed up and were left out. The lease itself runs on."],
};

export function Stuck() {
  const summary = useLive("/v1/ops/summary", 5);
  const tenants = useTenantNames(true);
  const items = summary.data?.stuck;
  return html`
    <${Head} title="Stuck" sub="Leases that need attention, longest stuck first" />
    <${Awaited} live=${summary} rows=${6}>
      ${items && (items.length ? html`<${Table} items=${items} tenants=${tenants} />` : html`<div class="panel"><${Empty} title="No lease is stuck.">A lease that takes too long to start, boot or end appears here automatically.<//></div>`)}
    <//>
  `;
}

const Table = ({ items, tenants }) => html`
  <div class="panel flush">
    <${Scroll} label="Stuck leases">
      <table class="list cards">
        <caption class="vh">Stuck leases</caption>
        <thead><tr><th scope="col">Problem</th><th scope="col">Lease</th><th scope="col">Tenant</th><th scope="col">Location</th><th scope="col" class="n">For</th><th scope="col">Meaning</th></tr></thead>
        <tbody>
          ${items.map((one) => {
            const [kind, meaning] = MEANING[one.kind] ?? ["queued", ""];
            return html`
              <tr key=${one.kind + one.lease_id}>
                <td data-label="Problem"><${Badge} state=${one.kind} kind=${kind} /></td>
                <th scope="row" data-label="Lease"><a href=${to(`leases/${one.lease_id}`)}>${one.lease_id}</a><span class="under">${words(one.state)}</span></th>
                <td data-label="Tenant"><a class="quiet" href=${to("leases", { tenant_id: one.tenant_id })}>${tenants.get(one.tenant_id) ?? NOTHING}</a></td>
                <td data-label="Location">${one.region ? html`${one.account} ${one.region}` : NOTHING}</td>
                <td data-label="For" class="n"><${Ago} at=${one.since} suffix="" /></td>
                <td data-label="Meaning" class="said">${meaning}${one.kind === "releasing" && one.reason && html`<span class="under">${one.reason}</span>`}</td>
              </tr>
            `;
          })}
        </tbody>
      </table>
    <//>
    <p class="note pad">${count(items.length)}${items.length === 100 ? " or more" : ""} total.</p>
  </div>
`;
