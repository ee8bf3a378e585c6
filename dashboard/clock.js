/** The server's time, and a heartbeat for what changes with time alone. */
import { useLayoutEffect, useReducer } from "./ui.js";

const TOLERATED_MS = 2000;
let offset = 0;

/** `date`: the Date header of an answer, whole seconds. Only a clock that is really off is corrected. */
export function heardTime(date) {
  const told = Date.parse(date ?? "");
  if (Number.isNaN(told)) return;
  const found = told + 500 - Date.now();
  if (Math.abs(found - offset) > TOLERATED_MS) offset = Math.abs(found) > TOLERATED_MS ? found : 0;
}

/** Milliseconds now, by the server's clock. */
export const now = () => Date.now() + offset;

const listeners = new Set();
let timer = 0;

/** Milliseconds now; the component renders again every second. Use it in small components. */
export function useNow() {
  const [, again] = useReducer((count) => count + 1, 0);
  useLayoutEffect(() => {
    listeners.add(again);
    timer ||= setInterval(() => listeners.forEach((listener) => listener()), 1000);
    return () => {
      listeners.delete(again);
      if (!listeners.size) {
        clearInterval(timer);
        timer = 0;
      }
    };
  }, []);
  return now();
}
