/** Addresses after the #: `#/leases?state=active`. A filter lives in the address, so that every number can link to it. */
import { shared } from "./ui.js";

/** `{parts, query}` of the present address. */
export const route = shared(parse());

function parse() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query ?? "") };
}

addEventListener("hashchange", () => route.set(parse()));

/** An address: `to("leases", {state: "active"})`. Empty values are left out, lists are repeated. */
export function to(path, query = {}) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one !== null && one !== undefined && one !== "") found.append(name, one);
  }
  const text = found.toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

/** The present address with some filters changed; null takes one away. A changed filter begins at the first page. */
export function refined(changes) {
  const { parts, query } = route.get();
  const before = {};
  for (const name of query.keys()) before[name] = query.getAll(name);
  return to(parts.map(encodeURIComponent).join("/"), { ...before, cursor: null, ...changes });
}

/** Goes to an address. `replace`: without a step in the history, for what is typed. */
export function go(address, { replace = false } = {}) {
  if (replace) {
    history.replaceState(null, "", address);
    route.set(parse());
  } else location.hash = address;
}
