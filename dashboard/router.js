/** Addresses after the #: `#/leases?state=active`. A filter lives in the address, so that every number can link to it. */
import { shared } from "./ui.js";

const PATIENCE_MS = 3000;
const positions = new Map(); // history entry → scroll position
let last = 0;

/**
 * `{parts, query, entry, position}` of the present address. `position` is where the page was scrolled to when its history
 * entry was left, null for a new entry.
 */
export const route = shared(parse());

function parse() {
  const known = history.state?.entry;
  const entry = known ?? `${Date.now()}-${(last += 1)}`;
  if (!known) history.replaceState({ entry }, "");
  return { ...addressed(), entry, position: positions.get(entry) ?? null };
}

/** What the address says now: `hashchange`, which sets the route, comes later. */
function addressed() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query ?? "") };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

history.scrollRestoration = "manual";
addEventListener("hashchange", () => {
  positions.set(route.get().entry, scrollY); // not at "scroll" events: the last one may come after the address has changed
  route.set(parse());
});

/** Scrolls to `position` as soon as the page is long enough: a view grows when its data arrive. The user's own scrolling ends it. */
export function restoreScroll(position) {
  const given = new AbortController();
  for (const kind of ["wheel", "touchstart", "keydown"]) addEventListener(kind, () => given.abort(), { once: true, passive: true, signal: given.signal });
  const deadline = performance.now() + PATIENCE_MS;
  const { entry } = route.get();
  const step = () => {
    if (given.signal.aborted || route.get().entry !== entry) return;
    const late = performance.now() > deadline;
    if (late || document.documentElement.scrollHeight - innerHeight >= position) {
      given.abort();
      scrollTo(0, position);
    } else requestAnimationFrame(step);
  };
  step();
}

/** An address: `to("leases", {state: "active"})`. Empty values are left out, lists are repeated. */
export function to(path, query = {}) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one !== null && one !== undefined && one !== "") found.append(name, one);
  }
  const text = found.toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

/** The present address with some filters changed; null removes one. A changed filter begins at the first page. */
export function refined(changes) {
  const { parts, query } = addressed();
  const before = {};
  for (const name of query.keys()) before[name] = query.getAll(name);
  return to(parts.map(encodeURIComponent).join("/"), { ...before, cursor: null, ...changes });
}

/** Goes to an address. `replace`: without a step in the history, for what is typed. */
export function go(address, { replace = false } = {}) {
  if (replace) {
    history.replaceState(history.state, "", address);
    route.set(parse());
  } else location.hash = address;
}
