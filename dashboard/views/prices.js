/** The catalogue of prices: what each GPU costs in each market, where it costs least, and what recent launches taught. */
import { counted, marketName, providerName, span, usd } from "../format.js";
import { useLive } from "../live.js";
import { Awaited, Badge, Empty, Head, Left, Panel } from "../parts/basics.js";
import { useCatalogue } from "../parts/catalogue.js";
import { SelectFilter } from "../parts/filters.js";
import { Icon } from "../parts/icons.js";
import { learned, priceCards } from "../price_cards.js";
import { route, to } from "../router.js";
import { mayManageLeases } from "../session.js";
import { html, useMemo } from "../ui.js";

const MARKETS = ["on_demand", "spot", "reserved"];
const FILTERS = ["provider", "market", "gpu_model"];
const BADGES = {
  good: "active",
  mixed: "releasing",
  poor: "failed",
  cooling_off: "releasing",
  untried: "queued",
  unavailable: "released",
};

export function Prices() {
  const { query } = route.use();
  const { models, providers } = useCatalogue();
  const offerings = useLive(pathOf(query), 30, { all: true });
  const { data } = offerings;
  const cards = useMemo(() => data && priceCards(data.items), [data]);
  return html`
    <${Head} title="Prices" sub="USD per hour for the VM, a disk of 100 GiB and a public address, the cheapest GPU first. Launched: how many of the recent launches succeeded." />
    <div class="filters"><div class="row">
      <${SelectFilter} name="provider" label="Cloud" query=${query} options=${providers} show=${providerName} />
      <${SelectFilter} name="market" label="Market" query=${query} options=${MARKETS} show=${marketName} />
      <${SelectFilter} name="gpu_model" label="GPU" query=${query} options=${models.map((one) => one.model)} show=${String} />
      ${FILTERS.some((name) => query.has(name)) && html`<a class="button ghost" href=${to("prices")}><${Icon} name="close" />Clear filters</a>`}
    </div></div>
    <${Awaited} live=${offerings} rows=${10}>
      ${cards && (cards.length ? html`<div class="price-cards">${cards.map((card) => html`<${Card} key=${card.key} card=${card} provider=${query.get("provider")} />`)}</div>` : html`<div class="panel"><${None} query=${query} /></div>`)}
      ${data && !data.complete && html`<p class="note">The most expensive offerings are missing: choose a cloud or a GPU to see all.</p>`}
    <//>
    ${data && offerings.error && html`<p class="note" role="status">${offerings.error.message}</p>`}
  `;
}

function pathOf(query) {
  const asked = new URLSearchParams({ limit: 200 });
  for (const name of FILTERS) if (query.get(name)) asked.set(name, query.get(name));
  return `/v1/offerings?${asked}`;
}

const None = ({ query }) =>
  FILTERS.some((name) => query.has(name))
    ? html`<${Empty} title="No offering matches the filters."><a href=${to("prices")}>Clear filters</a>.<//>`
    : html`<${Empty} title="No offerings yet.">Workers load the offerings within a minute after they start.<//>`;

const Card = ({ card, provider }) => html`
  <${Panel} title=${html`${card.model} <span class="muted">${card.memory} GiB</span>`} aside=${card.lowest === Infinity ? null : `from ${usd(card.lowest)} a GPU`} flush>
    <table class="list cards dense">
      <caption class="vh">Prices of ${card.model} with ${card.memory} GiB</caption>
      <thead><tr><th scope="col">GPUs</th><th scope="col" class="n">USD/h</th><th scope="col">Lowest at</th><th scope="col">Launched</th>${mayManageLeases() && html`<th scope="col"><span class="vh">Actions</span></th>`}</tr></thead>
      <tbody>${card.rows.map((row) => html`<${Row} key=${row.key} row=${row} card=${card} provider=${provider} />`)}</tbody>
    </table>
  <//>
`;

const sizeText = ({ count, fraction }) => (fraction === 1 ? counted(count, "GPU") : `${Number((count * fraction).toFixed(3))} of a GPU`);

function Row({ row, card, provider }) {
  const { best, market } = row;
  const name = `${sizeText(row)}, ${card.model} ${marketName(market)}`;
  return html`
    <tr>
      <th scope="row"><span class="num">${sizeText(row)}</span><span class="under">${marketName(market)}</span></th>
      <td data-label="USD/h" class="n">${best.price_per_hour === null ? html`<span class="muted">unknown</span>` : usd(best.price_per_hour)}${best.price_per_gpu_hour !== null && row.count * row.fraction !== 1 && html`<span class="under">${usd(best.price_per_gpu_hour)} a GPU</span>`}${best.price_status === "stale" && html`<span class="under">not confirmed lately</span>`}</td>
      <td data-label="Lowest at">${providerName(best.provider)} ${best.region}<span class="under">${best.instance_type}</span></td>
      <td data-label="Launched"><${Learned} row=${row} /></td>
      ${mayManageLeases() && html`<td class="do"><a class="button" href=${leaseAddress(row, card, provider)}>Lease this<span class="vh"> ${name}</span></a></td>`}
    </tr>
  `;
}

/** The form for one VM of this row. Parts of a GPU are requested by their instance type. */
function leaseAddress({ count, fraction, market, best }, { model, memory, sizes }, provider) {
  const hardware = fraction === 1 ? { gpu_model: model, count, memory_gib: sizes > 1 ? memory : null } : { instance_type: best.instance_type };
  return to("leases/new", { ...hardware, market, provider });
}

function Learned({ row }) {
  const { kind, launches, tries, until, ready } = learned(row.offerings);
  const text = { unavailable: "unavailable", cooling_off: "in cool-off", untried: "none" }[kind] ?? `${launches} of ${tries}`;
  return html`
    <${Badge} state=${kind} kind=${BADGES[kind]} text=${text} />
    ${until && html`<span class="under">for <${Left} at=${until} over="a moment" soon=${0} /></span>`}
    ${!until && ready !== null && html`<span class="under">ready in ${span(ready)}</span>`}
  `;
}
