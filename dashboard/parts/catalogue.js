/** What can be requested: GPU models, regions and clouds, for filters and forms. */
import { useLive } from "../live.js";
import { useMemo } from "../ui.js";

const SECONDS = 120;

/**
 * `{models: [{model, counts, memory_gib, min_price_per_gpu_hour}], regions: [{provider, region}], providers: [name]}`, empty
 * until the first response. An API without these lists is asked for its offerings instead.
 */
export function useCatalogue() {
  const models = useLive("/v1/gpu-models", SECONDS, { all: true });
  const regions = useLive("/v1/regions", SECONDS, { all: true });
  const absent = [models, regions].some((one) => one.error?.status === 404);
  const offerings = useLive(absent ? "/v1/offerings?limit=200" : null, SECONDS, { all: true }).data;
  return useMemo(() => {
    const listed = regions.data?.items ?? unique(offerings?.items, (one) => `${one.provider} ${one.region}`);
    return {
      models: models.data?.items ?? unique(offerings?.items.map((one) => one.gpu), (gpu) => gpu.model),
      regions: listed,
      providers: unique(listed, (one) => one.provider).map((one) => one.provider),
    };
  }, [models.data, regions.data, offerings]);
}

/** The first item of each key, sorted by key. */
function unique(items, key) {
  const found = new Map();
  for (const one of items ?? []) if (!found.has(key(one))) found.set(key(one), one);
  return [...found].sort(([a], [b]) => a.localeCompare(b)).map(([, one]) => one);
}
