/** Sums up offerings for the catalogue of prices: a card for each GPU, a row for each number of them in a market. */

const MARKETS = ["on_demand", "spot", "reserved"];
const GOOD = 0.66;
const POOR = 0.34;

const known = (values) => values.filter((value) => value !== null);
const lowest = (values) => (values.length ? Math.min(...values) : Infinity);
const priceOf = (offering) => Number(offering.price_per_hour ?? Infinity);

/**
 * `[{key, model, vendor, memory, sizes, lowest, rows}]`, the cheapest GPU first. `memory`: GiB of each GPU. `sizes`: how many
 * sizes of memory the model has. `lowest`: USD for an hour of one GPU. `rows`: `[{key, count, fraction, market, best,
 * offerings}]`, where `best` is the offering with the lowest price.
 */
export function priceCards(offerings) {
  const cards = new Map();
  for (const one of offerings) {
    const { model, vendor, memory_gib: memory, count, fraction } = one.gpu;
    const name = `${model} ${memory}`;
    if (!cards.has(name)) cards.set(name, { key: name, model, vendor, memory, rows: new Map() });
    const { rows } = cards.get(name);
    const key = `${count} ${fraction} ${one.market}`;
    const row = rows.get(key);
    if (!row) rows.set(key, { key, count, fraction, market: one.market, best: one, offerings: [one] });
    else {
      row.offerings.push(one);
      if (priceOf(one) < priceOf(row.best)) row.best = one;
    }
  }
  const order = (a, b) => a.count * a.fraction - b.count * b.fraction || MARKETS.indexOf(a.market) - MARKETS.indexOf(b.market);
  const all = [...cards.values()].map((card) => {
    const rows = [...card.rows.values()].sort(order);
    const prices = known(rows.flatMap((row) => row.offerings.map((one) => one.price_per_gpu_hour))).map(Number);
    return { ...card, rows, lowest: lowest(prices), sizes: [...cards.values()].filter((other) => other.model === card.model).length };
  });
  return all.sort((a, b) => a.lowest - b.lowest || a.key.localeCompare(b.key));
}

/**
 * What recent launches taught about the offerings of a row: `{kind, launches, tries, until, ready}`. `kind`: `unavailable`,
 * `cooling_off` (all of them, until `until`), `untried`, or how many launches succeeded: `good`, `mixed`, `poor`. `ready`:
 * seconds from launch to ready, of the fastest; null while unknown.
 */
export function learned(offerings) {
  const usable = offerings.filter((one) => one.availability.status !== "unavailable");
  if (!usable.length) return { kind: "unavailable", launches: 0, tries: 0, until: null, ready: null };
  const sum = (name) => usable.reduce((all, one) => all + one.statistics[name], 0);
  const launches = sum("launches");
  const tries = launches + sum("refusals");
  const ready = known(usable.map((one) => one.statistics.ready_seconds));
  const waits = usable.map((one) => (one.availability.status === "cooling_off" ? one.availability.until : null));
  const until = waits.includes(null) ? null : [...waits].sort()[0];
  const rate = launches / tries;
  const kind = until ? "cooling_off" : !tries ? "untried" : rate >= GOOD ? "good" : rate >= POOR ? "mixed" : "poor";
  return { kind, launches, tries, until, ready: ready.length ? Math.min(...ready) : null };
}
