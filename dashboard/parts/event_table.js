/** A table of events, in the order given. */
import { fullTime, listedTime, NOTHING, usd, words, zone } from "../format.js";
import { to } from "../router.js";
import { html } from "../ui.js";
import { Scroll } from "./basics.js";
import { viaText } from "./gpu_health.js";

/** The part of an event's data that a reader needs. */
function details(data) {
  const parts = [];
  if (data.offering?.instance_type) parts.push(`${data.offering.instance_type} in ${data.offering.zone ?? data.offering.region}`);
  if (data.instance_id) parts.push(data.instance_id);
  if (data.error) parts.push(data.error.code ?? data.error.class, data.error.message);
  if (data.reason) parts.push(words(data.reason.code ?? data.reason), data.reason.message);
  if (data.previous_price_per_hour) parts.push(`${usd(data.previous_price_per_hour)} to ${usd(data.price_per_hour)} an hour`);
  if (data.max_cost && data.accrued) parts.push(`${usd(data.accrued)} of ${usd(data.max_cost)}`);
  if (data.threshold) parts.push(`${data.threshold} % of ${usd(data.amount)}, ${usd(data.spent)} spent`, data.label ?? data.key_id);
  if (data.expires_at) parts.push(`until ${fullTime(data.expires_at)}`);
  if (data.deadline_at) parts.push(`at ${fullTime(data.deadline_at)}`);
  if (data.status) parts.push(words(data.status), data.via && viaText(data.via));
  if (data.findings?.length) parts.push(data.findings.map((finding) => finding.message ?? words(finding.code)).join("; "));
  if (data.idle_since) parts.push(`idle since ${fullTime(data.idle_since)}`);
  if (data.ends_at) parts.push(`ends ${fullTime(data.ends_at)}`);
  if (data.keep_until) parts.push(`until ${fullTime(data.keep_until)}`);
  if (data.name) parts.push(data.name);
  return parts.filter(Boolean).join(" · ");
}

/** `lease` and `tenants`: with a column for the lease, and the tenant's name below where `tenants` has it. */
export const EventTable = ({ items, lease = false, tenants = null }) => html`
  <${Scroll} label="Events">
    <table class="list cards">
      <thead><tr><th scope="col" class="n">No.</th><th scope="col" class="n">Time, ${zone()}</th><th scope="col">Event</th>${lease && html`<th scope="col">Lease</th>`}<th scope="col">Details</th></tr></thead>
      <tbody>
        ${items.map(
          (one) => html`
            <tr key=${one.id}>
              <td data-label="No." class="n">${lease ? one.sequence : one.lease_sequence}</td>
              <td data-label="Time" class="n"><time datetime=${one.created_at} title=${fullTime(one.created_at)}>${listedTime(one.created_at)}</time></td>
              <th scope="row" data-label="Event"><span class="event" data-kind=${one.type.replace(/^\w+\./, "")}>${words(one.type.replace(".", " "))}</span></th>
              ${lease && html`<td data-label="Lease">${one.lease_id ? html`<a class="id" href=${to(`leases/${one.lease_id}`)}>${one.lease_id}</a>` : NOTHING}${tenants?.has(one.tenant_id) && html`<span class="under">${tenants.get(one.tenant_id)}</span>`}</td>`}
              <td data-label="Details" class="said">${details(one.data) || NOTHING}</td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  <//>
`;
