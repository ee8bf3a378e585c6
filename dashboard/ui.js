/** The rendering helper: `html` templates on Preact, and its hooks. Everything else imports from here. */
import { h, render } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export { render, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState };

/** Class names out of those that hold: `classes("row", busy && "busy")`. */
export const classes = (...names) => names.filter(Boolean).join(" ");

/** A value that several components share: `use()` in a component renders again when `set(value)` changes it. */
export function shared(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    use() {
      const [, again] = useReducer((count) => count + 1, 0);
      useLayoutEffect(() => {
        listeners.add(again);
        return () => listeners.delete(again);
      }, []);
      return value;
    },
  };
}
