/** One lease: where it is and why, how to reach it, what was tried, what happened, what it costs. */
import { fullTime, gpuCount, gpuText, marketName, NOTHING, providerName, span, timeOfDay, usd, words } from "../format.js";
import { useNow } from "../clock.js";
import { useLive } from "../live.js";
import { Accrued, Ago, Awaited, Badge, Copy, Empty, Facts, Head, Left, Panel, Scroll } from "../parts/basics.js";
import { Explanation } from "../parts/explanation.js";
import { Icon } from "../parts/icons.js";
import { LeaseActions, nameOf } from "../parts/lease_actions.js";
import { to } from "../router.js";
import { html, useMemo } from "../ui.js";
import { useTenantNames } from "./leases.js";

const STAGES = ["queued", "provisioning", "booting", "active", "releasing", "released", "failed"];

export function Lease({ me, id }) {
  const path = `/v1/leases/${encodeURIComponent(id)}`;
  const lease = useLive(path, 2);
  const attempts = useLive(`${path}/attempts?limit=200`, 4, { all: true });
  const events = useLive(`${path}/events?limit=200`, 3, { all: true });
  const tenants = useTenantNames(me.role === "operator");
  const data = lease.data;
  if (!data) return html`<${Head} title="Lease" sub=${id} /><${Awaited} live=${lease} rows=${10} />`;
  return html`
    <p class="crumbs"><a href=${to("leases")}>Leases</a> <span aria-hidden="true">/</span> ${nameOf(data)}</p>
    <${Head} title=${nameOf(data)} sub=${html`<${Badge} state=${data.state} /> <${Copy} text=${data.id} label="id" />`}>
      ${!data.terminal && html`<${LeaseActions} lease=${data} large />`}
    <//>
    <${Notices} lease=${data} />
    <${Timeline} lease=${data} events=${events.data?.items} />
    <${Explanation} lease=${data} />
    <div class="panels two">
      <${Panel} title="Where"><${Where} lease=${data} tenant=${tenants.get(data.tenant_id)} /><//>
      <${Panel} title="Connection"><${Connection} lease=${data} /><//>
      <${Panel} title="Cost and term"><${Cost} lease=${data} /><//>
      <${Panel} title="Request"><${Asked} request=${data.request} labels=${data.labels} /><//>
    </div>
    <${Panel} title="Attempts" aside=${attempts.data?.items.length} wide flush>
      <${Awaited} live=${attempts} rows=${2}>${attempts.data && html`<${Attempts} items=${attempts.data.items} />`}<//>
    <//>
    <${Panel} title="Events" aside=${events.data?.items.length} wide flush>
      <${Awaited} live=${events} rows=${4}>${events.data && html`<${Events} items=${events.data.items} />`}<//>
    <//>
  `;
}

function Notices({ lease }) {
  const { interruption, reason } = lease;
  return html`
    ${interruption &&
    !lease.terminal &&
    html`
      <p class="notice" data-tone="bad" role="status"><${Icon} name="warning" />
        <span><strong>The provider interrupts this VM</strong>${interruption.deadline_at && html` in <${Left} at=${interruption.deadline_at} over="a moment" />`}${interruption.action && ` (${interruption.action})`}. ${lease.request.on_interruption === "replace" ? "It will be replaced." : "The lease will end."}</span>
      </p>
    `}
    ${reason &&
    html`
      <p class="notice" data-tone=${lease.state === "failed" ? "bad" : "plain"}><${Icon} name="warning" />
        <span><strong>${words(reason.code)}</strong>: ${reason.message} <span class="by">By ${reason.origin}${reason.retryable ? "; the same request may succeed later" : ""}.</span>
          ${lease.provider_message && html`<span class="under">Provider message (operators only): ${lease.provider_message}</span>`}</span>
      </p>
    `}
  `;
}

/** Stretches of time in one state each, from the events; the last one lasts until now or the end. */
function stages(lease, events) {
  const found = [];
  for (const event of events ?? []) {
    const state = event.type.replace("lease.", "");
    if (STAGES.includes(state) && found.at(-1)?.state !== state) found.push({ state, from: Date.parse(event.created_at) });
  }
  if (!found.length) found.push({ state: lease.state, from: Date.parse(lease.created_at) });
  return found;
}

