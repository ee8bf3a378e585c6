export { Gpulease, type Options } from "./client.js";
export type { ProblemCode } from "./described.js";
export * from "./errors.js";
export { type Event, type EventFilters, Events, type StreamOptions } from "./events.js";
export * from "./leases.js";
export { data, iterate } from "./pages.js";
export type { Fetch, Retries } from "./retries.js";
export type { components, operations, paths } from "./schema.js";
