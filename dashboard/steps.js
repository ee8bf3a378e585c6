/** Steps of reports over time: hours, days and months of UTC. Times are seconds since 1970. */
import { monthName } from "./format.js";

export const HOUR = 3600;
export const DAY = 24 * HOUR;

/** The length of a step; months are as long as the longest. */
export const LENGTHS = { hour: HOUR, day: DAY, month: 31 * DAY };

/** The start of the step after the one that begins at `start`. */
export function after(start, step) {
  if (step !== "month") return start + LENGTHS[step];
  const first = new Date(start * 1000);
  return Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1) / 1000;
}

/** The first start of a step that is not before `moment`. */
export function ceiling(moment, step) {
  if (step !== "month") return Math.ceil(moment / LENGTHS[step]) * LENGTHS[step];
  const day = new Date(moment * 1000);
  const first = Date.UTC(day.getUTCFullYear(), day.getUTCMonth()) / 1000;
  return first === moment ? first : after(first, "month");
}

/** The start of a month so many months before the one that begins at `start`. */
export function monthsBefore(start, months) {
  const first = new Date(start * 1000);
  return Date.UTC(first.getUTCFullYear(), first.getUTCMonth() - months) / 1000;
}

/** The starts of all steps from `first` to `last`, and the place of each among them. */
export function stepsBetween(first, last, step) {
  const starts = [];
  for (let start = first; start < last; start = after(start, step)) starts.push(start);
  return { starts, places: new Map(starts.map((start, place) => [start, place])) };
}

/** A moment as the API takes it. */
export const asTime = (seconds) => new Date(seconds * 1000).toISOString().replace(".000", "");

const MONTHS = 13; // usage records are kept for 400 days

/** The present month and those before it, as `[["2026-11", "November 2026"], …]`. */
export function lastMonths(moment) {
  const today = new Date(moment);
  return Array.from({ length: MONTHS }, (_, back) => {
    const first = new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - back));
    return [first.toISOString().slice(0, 7), monthName(first)];
  });
}
