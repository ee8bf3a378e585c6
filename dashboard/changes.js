/**
 * Where changes come in. Today a clock asks again; an event stream may take its place: call `ask` of a subscription
 * whenever something was heard that concerns it, and let the clock run as the slow second line. Nothing else need change.
 */
import { awaySince } from "./api.js";

const RETRY_SECONDS = 2;
const subscriptions = new Set();

/** Calls `ask` (async) at once, and again and again, about every `seconds` while the page is seen. Answers the end of it. */
export function onChange(seconds, ask) {
  const one = { seconds, ask, timer: 0, busy: false, again: false, ended: false };
  subscriptions.add(one);
  run(one);
  return () => {
    one.ended = true;
    clearTimeout(one.timer);
    subscriptions.delete(one);
  };
}

/** Something was changed from here: asks everything again now. */
export function nudge() {
  for (const one of subscriptions) run(one);
}

async function run(one) {
  clearTimeout(one.timer);
  if (one.busy) {
    one.again = true;
    return;
  }
  one.busy = true;
  one.again = false;
  await one.ask();
  one.busy = false;
  if (one.ended) return;
  if (one.again) run(one);
  else if (!document.hidden) one.timer = setTimeout(run, pause(one.seconds), one);
}

/** A tenth of disorder, so that many pages do not ask in step. While the API is away, all ask often. */
function pause(seconds) {
  const chosen = awaySince.get() === null ? seconds : Math.min(seconds, RETRY_SECONDS);
  return chosen * 1000 * (0.9 + Math.random() * 0.2);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) nudge();
});
