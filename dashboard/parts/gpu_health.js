/** What is known of a lease's GPUs: the proof at the boot, the reported health, and idleness. */
import { nudge } from "../changes.js";
import { now } from "../clock.js";
import { counted, fullTime, NOTHING, shortTime, words } from "../format.js";
import { intention, Unanswered } from "../intentions.js";
import { mayManageLeases } from "../session.js";
import { html, useState } from "../ui.js";
import { Ago, Badge, Empty, Facts, Left, Panel } from "./basics.js";
import { say } from "./dialogs.js";
import { Icon } from "./icons.js";
import { nameOf } from "./lease_actions.js";

const KEEP_SECONDS = 2 * 3600;
const PROOFS = { passed: ["ok", "passed"], failed: ["failed", "failed"], none: ["released", "none"], pending: ["booting", "awaited"] };
const HEALTH = { healthy: "ok", degraded: "releasing", failing: "failed", unknown: "released" };

/** `events`: of the lease, or undefined before they came. */
export function GpuHealth({ lease, events }) {
  const { proof, health, idle, utilization } = lease;
  return html`
    <${Panel} title="GPU check and health" wide>
      ${proof || health || utilization || idle
        ? html`<div class="two-columns"><${Facts} rows=${[...proofRows(proof), ["Health", health && html`<${Health} health=${health} />`], ["Utilization", utilization && html`${used(utilization)}<span class="under"><${Ago} at=${utilization.at} />${utilization.refused ? `, ${counted(utilization.refused, "sample")} refused` : ""}</span>`], !lease.terminal && ["Idle", html`<${Idle} lease=${lease} kept=${keptUntil(events ?? [])} />`]]} /></div>`
        : html`<${Empty} title="Nothing is reported.">${lease.request.proof === "off" ? "The request turned the GPU check off." : "The agent on the VM reports when it boots."}<//>`}
    <//>
  `;
}

const used = ({ gpu_percent: gpus, memory_percent: memory }) => [gpus !== null && `${gpus} % of the GPUs`, memory !== null && `${memory} % of their memory`].filter(Boolean).join(", ") || NOTHING;

/** How a proof arrived. */
export const viaText = (via) => ({ network: "over the network", console: "on the serial console" })[via] ?? words(via);

function proofRows(proof) {
  if (!proof) return [["GPU check", "not requested"]];
  const [kind, text] = PROOFS[proof.status] ?? ["queued", words(proof.status)];
  return [
    ["GPU check", html`<${Badge} state=${proof.status} kind=${kind} text=${text} />${proof.at && html`<span class="under">${fullTime(proof.at)}${proof.via ? `, ${viaText(proof.via)}` : ""}</span>`}${proof.status === "none" && html`<span class="under">The VM sent no proof in time.</span>`}<${Findings} items=${proof.findings} />`],
    proof.driver_version && ["Driver", `${proof.driver_version}${proof.cuda_version ? `, CUDA ${proof.cuda_version}` : ""}`],
    proof.gpus?.length > 0 && ["GPUs", html`<${Gpus} items=${proof.gpus} />`],
  ];
}

const gibibytes = (mebibytes) => (mebibytes ? `, ${Math.round(mebibytes / 1024)} GiB` : "");

/** One line while all are alike; the UUIDs are in a list to unfold. */
function Gpus({ items }) {
  const kinds = new Map();
  for (const { model, memory_mib: memory } of items) {
    const kind = `${model ?? "unknown model"}${gibibytes(memory)}`;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  return html`
    ${[...kinds].map(([kind, number]) => html`<span key=${kind} class="row-text">${number} × ${kind}</span>`)}
    <details class="uuids"><summary>UUIDs</summary><ul>${items.map((gpu, place) => html`<li key=${place} class="id">${gpu.uuid ?? "unknown"}</li>`)}</ul></details>
  `;
}

const Health = ({ health }) => html`
  <${Badge} state=${health.status} kind=${HEALTH[health.status] ?? "queued"} />${health.since && html`<span class="under">since ${shortTime(health.since)}, as the VM reports</span>`}
  <${Findings} items=${health.findings} />
`;

/** Findings of a check in words. */
export const Findings = ({ items }) =>
  items?.length > 0 && html`<ul class="findings" aria-label="Findings">${items.map((one, place) => html`<li key=${place}><strong>${words(one.code)}</strong>: ${one.message}${one.gpu && html`<span class="id under">${one.gpu}</span>`}</li>`)}</ul>`;

/** Until when idleness is held off, or null. */
function keptUntil(events) {
  const until = events.findLast(({ type }) => type === "lease.kept")?.data.keep_until;
  return until && Date.parse(until) > now() ? until : null;
}

function Idle({ lease, kept }) {
  const { idle } = lease;
  const rule = lease.request.idle;
  return html`
    ${idle ? html`since ${shortTime(idle.since)} (<${Ago} at=${idle.since} suffix="" />)` : "no"}
    ${idle?.ends_at && html`<span class="under">The lease ends in <${Left} at=${idle.ends_at} over="a moment" />, unless a GPU is used.</span>`}
    ${kept && html`<span class="under">kept until ${shortTime(kept)}</span>`}
    ${mayManageLeases() && (idle || rule) && html`<${Keep} lease=${lease} />`}
  `;
}

/** Holds off the end for idleness. */
function Keep({ lease }) {
  const [busy, setBusy] = useState(false);
  const [send] = useState(intention);
  const keep = async () => {
    setBusy(true);
    try {
      await send(null, () => ["POST", `/v1/leases/${lease.id}/keep`, { seconds: KEEP_SECONDS }]);
      nudge();
      say(`${nameOf(lease)} is kept for 2 hours, also while it is idle.`);
    } catch (problem) {
      say(problem instanceof Unanswered ? `${problem.message} Press the button again: it is made only once.` : problem.message, "bad");
    }
    setBusy(false);
  };
  return html`<span class="row-text"><button type="button" disabled=${busy} onClick=${keep}><${Icon} name="clock" />Keep for 2 hours</button></span>`;
}
