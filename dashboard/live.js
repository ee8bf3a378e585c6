/** Data that stay up to date while a component shows them. Components that show the same share one question. */
import { get, getAll, remembered } from "./api.js";
import { onChange } from "./changes.js";
import { useLayoutEffect, useReducer, useRef } from "./ui.js";

const sources = new Map();
const EVENTED = /^\/v1\/(leases|events)\b(?!.*\/metrics\b)/;
const SAMPLED = /^\/v1\/leases(\/[^/?]+)?(\?|$)/;
const SAMPLE_MS = 60_000; // utilization and idleness of leases change once a minute, without a new version

/**
 * `{data, error, settled}` of a path, asked about every `seconds`. `data` is undefined before the first answer, or with
 * `keep` what was shown under the path before; `settled` says that it belongs to this path. A null path asks nothing.
 * `all`: every page of a list; a number: at most so many pages.
 */
export function useLive(path, seconds = 5, { all = false, keep = false } = {}) {
  const [, again] = useReducer((count) => count + 1, 0);
  const shown = useRef(undefined);
  useLayoutEffect(() => (path ? listen(path, seconds, all, again) : undefined), [path, seconds, all]);
  const source = path ? sources.get(path) : undefined;
  const data = source?.data ?? (path && !all ? remembered(path) : undefined);
  if (data !== undefined || !keep) shown.current = data;
  return { data: shown.current, error: source?.error ?? null, settled: data !== undefined };
}

function listen(path, seconds, all, listener) {
  const source = sources.get(path) ?? open(path, seconds, all);
  source.listeners.add(listener);
  return () => {
    source.listeners.delete(listener);
    // another view may ask for the same in this very moment
    queueMicrotask(() => {
      if (source.listeners.size || sources.get(path) !== source) return;
      source.stop();
      sources.delete(path);
    });
  };
}

function open(path, seconds, all) {
  const source = { data: undefined, error: null, listeners: new Set(), stop: null };
  sources.set(path, source);
  const ask = async () => {
    const before = { ...source };
    try {
      source.data = await (all ? getAll(path, all === true ? undefined : all) : get(path, SAMPLED.test(path) ? SAMPLE_MS : undefined));
      source.error = null;
    } catch (error) {
      source.error = error;
    }
    if (before.data !== source.data || before.error !== source.error) for (const tell of [...source.listeners]) tell();
  };
  source.stop = onChange(seconds, ask, { evented: EVENTED.test(path) });
  return source;
}
