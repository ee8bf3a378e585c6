/** One lease: state and reason, location, connection, attempts, events and cost. */
import { fullTime, gpuCount, gpuText, marketName, NOTHING, providerName, shortTime, span, timeOfDay, usd, words, zone } from "../format.js";
import { useNow } from "../clock.js";
import { useLive } from "../live.js";
import { Ago, Awaited, Badge, Copy, Empty, Facts, Head, Left, Panel, Scroll } from "../parts/basics.js";
import { Boot } from "../parts/boot.js";
import { EventTable } from "../parts/event_table.js";
import { Explanation } from "../parts/explanation.js";
import { Failure } from "../parts/failure.js";
import { GpuCharts } from "../parts/gpu_charts.js";
import { Findings, GpuHealth } from "../parts/gpu_health.js";
import { Icon } from "../parts/icons.js";
import { LeaseActions, nameOf } from "../parts/lease_actions.js";
import { LeaseCost } from "../parts/lease_cost.js";
import { IDLE_ACTIONS, ON_GPU_FAILURE, PROOFS, volumeText } from "../parts/lease_request.js";
import { to } from "../router.js";
import { mayManageLeases } from "../session.js";
import { useSubject } from "../title.js";
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
  const findings = useMemo(() => findingsByAttempt(events.data?.items ?? []), [events.data]);
  useSubject(data ? nameOf(data) : id);
  if (!data && lease.error?.status === 404) return html`<${Head} title="Lease not found" sub=${id} /><div class="panel"><${Empty} title="No lease has this id.">It may belong to another tenant, or its record was deleted. See <a href=${to("leases", { state: "any" })}>all leases</a>.<//></div>`;
  if (!data) return html`<${Head} title="Lease" sub=${id} /><${Awaited} live=${lease} rows=${10} />`;
  return html`
    <p class="crumbs"><a href=${to("leases")}>Leases</a> <span aria-hidden="true">/</span> ${nameOf(data)}</p>
    <${Head} title=${nameOf(data)} sub=${html`<${Badge} state=${data.state} /> <${Copy} text=${data.id} label="id" />`}>
      <${LeaseActions} lease=${data} large />
    <//>
    <${Notices} lease=${data} attempts=${attempts.data?.items} />
    <${Timeline} lease=${data} events=${events.data?.items} />
    <${Explanation} lease=${data} />
    <div class="panels two">
      <${Panel} title="Location"><${Where} lease=${data} tenant=${tenants.get(data.tenant_id)} /><//>
      <${Panel} title="Connection"><${Connection} lease=${data} /><//>
      <${Panel} title="Cost and term"><${LeaseCost} lease=${data} /><//>
      <${Panel} title="Request"><${Asked} request=${data.request} labels=${data.labels} /><//>
    </div>
    ${hasVm(data) && html`<${GpuHealth} lease=${data} events=${events.data?.items} /><${GpuCharts} lease=${data} />`}
    <${Boot} lease=${data} />
    <${Panel} title="Attempts" aside=${attempts.data?.items.length} wide flush>
      <${Awaited} live=${attempts} rows=${2}>${attempts.data && html`<${Attempts} items=${attempts.data.items} findings=${findings} />`}<//>
    <//>
    <${Panel} title="Events" aside=${events.data?.items.length} wide flush>
      <${Awaited} live=${events} rows=${4}>${events.data && html`<${EventTable} items=${[...events.data.items].reverse()} />`}<//>
    <//>
  `;
}

/** A lease of which something can be reported: its VM runs or ran. */
const hasVm = (lease) => Boolean(lease.placement?.instance_id);

/** Number of the attempt → findings of its last GPU check. */
function findingsByAttempt(events) {
  const checks = events.filter(({ type, data }) => (type === "lease.proof" || type === "attempt.gpu_check_failed") && data.findings?.length);
  return new Map(checks.map(({ data }) => [data.n, data.findings]));
}

function Notices({ lease, attempts }) {
  const { interruption, reason } = lease;
  return html`
    ${interruption &&
    !lease.terminal &&
    html`
      <p class="notice" data-tone="bad" role="status"><${Icon} name="warning" />
        <span><strong>The provider interrupts this VM</strong>${interruption.deadline_at && html` in <${Left} at=${interruption.deadline_at} over="a moment" />`}${interruption.action && ` (${interruption.action})`}. ${lease.request.on_interruption === "replace" ? "It will be replaced." : "The lease will end."}</span>
      </p>
    `}
    ${reason && html`<${Failure} lease=${lease} attempts=${attempts} />`}
  `;
}

/** Periods in one state each, from the events. The last one lasts until now or the end. */
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
      <header><h2>Timeline <span class="muted">(${zone()})</span></h2><span class="aside">${lease.terminal ? `ended ${fullTime(lease.ended_at)}` : html`ends in <${Left} at=${lease.ends_at} />`}</span></header>
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
  const group = lease.group_id && ["Group", html`<a href=${to(`groups/${lease.group_id}`)}>rank ${lease.rank}</a>`];
  const whose = ["Tenant", tenant ? html`<a href=${to(`tenants/${lease.tenant_id}`)}>${tenant}</a>` : "yours"];
  if (!place) return html`<${Empty} title="No VM yet.">The lease waits for capacity until ${shortTime(lease.wait_until)}.<//><${Facts} rows=${[whose, group]} />`;
  return html`
    <${Facts} rows=${[
      whose,
      group,
      ["GPUs", `${gpuText(lease)}, ${place.gpu.memory_gib} GiB each${place.gpu.interconnect ? `, ${place.gpu.interconnect}` : ""}`],
      ["Cloud", `${providerName(place.provider)}, account ${place.account}`],
      ["Zone", html`<a href=${to("capacity", { provider: place.provider, region: place.region, instance_type: place.instance_type })}>${place.zone}</a>`],
      ["Instance type", `${place.instance_type}, ${place.vcpus} vCPUs, ${place.memory_gib} GiB`],
      ["Market", marketName(place.market)],
      ["Instance", place.instance_id && html`<${Copy} text=${place.instance_id} label="instance id" />`],
      ["Image", place.image?.name ?? place.image?.id],
      ["Last seen", lease.last_observed_at && html`<${Ago} at=${lease.last_observed_at} />`],
    ]} />
  `;
}

