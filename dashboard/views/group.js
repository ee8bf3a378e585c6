/** One group: how it forms, the pools that it tried, its members by rank, and its events. */
import { counted, gpuCount, NOTHING, shortTime, span, usd, words } from "../format.js";
import { useNow } from "../clock.js";
import { useLive } from "../live.js";
import { Accrued, Ago, Awaited, Badge, Copy, Empty, Facts, Head, Left, Panel, Scroll } from "../parts/basics.js";
import { EventTable } from "../parts/event_table.js";
import { endsAlready, GroupActions, GroupBadge, poolText, priceNow, Ready, reasonText } from "../parts/groups.js";
import { Icon } from "../parts/icons.js";
import { to } from "../router.js";
import { useSubject } from "../title.js";
import { html } from "../ui.js";
import { useTenantNames } from "./leases.js";

export function Group({ me, id }) {
  const path = `/v1/groups/${encodeURIComponent(id)}`;
  const group = useLive(path, 2);
  const events = useLive(`${path}/events?limit=200`, 3, { all: true });
  const tenants = useTenantNames(me.role === "operator");
  const data = group.data;
  useSubject(data ? data.name : id);
  if (!data && group.error?.status === 404) return html`<${Head} title="Group not found" sub=${id} /><div class="panel"><${Empty} title="No group has this id.">It may belong to another tenant. See <a href=${to("groups", { state: "any" })}>all groups</a>.<//></div>`;
  if (!data) return html`<${Head} title="Group" sub=${id} /><${Awaited} live=${group} rows=${8} />`;
  return html`
    <p class="crumbs"><a href=${to("groups")}>Groups</a> <span aria-hidden="true">/</span> ${data.name}</p>
    <${Head} title=${data.name} sub=${html`<${GroupBadge} state=${data.state} /> <${Copy} text=${data.id} label="id" />`}><${GroupActions} group=${data} /><//>
    ${data.reason && html`<p class="notice" data-tone=${data.state === "degraded" ? "warn" : "bad"} role="status"><${Icon} name="warning" /><span>${reasonText(data)}</span></p>`}
    <div class="panels two">
      <${Panel} title="Formation"><${Formation} group=${data} /><//>
      <${Panel} title="Request"><${Asked} group=${data} tenant=${tenants.get(data.tenant_id)} /><//>
    </div>
    <${Panel} title="Members" aside=${data.members.length} wide flush><${Members} items=${data.members} /><//>
    ${data.pools_tried.length > 0 && html`<${Panel} title="Pools tried" aside=${data.pools_tried.length} wide flush><${Tried} pools=${data.pools_tried} /><//>`}
    <${Panel} title="Events" aside=${events.data?.items.length} wide flush>
      <${Awaited} live=${events} rows=${3}>${events.data && html`<${EventTable} items=${[...events.data.items].reverse()} />`}<//>
    <//>
  `;
}

/** While the group forms: how long its members still have in the pool. */
function Formation({ group }) {
  const now = useNow();
  const spent = group.pool_started_at && group.state === "forming" ? Math.max(0, (now - Date.parse(group.pool_started_at)) / 1000) : null;
  return html`
    <${Facts} rows=${[
      ["Ready", html`<${Ready} group=${group} />`],
      ["Pool", group.pool ? poolText(group.pool) : group.state === "queued" ? `none yet; tried until ${shortTime(group.wait_until)}` : NOTHING],
      group.pool && ["Account", group.pool.account],
      spent !== null && ["In this pool", `${span(spent)} of ${span(group.form_seconds)}`],
      ["Cost", html`<span class="strong"><${Accrued} cost=${group.cost} /></span>`],
      priceNow(group) !== null && ["Price", `${usd(priceNow(group))} an hour for all members`],
      group.estimate && ["Estimate", `${usd(group.estimate.price_for_term)} for the term of all members`],
      group.formed_at && ["Formed", html`<${Ago} at=${group.formed_at} />`],
      !endsAlready(group) && group.expires_at && ["Ends in", html`<${Left} at=${group.expires_at} />`],
      group.ended_at && ["Ended", html`<${Ago} at=${group.ended_at} />`],
    ]} />
  `;
}

const Asked = ({ group, tenant }) => html`
  <${Facts} rows=${[
    ["Tenant", tenant ? html`<a href=${to(`tenants/${group.tenant_id}`)}>${tenant}</a>` : "yours"],
    ["Members", `${group.size}, at least ${group.min_size}`],
    ["Each", group.lease.gpu ? gpuCount(group.lease.gpu) : group.lease.instance_types.join(", ")],
    ["Placement", words(group.placement)],
    ["Network fabric", words(group.interconnect)],
    ["Time to form", span(group.form_seconds)],
    ["On member loss", words(group.on_member_loss)],
    ["Leases", html`<a href=${to("leases", { group_id: group.id, state: "any" })}>${counted(group.size, "lease")}</a>`],
  ]} />
`;

const Members = ({ items }) => html`
  <${Scroll} label="Members">
    <table class="list cards">
      <caption class="vh">Members by rank</caption>
      <thead><tr><th scope="col" class="n">Rank</th><th scope="col">Lease</th><th scope="col">State</th><th scope="col">Public IP</th><th scope="col">Private IP</th><th scope="col">Zone</th><th scope="col">Network</th><th scope="col" class="n">GPUs</th></tr></thead>
      <tbody>
        ${items.map((one) => html`
          <tr key=${one.lease_id}>
            <td data-label="Rank" class="n">${one.rank}</td>
            <th scope="row" data-label="Lease"><a href=${to(`leases/${one.lease_id}`)}>${one.name}</a></th>
            <td data-label="State"><${Badge} state=${one.state} />${one.reason && html`<span class="under" title=${one.reason.message}>${words(one.reason.code)}</span>`}</td>
            <td data-label="Public IP">${one.public_ip ?? NOTHING}</td>
            <td data-label="Private IP">${one.private_ip ?? NOTHING}</td>
            <td data-label="Zone">${one.zone ?? NOTHING}</td>
            <td data-label="Network"><${Check} check=${one.check} /></td>
            <td data-label="GPUs" class="n">${one.gpus ?? NOTHING}</td>
          </tr>
        `)}
      </tbody>
    </table>
  <//>
`;

/** What the member's VM found: whether it reaches the others, and how fast the GPUs of the group exchange data. */
function Check({ check }) {
  if (!check) return NOTHING;
  const lost = check.unreachable.length;
  const mesh = check.mesh === "ok" ? "ok" : `${counted(lost, "member")} missing`;
  const reduced = check.all_reduce_gbps ? `${Math.round(check.all_reduce_gbps)} GB/s` : check.all_reduce === "failed" ? "all-reduce failed" : "";
  return html`<span title=${shortTime(check.checked_at)}>${mesh}</span>${reduced && html`<span class="under">${reduced}</span>`}`;
}

const Tried = ({ pools }) => html`
  <${Scroll} label="Pools tried">
    <table class="list cards">
      <caption class="vh">Pools that did not form the group</caption>
      <thead><tr><th scope="col">Pool</th><th scope="col">Account</th><th scope="col" class="n">Given up</th></tr></thead>
      <tbody>${pools.map((pool, n) => html`<tr key=${n}><th scope="row" data-label="Pool">${poolText(pool)}</th><td data-label="Account">${pool.account}</td><td data-label="Given up" class="n"><${Ago} at=${pool.failed_at} /></td></tr>`)}</tbody>
    </table>
  <//>
`;
