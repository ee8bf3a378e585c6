import { KEYED_POSTS } from "./described.js";
import { GpuleaseError, type Problem, ProblemError, UnexpectedResponseError, UnreachableError } from "./errors.js";

/** How often the client repeats a request. */
export interface Retries {
  /** Sends of one request, with the first one. 1 disables retries. */
  attempts: number;
  /** Seconds. The client does not wait for a longer `Retry-After`; it throws the error at once. */
  longestPause: number;
  /** Seconds before the first repetition without `Retry-After`. The pause doubles each time. */
  firstPause: number;
}

export const RETRIES: Retries = { attempts: 5, longestPause: 60, firstPause: 0.5 };
export const KEY = "Idempotency-Key";

export type Fetch = (request: Request) => Promise<Response>;

const IDEMPOTENT = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"]);
const TEMPORARY = new Set([500, 502, 503, 504]);
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);
const KEYED = new RegExp(KEYED_POSTS.map((path) => path.replace(/\{[^}]*\}/g, "[^/]+") + "$").join("|"));

/**
 * A `fetch` that repeats what is safe to repeat and throws for every error status.
 *
 * 429 is refused before it has an effect, so every request is repeated after it. After 500, 502, 503, 504 and after a
 * broken connection only a request whose repetition has no further effect is. A request that was not sent always is.
 */
export function retryingFetch(send: Fetch, retries: Retries): Fetch {
  return async (request) => {
    addKey(request);
    for (let attempt = 1; ; attempt++) {
      const outcome = await sendOnce(send, request);
      if (outcome instanceof Response) return outcome;
      const pause = attempt < retries.attempts ? pauseAfter(outcome, request, retries, attempt) : undefined;
      if (pause === undefined) throw outcome;
      await sleep(pause, request.signal);
    }
  };
}

/** Resolves after so many seconds; rejects with the signal's reason when that is aborted. */
export async function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Gives a POST whose operation takes an idempotency key a new one, unless the caller has set one. */
function addKey(request: Request): void {
  if (request.method === "POST" && !request.headers.has(KEY) && KEYED.test(new URL(request.url).pathname)) {
    request.headers.set(KEY, crypto.randomUUID());
  }
}

async function sendOnce(send: Fetch, request: Request): Promise<Response | GpuleaseError> {
  let response: Response;
  try {
    response = await send(request.clone());
  } catch (error) {
    if (request.signal.aborted) throw error;
    return new UnreachableError(`${request.method} ${request.url}: ${String(error)}`, { cause: error });
  }
  return response.status < 400 ? response : errorOf(response);
}

async function errorOf(response: Response): Promise<GpuleaseError> {
  const text = await response.text();
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    return new UnexpectedResponseError(response.status, text);
  }
  if (typeof document !== "object" || document === null || !("code" in document)) {
    return new UnexpectedResponseError(response.status, text);
  }
  const named = response.headers.get("Retry-After") ?? "";
  return new ProblemError(document as Problem, /^[0-9]+$/.test(named) ? Number(named) : undefined);
}

/** Seconds before the next attempt. Undefined: throw the error. */
function pauseAfter(error: GpuleaseError, request: Request, retries: Retries, attempt: number): number | undefined {
  const growing = Math.min(retries.firstPause * 2 ** (attempt - 1), retries.longestPause) * (0.5 + Math.random() / 2);
  if (error instanceof UnreachableError) return wasNotSent(error) || isRepeatable(request) ? growing : undefined;
  const status = error instanceof ProblemError || error instanceof UnexpectedResponseError ? error.status : 0;
  const inFlight = error instanceof ProblemError && error.code === "idempotency_in_flight";
  const repeat = status === 429 || ((TEMPORARY.has(status) || inFlight) && isRepeatable(request));
  const named = error instanceof ProblemError ? error.retryAfter : undefined;
  if (!repeat || (named !== undefined && named > retries.longestPause)) return undefined;
  return named ?? growing;
}

/** Whether sending it twice has the effect of sending it once. With `If-Match`, the repetition would fail. */
function isRepeatable(request: Request): boolean {
  return request.headers.has(KEY) || (IDEMPOTENT.has(request.method) && !request.headers.has("If-Match"));
}

function wasNotSent(error: UnreachableError): boolean {
  const cause = (error.cause as { cause?: { code?: string } } | undefined)?.cause;
  return NOT_SENT.has(cause?.code ?? "");
}
