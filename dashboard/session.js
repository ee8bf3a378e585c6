/** Who is signed in. The key lives in this tab's sessionStorage alone, or in memory: never in an address, never in a file. */
import { load, save } from "./storage.js";
import { shared } from "./ui.js";

const PLACE = "gpulease.key";

/** `{key, me}` or null; `me` is the answer of /v1/me, null until it came. */
export const session = shared(read());

/** Why the last session ended, for the sign-in page; null when it was the user's wish. */
export const farewell = shared(null);

function read() {
  const key = load("sessionStorage", PLACE);
  return key ? { key, me: null } : null;
}

/** Whether the key survives a reload of the page. */
export const staysAfterReload = () => save("sessionStorage", `${PLACE}.test`, "") && save("sessionStorage", `${PLACE}.test`, null);

export function signIn(key, me) {
  save("sessionStorage", PLACE, key);
  farewell.set(null);
  session.set({ key, me });
}

export function signOut(why = null) {
  save("sessionStorage", PLACE, null);
  farewell.set(why);
  session.set(null);
}

/** A viewer only reads. */
export const mayManageLeases = () => ["operator", "admin", "member"].includes(session.get()?.me?.role);
