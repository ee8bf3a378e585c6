/**
 * What a person wants once, however often it is sent. A form or dialog has one intention. Each set of its values has one
 * idempotency key until the API has answered: a repeated press then gets the first answer, and nothing is done twice.
 */
import { Away, change } from "./api.js";
import { session } from "./session.js";

const PAUSES_MS = [1000, 2000];

/** No answer says whether the change was made. The same press sends the same request with the same key. */
export class Unanswered extends Error {
  constructor(why, risk) {
    super(`${why} ${risk}`);
  }
}

/**
 * The sender of one form or dialog: `send(values, request)` resolves to the API's answer. `request()` makes
 * `[method, path, body]` of these values; it is called once for each set of values, because a body may contain a time.
 * `risk`: the sentence for a missing answer. Raises Problem, Unanswered, and what `request` raises.
 */
export function intention(risk = "The change may have been made already.") {
  const open = new Map();
  return async (values, request) => {
    const name = JSON.stringify(values);
    if (!open.has(name)) open.set(name, { request: request(), key: newKey(), unanswered: false });
    const one = open.get(name);
    try {
      const answer = await settle(one, risk);
      open.delete(name);
      return answer;
    } catch (error) {
      if (!one.unanswered) open.delete(name);
      throw error;
    }
  };
}

const newKey = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;

const asleep = (ms) => new Promise((wake) => setTimeout(wake, ms));

/** Asks again, with the same key, before it says that nobody knows. */
async function settle(one, risk) {
  const me = session.get()?.key;
  const [method, path, body] = one.request;
  for (const pause of [...PAUSES_MS, null]) {
    try {
      return await change(method, path, body, one.key);
    } catch (error) {
      if (one.unanswered && method === "DELETE" && error.code === "not_found") return null;
      one.unanswered = isUnknown(error, one.unanswered);
      if (!one.unanswered) throw error;
      if (pause === null) throw new Unanswered(error.message, risk);
    }
    await asleep(pause);
    if (session.get()?.key !== me) throw new Unanswered("The session ended.", risk);
  }
}

/**
 * Whether the request may have been carried out, or still be. The API looks for the first answer before it refuses, so that
 * a refusal settles earlier tries too. Rate limits and proxies (`code` is null) refuse before that.
 */
const isUnknown = (error, before) =>
  error instanceof Away || error.status >= 500 || error.code === "idempotency_in_flight" || (before && (error.code === null || error.status === 429));
