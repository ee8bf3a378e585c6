/** Speaks to the public API: the key goes into a header, unchanged answers come back as 304, refusals as Problem. */
import { heardTime } from "./clock.js";
import { session, signOut } from "./session.js";
import { shared } from "./ui.js";

const BASE = new URL("..", document.baseURI);
const PATIENCE_MS = 10_000;
const LONGEST_PATIENCE_MS = 80_000;
const SLOW_FOR_MS = 300_000;
const SILENCE_MS = 40_000; // two heartbeats of the event stream that did not come
const DOWNLOAD_MS = 600_000;
const REMEMBERED = 120;

/** The full address of a path of the API, also behind a proxy's prefix. */
export const addressOf = (path) => new URL(path.slice(1), BASE).href;

/** The API refused: `code` decides, `detail` is for people. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || `The API answered ${status}.`);
    this.status = status;
    this.code = body?.code ?? null;
    this.errors = body?.errors ?? [];
    this.leaseId = body?.lease_id ?? null;
  }
}

/** No usable answer: the API, or the database behind it, is away. It may come back by itself. */
export class Away extends Error {}

/** How long an answer may take, until when that holds: longer than usual for some minutes after a time-out or a slow answer. */
let slow = { limit: PATIENCE_MS, until: 0 };

const patience = () => (Date.now() < slow.until ? slow.limit : PATIENCE_MS);

function heardLate(limit) {
  slow = { limit: Math.min(Math.max(limit, patience()), LONGEST_PATIENCE_MS), until: Date.now() + SLOW_FOR_MS };
}

/** Since when the API is away (milliseconds), null while it answers. */
export const awaySince = shared(null);

let known = new Map();
let joined = new Map();

/** What was read under this path last, or undefined. */
export const remembered = (path) => known.get(path)?.data;

/** An answer that is still under way is not kept either. */
export function forgetEverything() {
  known = new Map();
  joined = new Map();
}

/**
 * Reads a path. The very same object comes back when nothing has changed. `oldest`: milliseconds after which the whole
 * answer is requested again, because some of it changes without a new ETag. Raises Problem, Away.
 */
export async function get(path, oldest = Infinity) {
  const kept = known;
  const heard = kept.get(path);
  const before = heard && Date.now() - heard.at < oldest ? heard : undefined;
  const answer = await send("GET", path, before ? { "If-None-Match": before.etag } : {});
  if (answer.status === 304) return before.data;
  const data = await bodyOf(answer);
  const etag = answer.headers.get("ETag");
  kept.delete(path);
  if (etag) kept.set(path, { etag, data, at: Date.now() });
  if (kept.size > REMEMBERED) kept.delete(kept.keys().next().value);
  return data;
}

/** All pages of a list as one: the first page with the items of all. The same object while no page changes. Raises Problem, Away. */
export async function getAll(path, most = 20) {
  const kept = joined;
  const pages = [await get(path)];
  while (pages.at(-1).next_cursor && pages.length < most) {
    const joint = path.includes("?") ? "&" : "?";
    pages.push(await get(`${path}${joint}cursor=${encodeURIComponent(pages.at(-1).next_cursor)}`));
  }
  const before = kept.get(path);
  if (before && before.pages.length === pages.length && pages.every((page, n) => page === before.pages[n])) {
    return before.whole;
  }
  const whole = { ...pages[0], items: pages.flatMap((page) => page.items), complete: !pages.at(-1).next_cursor };
  kept.set(path, { pages, whole });
  return whole;
}

/**
 * Follows the event stream: `begun` when it is open, `heard` whenever events came. Ends with `signal`, or raises. A stream
 * that cannot be had says nothing about the API: a filter between them may block this one address.
 */
export async function followEvents(signal, { begun, heard }) {
  const ending = new AbortController();
  const end = () => ending.abort();
  signal.addEventListener("abort", end);
  let silence = setTimeout(end, SILENCE_MS);
  try {
    const headers = { Accept: "text/event-stream" };
    const answer = await send("GET", "/v1/events/stream", headers, { signal: ending.signal, limit: null });
    begun();
    const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      clearTimeout(silence);
      silence = setTimeout(end, SILENCE_MS);
      const { done, value } = await text.read();
      if (done) return;
      if (value.includes("data:")) heard();
    }
  } finally {
    clearTimeout(silence);
    signal.removeEventListener("abort", end);
    end();
  }
}

/** Sends a change once; `key` is its idempotency key. Only intentions.js calls this. Raises Problem, Away. */
export async function change(method, path, body, key) {
  const answer = await send(method, path, { "Idempotency-Key": key, ...typeOf(body) }, { body });
  return answer.status === 204 ? null : bodyOf(answer);
}

/** A question with a body: it changes nothing, or nothing that binds anybody. Ends with `signal`. Raises Problem, Away. */
export const ask = async (path, body, signal) => bodyOf(await send("POST", path, typeOf(body), { body, signal }));

const typeOf = (body) => (body === undefined ? {} : { "Content-Type": "application/json" });

/** Reads a path as a file, such as `text/csv`, and saves it under this name. Raises Problem, Away. */
export async function download(path, type, name) {
  const answer = await send("GET", path, { Accept: type }, { limit: DOWNLOAD_MS });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), PATIENCE_MS);
}

/** Asks who a key belongs to, without signing in. Raises Problem, Away. */
export async function whoIs(key) {
  return bodyOf(await send("GET", "/v1/me", {}, { key }));
}

/** `limit`: milliseconds until the answer and its body are there. Null for the event stream: no limit, and no word about the API. */
async function send(method, path, headers, { body, key = session.get()?.key, signal, limit = patience() } = {}) {
  const began = Date.now();
  const late = limit === null ? null : AbortSignal.timeout(limit);
  const answer = await fetch(addressOf(path), {
    method,
    headers: { Authorization: `Bearer ${key}`, Accept: "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    signal: AbortSignal.any([signal, late].filter(Boolean)),
  }).catch((error) => {
    if (signal?.aborted || limit === null) throw error;
    if (late.aborted) heardLate(limit * 2);
    throw away("The API is unreachable.");
  });
  if (limit !== null && Date.now() - began > PATIENCE_MS) heardLate(limit);
  heardTime(answer.headers.get("Date"));
  if (limit === null && !answer.ok) throw await problemOf(answer);
  if (answer.status >= 502 && answer.status <= 504) throw away((await problemOf(answer)).message);
  awaySince.set(null);
  if (answer.ok || answer.status === 304) return answer;
  const problem = await problemOf(answer);
  if (answer.status === 401 && key === session.get()?.key) signOut("The API rejects your key. Sign in again.");
  throw problem;
}

function away(message) {
  if (awaySince.get() === null) awaySince.set(Date.now());
  return new Away(message);
}

/** An answer that breaks off, or is no JSON because it comes from a proxy, is none. Raises Away. */
async function bodyOf(answer) {
  return answer.json().catch((error) => {
    if (error.name === "TimeoutError") heardLate(patience() * 2);
    throw away("The API's answer did not arrive in full.");
  });
}

async function problemOf(answer) {
  const body = await answer.json().catch(() => null);
  return new Problem(answer.status, body);
}
