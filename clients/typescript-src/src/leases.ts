import type { Client } from "openapi-fetch";
import { type Lease, LeaseEndedError, WaitTimeoutError } from "./errors.js";
import { data, iterate } from "./pages.js";
import { KEY } from "./retries.js";
import type { components, operations, paths } from "./schema.js";

export type NewLease = components["schemas"]["NewLease"];
export type LeasePlan = components["schemas"]["LeasePlan"];
export type LeaseExtension = components["schemas"]["LeaseExtension"];
export type LeaseSelection = components["schemas"]["LeaseSelection"];
export type BulkRelease = components["schemas"]["BulkRelease"];
export type LeaseFilters = NonNullable<operations["list_leases"]["parameters"]["query"]>;

const LONGEST_POLL = 25;

export interface WaitOptions {
  /** Seconds. Without it the wait has no end. */
  timeout?: number;
  /** Receives the lease at the start and after each change. */
  onChange?: (lease: Lease) => void;
  signal?: AbortSignal;
}

export interface CreateOptions extends WaitOptions {
  /** Resolve when the lease is active. */
  wait?: boolean;
  /** The same key returns the same lease. A new one by default. */
  idempotencyKey?: string;
}

/** A state, "ended" for any end, or a condition. */
export type Until = string | ((lease: Lease) => boolean);

/** `/v1/leases`. */
export class Leases {
  readonly #api: Client<paths>;

  constructor(api: Client<paths>) {
    this.#api = api;
  }

  /** Creates a lease. With `wait` it resolves when the lease is active; see `wait` for the errors. */
  async create(body: NewLease, options: CreateOptions = {}): Promise<Lease> {
    const { wait, idempotencyKey, ...waiting } = options;
    const header = idempotencyKey === undefined ? {} : { [KEY]: idempotencyKey };
    const lease = await data(this.#api.POST("/v1/leases", { body, params: { header }, ...signalOf(options) }));
    return wait ? this.wait(lease, "active", waiting) : lease;
  }

  /** What a request would launch and cost. Creates nothing. */
  plan(body: NewLease): Promise<LeasePlan> {
    return data(this.#api.POST("/v1/leases/plan", { body }));
  }

  get(leaseId: string): Promise<Lease> {
    return data(this.#api.GET("/v1/leases/{lease_id}", { params: { path: { lease_id: leaseId } } }));
  }

  /** All leases that match, page after page. */
  list(query: LeaseFilters = {}): AsyncGenerator<Lease> {
    return iterate((cursor) => this.#api.GET("/v1/leases", { params: { query: { ...query, ...cursor } } }));
  }

  /**
   * The lease, once it is in the state `until`, has ended for "ended", or fulfils a function. Uses long polls.
   *
   * Throws LeaseEndedError when the lease ends without that state, and WaitTimeoutError after `timeout` seconds.
   * Neither releases the lease.
   */
  async wait(lease: Lease | string, until: Until = "active", options: WaitOptions = {}): Promise<Lease> {
    const end = options.timeout === undefined ? Infinity : Date.now() / 1000 + options.timeout;
    let current = typeof lease === "string" ? await this.get(lease) : lease;
    for (let seen: number | undefined; ; ) {
      if (current.version !== seen) options.onChange?.(current);
      if (isReached(current, until)) return current;
      if (current.terminal) throw new LeaseEndedError(current);
      const left = Math.min(LONGEST_POLL, end - Date.now() / 1000);
      if (left <= 0) throw new WaitTimeoutError(current, typeof until === "string" ? until : "as requested");
      seen = current.version;
      const query = { poll_seconds: Math.max(1, Math.round(left)), if_version: current.version };
      const params = { path: { lease_id: current.id }, query };
      current = await data(this.#api.GET("/v1/leases/{lease_id}", { params, ...signalOf(options) }));
    }
  }

  extend(leaseId: string, body: LeaseExtension): Promise<Lease> {
    return data(this.#api.POST("/v1/leases/{lease_id}/extend", { params: { path: { lease_id: leaseId } }, body }));
  }

  /** Holds idleness off: the lease does not count as idle for so many seconds from now. */
  keep(leaseId: string, seconds: number): Promise<Lease> {
    const params = { path: { lease_id: leaseId } };
    return data(this.#api.POST("/v1/leases/{lease_id}/keep", { params, body: { seconds } }));
  }

  /** Requests the end of the lease. `wait(lease, "ended")` resolves when nothing is billed any longer. */
  release(leaseId: string): Promise<Lease> {
    return data(this.#api.DELETE("/v1/leases/{lease_id}", { params: { path: { lease_id: leaseId } } }));
  }

  /** Requests the end of several leases: by labels, by ids, or all. `dry_run` only lists them. */
  releaseMany(body: LeaseSelection): Promise<BulkRelease> {
    return data(this.#api.POST("/v1/leases/release", { body }));
  }
}

function signalOf(options: WaitOptions): { signal?: AbortSignal } {
  return options.signal === undefined ? {} : { signal: options.signal };
}

function isReached(lease: Lease, until: Until): boolean {
  if (typeof until === "function") return until(lease);
  return lease.state === until || (until === "ended" && lease.terminal);
}
