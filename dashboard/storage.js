/** What the browser keeps for the page. A browser may refuse it, have no room or throw it away: each value is also in memory. */

/** The value under a name, null where there is none or the browser refuses. `kind`: `sessionStorage` or `localStorage`. */
export function load(kind, name) {
  try {
    return window[kind].getItem(name);
  } catch {
    return null;
  }
}

/** Keeps a value, or with null nothing. Whether the browser did so. */
export function save(kind, name, value) {
  try {
    if (value === null) window[kind].removeItem(name);
    else window[kind].setItem(name, value);
    return true;
  } catch {
    return false;
  }
}
