/** What ran at the first boot: the start-up script, and the console of VMs that did not boot. */
import { fullTime } from "../format.js";
import { useLive } from "../live.js";
import { mayManageLeases } from "../session.js";
import { html } from "../ui.js";
import { Badge, Copy, Facts, Panel } from "./basics.js";

/** The programs that run a start-up script, and where they write: docs/startup-scripts.md. */
const CLOUD_INIT = ["sudo cloud-init status --long", "sudo cat /var/log/cloud-init-output.log"];
const SCRIPT_COMMANDS = {
  aws: CLOUD_INIT,
  azure: CLOUD_INIT,
  gcp: ["sudo systemctl status --no-pager google-startup-scripts.service", "sudo journalctl --no-pager -u google-startup-scripts.service"],
};

/** Members and above see scripts and console output. The API has both only for a time. */
export function Boot({ lease }) {
  const failed = lease.attempts_count > 0 && lease.state !== "active";
  const consoles = useLive(mayManageLeases() && failed ? `/v1/leases/${encodeURIComponent(lease.id)}/console` : null, 10).data?.items ?? [];
  const script = lease.request.startup_script;
  return html`
    ${script && html`<${Script} lease=${lease} script=${script} />`}
    ${consoles.map(
      ({ n, text, created_at: created }) => html`
        <${Panel} key=${n} title=${`Console output of attempt ${n}`} aside=${`read ${fullTime(created)}`} note="This VM did not boot in time. gpulease keeps the output for 7 days." wide><${Copy} text=${text} label=${`the console output of attempt ${n}`} block /><//>
      `,
    )}
  `;
}

function Script({ lease, script }) {
  const [kind, state, meaning] = scriptState(lease);
  const ssh = !lease.terminal && lease.connection?.ssh_command;
  const [result, output] = SCRIPT_COMMANDS[lease.placement?.provider] ?? [];
  return html`
    <${Panel} title="Start-up script" wide>
      <${Facts} rows=${[
        ["Status", html`<span><${Badge} state=${state} kind=${kind} /> ${meaning}</span>`],
        ssh && result && ["Result", html`<${Copy} text=${`${ssh} ${result}`} label="the command that shows the result" />`],
        ssh && output && ["Output", html`<${Copy} text=${`${ssh} ${output}`} label="the command that shows the output" />`],
      ]} />
      <details><summary class="muted">Show the script</summary><${Copy} text=${script} label="the start-up script" block /></details>
    <//>
  `;
}

/** The VM does not report the script's end to gpulease, so the status says only whether the script was started. */
function scriptState(lease) {
  if (lease.terminal) return ["released", "ended", ""];
  if (lease.state === "active") return ["active", "started", "The VM booted. It runs the script once; the commands below show the result."];
  if (lease.state === "booting") return ["booting", "starting", "The VM is booting and runs the script next."];
  return ["queued", "not started", "The script runs at the first boot."];
}
