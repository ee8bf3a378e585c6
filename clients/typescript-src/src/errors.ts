import type { ProblemCode } from "./described.js";
import type { components } from "./schema.js";

export type Problem = components["schemas"]["Problem"];
export type Lease = components["schemas"]["Lease"];

/** Base class of every error of this package. */
export class GpuleaseError extends Error {
  override readonly name: string = "GpuleaseError";
  /**
   * Key of a request that may have been carried out although it failed. Repeat the call with it, and it makes no second
   * resource. Undefined: the API did not carry the request out, or it has no key.
   */
  idempotencyKey?: string;
}

/** An id or name that cannot be a part of a path. Nothing was sent. */
export class InvalidValueError extends GpuleaseError {
  override readonly name = "InvalidValueError";
}

/** No address or no key of an API. */
export class NotConfiguredError extends GpuleaseError {
  override readonly name = "NotConfiguredError";
}

/** The API sent no response, also after the retries. `cause` is the error of `fetch`. */
export class UnreachableError extends GpuleaseError {
  override readonly name = "UnreachableError";
}

/** The response does not come from the API, for example the page of a proxy. `status` may be a success. */
export class UnexpectedResponseError extends GpuleaseError {
  override readonly name = "UnexpectedResponseError";
  constructor(
    readonly status: number,
    readonly body: string,
  ) {
    super(`status ${status} with a body that is not gpulease's: ${body.slice(0, 200)}`);
  }
}

/** The API refused the request. Decide by `code`; `detail` is for people. `problem` has the members of the code. */
export class ProblemError extends GpuleaseError {
  override readonly name = "ProblemError";
  readonly code: ProblemCode | (string & {});
  readonly status: number;
  readonly detail: string;
  /** The same request may succeed later. */
  readonly retryable: boolean;
  readonly requestId: string;
  constructor(
    readonly problem: Problem,
    /** Seconds of the `Retry-After` header. */
    readonly retryAfter?: number,
  ) {
    super(`${problem.code}: ${problem.detail} (request ${problem.request_id})`);
    this.code = problem.code;
    this.status = problem.status;
    this.detail = problem.detail;
    this.retryable = problem.retryable;
    this.requestId = problem.request_id;
  }
}

/** Whether an error is a problem, with this code if one is given. */
export function isProblem(error: unknown, code?: ProblemCode): error is ProblemError {
  return error instanceof ProblemError && (code === undefined || error.code === code);
}

/** The lease ended before it reached the state that the caller waits for. */
export class LeaseEndedError extends GpuleaseError {
  override readonly name = "LeaseEndedError";
  constructor(readonly lease: Lease) {
    super(`lease ${lease.id} is ${lease.state}: ${lease.reason?.message ?? "no reason"}`);
  }
}

/** The time of a wait is over. The lease still exists and may still be billed. */
export class WaitTimeoutError extends GpuleaseError {
  override readonly name = "WaitTimeoutError";
  constructor(
    readonly lease: Lease,
    until: string,
  ) {
    super(`lease ${lease.id} is ${lease.state} and not yet ${until}; it still exists`);
  }
}