function Timeline({ lease, events }) {
  const all = useMemo(() => stages(lease, events), [lease, events]);
  const now = useNow();
  const lasting = all.filter((one) => one.state !== "released" && one.state !== "failed");
  const end = lease.ended_at ? Date.parse(lease.ended_at) : now;
  const seconds = lasting.map((one, n) => Math.max(0, ((lasting[n + 1]?.from ?? end) - one.from) / 1000));
  return html`
    <section class="panel wide">
      <header><h2>Timeline</h2><span class="aside">${lease.terminal ? `ended ${fullTime(lease.ended_at)}` : html`ends in <${Left} at=${lease.expires_at} />`}</span></header>
      <ol class="timeline">
        ${lasting.map(
          (one, n) => html`
            <li key=${one.from} data-kind=${one.state} style=${{ flexGrow: Math.log2(seconds[n] + 2) }} aria-current=${!lease.terminal && n === lasting.length - 1 ? "step" : null}>
              <i aria-hidden="true"></i><${Badge} state=${one.state} /><span class="num">${span(seconds[n])}</span><span class="num muted">${timeOfDay(one.from)}</span>
            </li>
          `,
        )}
        ${lease.terminal && html`<li class="last" data-kind=${lease.state}><i aria-hidden="true"></i><${Badge} state=${lease.state} /><span class="num muted">${timeOfDay(lease.ended_at)}</span></li>`}
      </ol>
    </section>
  `;
}

function Where({ lease, tenant }) {
  const place = lease.placement;
  const whose = ["Tenant", html`<a href=${to("leases", { tenant_id: lease.tenant_id })}>${tenant ?? "this one"}</a>`];
  if (!place) return html`<${Empty} title="No VM yet.">The lease waits for capacity until ${timeOfDay(lease.wait_until)}.<//><${Facts} rows=${[whose]} />`;
  return html`
    <${Facts} rows=${[
      whose,
      ["GPUs", `${gpuText(lease)}, ${place.gpu.memory_gib} GiB each${place.gpu.interconnect ? `, ${place.gpu.interconnect}` : ""}`],
      ["Cloud", `${providerName(place.provider)}, account ${place.account}`],
      ["Zone", html`<a href=${to("capacity", { provider: place.provider, region: place.region, instance_type: place.instance_type })}>${place.zone}</a>`],
      ["Machine", `${place.instance_type}, ${place.vcpus} vCPUs, ${place.memory_gib} GiB`],
      ["Market", marketName(place.market)],
      ["Instance", place.instance_id && html`<${Copy} text=${place.instance_id} label="instance id" />`],
      ["Image", place.image?.name ?? place.image?.id],
      ["Last seen", lease.last_observed_at && html`<${Ago} at=${lease.last_observed_at} />`],
    ]} />
  `;
}

function Connection({ lease }) {
  const reach = lease.connection;
  if (!reach || lease.terminal) return html`<${Empty} title=${lease.terminal ? "The VM was deleted." : "Not reachable yet."}>${!lease.terminal && "The address appears when the VM runs."}<//>`;
  return html`
    <${Facts} rows=${[
      ["SSH", reach.ssh_command && html`<${Copy} text=${reach.ssh_command} label="SSH command" />`],
      ["Public IP", reach.public_ip && html`<${Copy} text=${reach.public_ip} label="public IP" />`],
      ["Private IP", reach.private_ip && html`<${Copy} text=${reach.private_ip} label="private IP" />`],
      ["User", reach.ssh_user],
      ["SSH host keys", reach.ssh_host_keys?.length ? html`<span class="stacked">${reach.ssh_host_keys.map((key) => html`<${Copy} key=${key} text=${key} short=${key.slice(0, 34)} label="host key" />`)}</span>` : "not reported"],
    ]} />
  `;
}

const Cost = ({ lease }) => html`
  <${Facts} rows=${[
    ["Cost so far", html`<span class="strong"><${Accrued} cost=${lease.cost} /></span>`],
    ["Rate", lease.cost.rate_per_hour === null ? "not billed now" : `${usd(lease.cost.rate_per_hour)} an hour`],
    ["Created", html`<${Ago} at=${lease.created_at} />`],
    ["Ready after", lease.ready_at ? span((Date.parse(lease.ready_at) - Date.parse(lease.created_at)) / 1000) : null],
    lease.terminal ? ["Ended", html`<${Ago} at=${lease.ended_at} />`] : ["Time left", html`<${Left} at=${lease.expires_at} />`],
    ["Ends", fullTime(lease.expires_at)],
  ]} />
`;

const list = (values) => (values?.length ? values.join(", ") : "any");

