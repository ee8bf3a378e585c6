/** A tenant's own limits. */
import { useLive } from "../live.js";
import { Awaited, Empty, Head, Panel } from "../parts/basics.js";
import { Limits } from "../parts/quota_limits.js";
import { html } from "../ui.js";

export function Quotas() {
  const quotas = useLive("/v1/quotas", 5);
  const items = quotas.data?.items;
  return html`
    <${Head} title="Quotas" sub="Limits of your tenant's concurrent use" />
    <${Panel} title="Limits" wide>
      <${Awaited} live=${quotas} rows=${4}>
        ${items && (items.length ? html`<${Limits} items=${items} />` : html`<${Empty} title="No GPUs are allowed yet.">Request a quota from your operator.<//>`)}
      <//>
    <//>
  `;
}
