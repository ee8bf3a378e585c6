import type { Client } from "openapi-fetch";
import { GpuleaseError } from "./errors.js";
import { iterate } from "./pages.js";
import { sleep } from "./retries.js";
import type { components, operations, paths } from "./schema.js";

export type Event = components["schemas"]["Event"];
export type EventFilters = NonNullable<operations["list_events"]["parameters"]["query"]>;

/** Seconds. The server sends a comment every 15 s, so a longer silence is a broken connection. */
const SILENCE = 45;

export interface StreamOptions {
  /** Start after this `sequence`. Without it the stream starts with new events. */
  after?: number;
  /** Only events of this lease. */
  leaseId?: string;
  signal?: AbortSignal;
}

/** `/v1/events`. */
export class Events {
  readonly #api: Client<paths>;

  constructor(api: Client<paths>) {
    this.#api = api;
  }

  /** Past events in order, page after page. */
  list(query: EventFilters = {}): AsyncGenerator<Event> {
    return iterate((cursor) => this.#api.GET("/v1/events", { params: { query: { ...query, ...cursor } } }));
  }

  /**
   * Events as they happen, without end. The iterator reconnects after the last event that it has returned.
   *
   * Throws the error of a connection that fails after all retries, and `cursor_expired` when the events after that
   * point have been deleted.
   */
  async *stream(options: StreamOptions = {}): AsyncGenerator<Event> {
    const position: Position = { retrySeconds: 2 };
    if (options.after !== undefined) position.lastId = options.after;
    for (;;) {
      try {
        yield* this.#connection(position, options);
      } catch (error) {
        // a break within a response; opening the next one throws if the API stays away
        if (error instanceof GpuleaseError || options.signal?.aborted) throw error;
      }
      await sleep(position.retrySeconds, options.signal);
    }
  }

  /** The events of one connection. */
  async *#connection(position: Position, { leaseId, signal }: StreamOptions): AsyncGenerator<Event> {
    const end = new AbortController();
    const stop = () => end.abort(signal?.reason);
    signal?.throwIfAborted();
    signal?.addEventListener("abort", stop);
    try {
      const { response } = await this.#api.GET("/v1/events/stream", {
        params: {
          query: leaseId === undefined ? {} : { lease_id: leaseId },
          header: position.lastId === undefined ? {} : { "Last-Event-ID": position.lastId },
        },
        parseAs: "stream",
        signal: end.signal,
      });
      for await (const block of blocks(response, end)) {
        const event = parse(block, position);
        if (event !== undefined) yield event;
      }
    } finally {
      signal?.removeEventListener("abort", stop);
      end.abort();
    }
  }
}

interface Position {
  lastId?: number;
  retrySeconds: number;
}

/**
 * The blocks of a stream, until it ends or `end` is aborted. A connection that is silent for too long ends too.
 *
 * The end cancels the reader itself. Signals that follow `end.signal`, such as the request's, may be collected as garbage
 * while the stream is open, and then no abort reaches the connection through them.
 */
async function* blocks(response: Response, end: AbortController): AsyncGenerator<string> {
  if (response.body === null) return;
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  const cancel = () => void reader.cancel(end.signal.reason).catch(() => {});
  end.signal.addEventListener("abort", cancel);
  for (let rest = ""; ; ) {
    end.signal.throwIfAborted();
    const timer = setTimeout(() => end.abort(), SILENCE * 1000);
    const { done, value } = await reader.read().finally(() => clearTimeout(timer));
    end.signal.throwIfAborted();
    if (done) return;
    const parts = (rest + decoder.decode(value, { stream: true })).replace(/\r\n?/g, "\n").split("\n\n");
    rest = parts.pop() ?? "";
    yield* parts;
  }
}

/** The event of a block, if it has one. Keeps what a reconnection needs. */
function parse(block: string, position: Position): Event | undefined {
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const [, field, value = ""] = /^(data|id|retry): ?(.*)$/.exec(line) ?? [];
    if (field === "data") data.push(value);
    if (field === "id" && /^[0-9]+$/.test(value)) position.lastId = Number(value);
    if (field === "retry" && /^[0-9]+$/.test(value)) position.retrySeconds = Number(value) / 1000;
  }
  return data.length > 0 ? (JSON.parse(data.join("\n")) as Event) : undefined;
}