const Asked = ({ request, labels }) => html`
  <${Facts} rows=${[
    ["GPUs", request.gpu ? `${gpuCount(request.gpu)} × ${request.gpu.model}${request.gpu.memory_gib ? `, ${request.gpu.memory_gib} GiB or more` : ""}` : list(request.instance_types)],
    ["Market", marketName(request.market)],
    ["Clouds", list(request.providers?.map(providerName))],
    ["Regions", list(request.regions)],
    ["Max price", request.max_price_per_hour ? `${usd(request.max_price_per_hour)} an hour` : "none"],
    ["Term", span(request.ttl_seconds)],
    ["On interruption", request.on_interruption],
    ["Labels", Object.keys(labels).length ? html`<span class="labels">${Object.entries(labels).map(([key, value]) => html`<a key=${key} href=${to("leases", { label: `${key}:${value}` })}>${key}: ${value}</a>`)}</span>` : "none"],
  ]} />
`;

const OUTCOMES = { pending: "provisioning", unknown: "releasing", launched: "active", refused: "failed", not_created: "released", ended: "released" };

function Attempts({ items }) {
  if (!items.length) return html`<${Empty} title="No attempts yet.">A worker starts the first attempt within two seconds.<//>`;
  return html`
    <${Scroll} label="Attempts">
      <table class="list cards">
        <thead><tr><th scope="col" class="n">No.</th><th scope="col">Outcome</th><th scope="col">Offering</th><th scope="col">Provider error</th><th scope="col" class="n">USD/h</th><th scope="col" class="n">Cost</th><th scope="col" class="n">Began</th><th scope="col" class="n">Took</th></tr></thead>
        <tbody>
          ${[...items].reverse().map(
            (one) => html`
              <tr key=${one.id}>
                <td data-label="No." class="n">${one.n}</td>
                <td data-label="Outcome"><${Badge} state=${one.outcome} kind=${OUTCOMES[one.outcome] ?? "released"} /></td>
                <th scope="row" data-label="Offering">${one.offering.instance_type}<span class="under">${providerName(one.offering.provider)} ${one.offering.zone}, ${marketName(one.offering.market)}</span></th>
                <td data-label="Provider" class="said">${one.error ? html`<code>${one.error.code ?? one.error.class}</code><span class="under">${one.error.provider_message ?? one.error.message}</span>` : NOTHING}</td>
                <td data-label="USD/h" class="n">${usd(one.offering.price_per_hour)}</td>
                <td data-label="Cost" class="n">${usd(one.cost)}</td>
                <td data-label="Began" class="n"><time datetime=${one.started_at} title=${fullTime(one.started_at)}>${timeOfDay(one.started_at)}</time></td>
                <td data-label="Took" class="n">${one.ended_at ? span((Date.parse(one.ended_at) - Date.parse(one.started_at)) / 1000) : html`<${Ago} at=${one.started_at} suffix="" />`}</td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    <//>
  `;
}

/** The telling part of an event's data. */
function told(data) {
  const parts = [];
  if (data.offering?.instance_type) parts.push(`${data.offering.instance_type} in ${data.offering.zone ?? data.offering.region}`);
  if (data.instance_id) parts.push(data.instance_id);
  if (data.error) parts.push(data.error.code ?? data.error.class, data.error.message);
  if (data.reason) parts.push(words(data.reason.code ?? data.reason), data.reason.message);
  if (data.expires_at) parts.push(`until ${fullTime(data.expires_at)}`);
  if (data.deadline_at) parts.push(`at ${timeOfDay(data.deadline_at)}`);
  if (data.name) parts.push(data.name);
  return parts.filter(Boolean).join(" · ");
}

const Events = ({ items }) => html`
  <${Scroll} label="Events">
    <table class="list cards">
      <thead><tr><th scope="col" class="n">No.</th><th scope="col" class="n">When</th><th scope="col">What</th><th scope="col">More</th></tr></thead>
      <tbody>
        ${[...items].reverse().map(
          (one) => html`
            <tr key=${one.id}>
              <td data-label="No." class="n">${one.lease_sequence}</td>
              <td data-label="When" class="n"><time datetime=${one.created_at} title=${fullTime(one.created_at)}>${timeOfDay(one.created_at)}</time></td>
              <th scope="row" data-label="What"><span class="event" data-kind=${one.type.replace(/^\w+\./, "")}>${words(one.type.replace(".", " "))}</span></th>
              <td data-label="More" class="said">${told(one.data) || NOTHING}</td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  <//>
`;
