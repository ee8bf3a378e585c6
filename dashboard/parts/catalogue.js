/** What can be requested: GPU models, regions and clouds, for filters and forms. */
import { useLive } from "../live.js";
import { useMemo } from "../ui.js";

const SECONDS = 120;

/**
 * `{models: [{model, aliases, counts_by_market, memory_gib, …}], regions: [{provider, region}], providers: [name]}`. The lists are
 * empty until the first response, and where the API has none.
 */
export function useCatalogue() {
  const models = useLive("/v1/gpu-models", SECONDS).data;
  const regions = useLive("/v1/regions", SECONDS).data;
  return useMemo(() => {
    const listed = regions?.items ?? [];
    return { models: models?.items ?? [], regions: listed, providers: [...new Set(listed.map((one) => one.provider))].sort() };
  }, [models, regions]);
}
