/** A small line of GPU utilization over the last hours, with the newest value in words. */
import { NOTHING } from "../format.js";
import { useLive } from "../live.js";
import { linePath, mean, newest } from "../metrics_series.js";
import { html, useMemo } from "../ui.js";

const HOURS = 3;
const HEIGHT = 16;
const POLL_SECONDS = 60;
const MOST_IDS = 100;
const WITH_VM = ["booting", "active", "releasing"];

/** lease id → values, for the leases of a page that have a VM: one request for all. */
export function useUtilization(leases) {
  const ids = useMemo(() => leases.filter((lease) => WITH_VM.includes(lease.state)).map((lease) => lease.id).sort().slice(0, MOST_IDS).join(","), [leases]);
  const { data } = useLive(ids ? `/v1/metrics/utilization?ids=${ids}&hours=${HOURS}` : null, POLL_SECONDS, { keep: true });
  return useMemo(() => new Map((data?.items ?? []).map((item) => [item.lease_id, item.gpu_percent])), [data]);
}

/** `values` are means of some minutes, undefined while nothing is known. The number is that of the newest sample, if it came. */
export function Sparkline({ lease, values }) {
  const last = values ? newest(values) : null;
  const shown = Math.round(lease.utilization?.gpu_percent ?? last);
  if (last === null) return html`<span class="muted" title="No sample yet">${NOTHING}</span>`;
  const label = `GPU utilization of ${HOURS} hours: newest ${shown} %, mean ${Math.round(mean(values))} %`;
  return html`
    <span class="spark" title=${label}>
      <svg viewBox=${`0 -1 ${Math.max(values.length - 1, 1)} ${HEIGHT + 2}`} preserveAspectRatio="none" role="img" aria-label=${label}><path d=${linePath(values, HEIGHT)} /></svg>
      <span class="num" aria-hidden="true">${shown} %</span>
    </span>
  `;
}
