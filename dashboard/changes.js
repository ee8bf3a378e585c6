/**
 * Where changes come in. The event stream says that something happened, and what is shown is asked again; a clock asks
 * besides, for what happens without an event. What events tell all about is asked by the clock seldom while there is a stream.
 */
import { awaySince, followEvents } from "./api.js";
import { session } from "./session.js";
import { shared } from "./ui.js";

const RETRY_SECONDS = 2;
const LONGEST_RETRY_SECONDS = 30;
const SELDOM = 3;
const PATIENT_TRIES = 2;
const subscriptions = new Set();
let stream = null;
let listening = false;

/** Whether the stream cannot be had while the API answers: the page polls. */
export const withoutStream = shared(false);

/**
 * Calls `ask` (async) at once, and again and again, about every `seconds` while the page is seen. Answers the end of it.
 * `evented`: whatever changes in it has an event.
 */
export function onChange(seconds, ask, { evented = false } = {}) {
  const one = { seconds, evented, ask, timer: 0, began: 0, busy: false, again: false, told: false, ended: false };
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

/** To be called when somebody signed in or out: the stream is open while a page is signed in and seen. */
export function follow() {
  const wanted = Boolean(session.get()?.me) && !document.hidden;
  if (wanted && !stream) {
    stream = new AbortController();
    keepFollowing(stream.signal);
  } else if (!wanted && stream) {
    stream.abort();
    stream = null;
  }
}

/** Opens the stream again whenever it ends, after a pause that grows while it cannot be had. */
async function keepFollowing(signal) {
  let pauses = 0;
  while (!signal.aborted) {
    const begun = () => {
      listening = true;
      pauses = 0;
      withoutStream.set(false);
      hear();
    };
    await followEvents(signal, { begun, heard: hear }).catch(() => {});
    if (signal.aborted) break;
    listening = false;
    if (pauses >= PATIENT_TRIES && awaySince.get() === null) withoutStream.set(true);
    await asleep(Math.min(RETRY_SECONDS * 2 ** pauses++, LONGEST_RETRY_SECONDS));
  }
  if (stream === null || stream.signal === signal) listening = false;
}

const asleep = (seconds) => new Promise((wake) => setTimeout(wake, seconds * 1000 * (0.8 + Math.random() * 0.4)));

/** Something happened: at once what was not asked lately, in the middle of its pause what was. */
function hear() {
  for (const one of subscriptions) {
    one.told = true;
    if (one.busy) {
      one.again = true;
      continue;
    }
    clearTimeout(one.timer);
    one.timer = setTimeout(run, one.began + one.seconds * 500 - Date.now(), one);
  }
}

async function run(one) {
  clearTimeout(one.timer);
  if (one.busy) {
    one.again = true;
    return;
  }
  one.busy = true;
  one.again = false;
  one.began = Date.now();
  await one.ask();
  one.busy = false;
  if (one.ended || document.hidden) return;
  one.timer = setTimeout(run, one.again ? 0 : pause(one), one);
}

/**
 * A tenth of disorder, so that many pages do not ask in step. While the API is away, all ask often. What was heard may be
 * told a moment later by some answers: the next question after it comes in its usual time.
 */
function pause(one) {
  const usual = listening && one.evented && !one.told ? one.seconds * SELDOM : one.seconds;
  const chosen = awaySince.get() === null ? usual : Math.min(one.seconds, RETRY_SECONDS);
  one.told = false;
  return chosen * 1000 * (0.9 + Math.random() * 0.2);
}

document.addEventListener("visibilitychange", () => {
  follow();
  if (!document.hidden) nudge();
});