function Connection({ lease }) {
  const reach = lease.connection;
  if (!reach || lease.terminal) return html`<${Empty} title=${!lease.terminal ? "Not reachable yet." : lease.placement?.instance_id ? "The VM was deleted." : "No VM was launched."}>${!lease.terminal && "The address appears when the VM runs."}<//>`;
  return html`
    <${Facts} rows=${[
      ["SSH", reach.ssh_command && html`<${Copy} text=${reach.ssh_command} label="SSH command" />`],
      ["Public IP", reach.public_ip && html`<${Copy} text=${reach.public_ip} label="public IP" />`],
      ["Private IP", reach.private_ip && html`<${Copy} text=${reach.private_ip} label="private IP" />`],
      ["User", reach.ssh_user],
      ["SSH host keys", reach.ssh_host_keys?.length ? html`<span class="stacked">${reach.ssh_host_keys.map((key) => html`<${Copy} key=${key} text=${key} short=${`${key.split(" ")[0]} …${key.slice(-20)}`} label="host key" />`)}</span>` : "not reported"],
    ]} />
  `;
}

const list = (values) => (values?.length ? values.join(", ") : "any");

/** The names of stored keys where there are some, else the comments of the public keys. */
function sshKeys({ ssh_keys: names, ssh_public_keys: keys }) {
  if (!keys.length) return "none: nobody can log in";
  return list(names?.length ? names : keys.map((key) => key.split(" ")[2] ?? `${key.slice(0, 24)}…`));
}

const Asked = ({ request, labels }) => html`
  <${Facts} rows=${[
    ["GPUs", request.gpu ? `${gpuCount(request.gpu)}${request.gpu.memory_gib ? `, ${request.gpu.memory_gib} GiB or more` : ""}` : list(request.instance_types)],
    ["Market", marketName(request.market ?? "any")],
    ["Clouds", list(request.providers?.map(providerName))],
    ["Regions", list(request.regions)],
    ["Max price", request.max_price_per_hour ? `${usd(request.max_price_per_hour)} an hour` : "none"],
    ["Term", span(request.ttl_seconds)],
    ["On interruption", request.on_interruption === "replace" ? "replace the VM" : "end the lease"],
    request.proof && ["GPU check", PROOFS[request.proof]],
    request.on_gpu_failure && ["On GPU failure", ON_GPU_FAILURE[request.on_gpu_failure]],
    request.idle && ["When idle", `${IDLE_ACTIONS[request.idle.action]} after ${span(request.idle.after_seconds)}`],
    request.benchmark === "quick" && ["Benchmark", "quick"],
    request.volumes?.length > 0 && ["Volumes", request.volumes.map(volumeText).join(", ")],
    mayManageLeases() && ["SSH keys", sshKeys(request)],
    ["Labels", Object.keys(labels).length ? html`<span class="labels">${Object.entries(labels).map(([key, value]) => html`<a key=${key} href=${to("leases", { label: `${key}:${value}` })}>${key}=${value}</a>`)}</span>` : "none"],
  ]} />
`;

const OUTCOMES = { pending: "provisioning", unknown: "releasing", launched: "active", refused: "failed", not_created: "released", ended: "released" };

function Attempts({ items, findings }) {
  if (!items.length) return html`<${Empty} title="No attempts yet.">A worker starts the first attempt within two seconds.<//>`;
  return html`
    <${Scroll} label="Attempts">
      <table class="list cards">
        <thead><tr><th scope="col" class="n">No.</th><th scope="col">Outcome</th><th scope="col">Offering</th><th scope="col">Error</th><th scope="col" class="n">USD/h</th><th scope="col" class="n">Cost</th><th scope="col" class="n">Started, ${zone()}</th><th scope="col" class="n">Duration</th></tr></thead>
        <tbody>
          ${[...items].reverse().map(
            (one) => html`
              <tr key=${one.id}>
                <td data-label="No." class="n">${one.n}</td>
                <td data-label="Outcome"><${Badge} state=${one.outcome} kind=${OUTCOMES[one.outcome] ?? "released"} /></td>
                <th scope="row" data-label="Offering">${one.offering.instance_type}<span class="under">${providerName(one.offering.provider)} ${one.offering.zone}, ${marketName(one.offering.market)}</span></th>
                <td data-label="Error" class="said">${one.error ? html`<code>${one.error.code ?? one.error.class}</code><span class="under">${one.error.provider_message ?? one.error.message}</span>` : !findings.has(one.n) && NOTHING}<${Findings} items=${findings.get(one.n)} /></td>
                <td data-label="USD/h" class="n">${usd(one.offering.price_per_hour)}</td>
                <td data-label="Cost" class="n">${usd(one.cost)}</td>
                <td data-label="Started" class="n"><time datetime=${one.started_at} title=${fullTime(one.started_at)}>${timeOfDay(one.started_at)}</time></td>
                <td data-label="Duration" class="n">${one.ended_at ? span((Date.parse(one.ended_at) - Date.parse(one.started_at)) / 1000) : html`<${Ago} at=${one.started_at} suffix="" />`}</td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    <//>
  `;
}
