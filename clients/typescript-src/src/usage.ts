import type { Client } from "openapi-fetch";
import { data } from "./pages.js";
import type { components, operations, paths } from "./schema.js";

export type UsageReport = components["schemas"]["Usage"];
export type Summary = components["schemas"]["Summary"];
export type UsageFilters = NonNullable<operations["get_usage"]["parameters"]["query"]>;
export type SummaryFilters = NonNullable<operations["get_summary"]["parameters"]["query"]>;

/** `/v1/usage` and `/v1/summary`. */
export class Usage {
  readonly #api: Client<paths>;

  constructor(api: Client<paths>) {
    this.#api = api;
  }

  /** Use by hour or day. */
  get(query: UsageFilters = {}): Promise<UsageReport> {
    return data(this.#api.GET("/v1/usage", { params: { query } }));
  }

  /** Leases by state, GPUs, spend, and what needs attention. */
  summary(query: SummaryFilters = {}): Promise<Summary> {
    return data(this.#api.GET("/v1/summary", { params: { query } }));
  }
}
