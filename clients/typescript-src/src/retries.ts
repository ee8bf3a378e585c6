import { KEYED_POSTS, REPEATS } from "./described.js";
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

export const TIMEOUT = 60;

/** A problem with one of these statuses is also the answer to earlier tries with the same key. */
const DECIDED = new Set([400, 404, 409, 422]);
/** Bytes of an answer. */
const LARGEST = 64 * 1024 * 1024;
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);
const KEYED = new RegExp(KEYED_POSTS.map((path) => path.replace(/\{[^}]*\}/g, "[^/]+") + "$").join("|"));

/** Half an answer: its JSON is cut. */
class CutAnswerError extends UnexpectedResponseError {}

/**
 * A `fetch` that repeats what is safe to repeat, and throws for everything that is no answer of the API below 400.
 *
 * An answer is there when its body is there. 429 is refused before it has an effect, so every request is repeated after
 * it. After 500, 502, 503, 504, half an answer and a broken connection only a request whose repetition has no further
 * effect is. A request that was not sent always is.
 */
export function retryingFetch(send: Fetch, retries: Retries, timeout: number): Fetch {
  return async (request) => {
    addKey(request);
    for (let attempt = 1, done = false; ; attempt++) {
      const outcome = await sendOnce(send, request, timeout);
      if (outcome instanceof Response) return outcome;
      if (done && isDone(request, outcome)) return new Response(null, { status: 204 });
      done = mayBeDone(outcome, done);
      const pause = attempt < retries.attempts ? pauseAfter(outcome, request, retries, attempt) : undefined;
      if (pause === undefined) throw done ? withKey(outcome, request) : outcome;
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

async function sendOnce(send: Fetch, request: Request, timeout: number): Promise<Response | GpuleaseError> {
  let response: Response;
  let body: Uint8Array<ArrayBuffer>;
  try {
    [response, body] = await inTime(request, timeout + pollSeconds(request), async (one) => {
      const begun = await send(one);
      return [begun, begun.ok && isStream(begun) ? new Uint8Array() : await bodyOf(begun)];
    });
  } catch (error) {
    if (request.signal.aborted) throw error;
    return new UnreachableError(`${request.method} ${request.url}: ${String(error)}`, { cause: error });
  }
  if (response.ok && isStream(response)) return response;
  if (response.ok && isOfApi(request, response, body)) {
    const { status, statusText, headers } = response;
    return new Response(status === 204 ? null : body, { status, statusText, headers });
  }
  return errorOf(response, new TextDecoder().decode(body));
}

/** How long the API may wait before it answers a long poll. */
function pollSeconds(request: Request): number {
  return Number(new URL(request.url).searchParams.get("poll_seconds")) || 0;
}

/**
 * The result of `work` with a copy of the request, within the time and until the request is aborted.
 *
 * The promise ends by itself: Node 20 collects the signal of a request as garbage while the request is under way, and
 * then no abort reaches it.
 */
async function inTime<T>(request: Request, timeout: number, work: (one: Request) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  let stop: (reason: unknown) => void = () => {};
  const stopped = new Promise<never>((_, reject) => {
    stop = (reason) => {
      reject(reason);
      controller.abort(reason);
    };
  });
  const aborted = () => stop(request.signal.reason);
  const timer = setTimeout(() => stop(new Error(`no answer within ${timeout} s`)), timeout * 1000);
  request.signal.addEventListener("abort", aborted, { once: true });
  if (request.signal.aborted) aborted();
  try {
    return await Promise.race([work(new Request(request.clone(), { signal: controller.signal })), stopped]);
  } finally {
    clearTimeout(timer); // an abort still ends a stream
  }
}

/** An event stream has no end, so that its body cannot be read here. */
function isStream(response: Response): boolean {
  return mediaType(response) === "text/event-stream";
}

/** The whole body. Throws when the connection ends before it. */
async function bodyOf(response: Response): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for (const reader = response.body?.getReader(); reader !== undefined; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
    if (size > LARGEST) {
      await reader.cancel();
      throw new Error(`an answer of more than ${LARGEST} bytes`);
    }
  }
  const body = new Uint8Array(size);
  let end = 0;
  for (const part of parts) {
    body.set(part, end);
    end += part.length;
  }
  return body;
}

/** Whether a success can come from the API: no content, a JSON object, or text that was asked for. */
function isOfApi(request: Request, response: Response, body: Uint8Array<ArrayBuffer>): boolean {
  const kind = mediaType(response);
  if (response.status === 204) return true;
  if (kind === "text/plain" || kind === "text/csv") return request.method === "GET";
  return kind === "application/json" && isObject(parsed(new TextDecoder().decode(body)));
}

function errorOf(response: Response, text: string): GpuleaseError {
  if (response.ok) {
    const cut = mediaType(response) === "application/json";
    return cut ? new CutAnswerError(response.status, text) : new UnexpectedResponseError(response.status, text);
  }
  const document = parsed(text);
  if (!isObject(document) || !("code" in document)) return new UnexpectedResponseError(response.status, text);
  const named = response.headers.get("Retry-After") ?? "";
  return new ProblemError(document as Problem, /^[0-9]+$/.test(named) ? Number(named) : undefined);
}

function mediaType(response: Response): string {
  return (response.headers.get("Content-Type") ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(document: unknown): document is object {
  return typeof document === "object" && document !== null && !Array.isArray(document);
}

/** Whether a request may have been carried out after this outcome. `before`: after its earlier tries. */
function mayBeDone(error: GpuleaseError, before: boolean): boolean {
  if (error instanceof UnreachableError) return before || !wasNotSent(error);
  const status = statusOf(error);
  if (status < 300 || REPEATS.unknown.includes(status) || isInFlight(error)) return true;
  return before && !DECIDED.has(status);
}

/** Whether a repeated DELETE finds that an earlier try has succeeded. */
function isDone(request: Request, error: GpuleaseError): boolean {
  const collection = new URL(request.url).pathname.split("/v1/").at(-1)?.split("/", 1)[0] ?? "";
  const gone = error instanceof ProblemError && error.status === REPEATS.gone;
  return request.method === "DELETE" && gone && !REPEATS.kept.includes(collection);
}

/** The error, with the key of a request that may have been carried out, and a sentence about it. */
function withKey(error: GpuleaseError, request: Request): GpuleaseError {
  const key = request.headers.get(KEY);
  if (key !== null) {
    error.idempotencyKey = key;
    error.message += `. The API may have carried the request out: look for its result, or repeat the call with idempotencyKey "${key}", which makes no second resource`;
  }
  return error;
}

function isInFlight(error: GpuleaseError): boolean {
  return error instanceof ProblemError && error.code === REPEATS.inFlight;
}

function statusOf(error: GpuleaseError): number {
  return error instanceof ProblemError || error instanceof UnexpectedResponseError ? error.status : 0;
}

/** Seconds before the next attempt. Undefined: throw the error. */
function pauseAfter(error: GpuleaseError, request: Request, retries: Retries, attempt: number): number | undefined {
  const growing = Math.min(retries.firstPause * 2 ** (attempt - 1), retries.longestPause) * (0.5 + Math.random() / 2);
  if (error instanceof UnreachableError) return wasNotSent(error) || isRepeatable(request) ? growing : undefined;
  const status = statusOf(error);
  const noAnswer = REPEATS.unknown.includes(status) || isInFlight(error) || error instanceof CutAnswerError;
  const repeat = REPEATS.refused.includes(status) || (noAnswer && isRepeatable(request));
  const named = error instanceof ProblemError ? error.retryAfter : undefined;
  if (!repeat || (named !== undefined && named > retries.longestPause)) return undefined;
  return named ?? growing;
}

/** Whether sending it twice has the effect of sending it once. With `If-Match`, the repetition would fail. */
function isRepeatable(request: Request): boolean {
  return request.headers.has(KEY) || (REPEATS.methods.includes(request.method) && !request.headers.has("If-Match"));
}

function wasNotSent(error: UnreachableError): boolean {
  const cause = (error.cause as { cause?: { code?: string } } | undefined)?.cause;
  return NOT_SENT.has(cause?.code ?? "");
}
