import createClient, { type Client } from "openapi-fetch";
import { VERSION } from "./described.js";
import { NotConfiguredError } from "./errors.js";
import { Events } from "./events.js";
import { Leases } from "./leases.js";
import { pathOf } from "./paths.js";
import { type Fetch, RETRIES, type Retries, retryingFetch, TIMEOUT } from "./retries.js";
import type { paths } from "./schema.js";
import { SshKeys } from "./ssh_keys.js";
import { Volumes } from "./volumes.js";
import { Usage } from "./usage.js";

export interface Options {
  /** The address of the API. `GPULEASE_URL` by default. */
  url?: string;
  /** The API key. `GPULEASE_KEY` by default. */
  key?: string;
  retries?: Partial<Retries>;
  /** Seconds for one try: until its answer is complete, or until a stream begins. 60 by default. The seconds of a long poll come on top. */
  timeout?: number;
  /** Sends a request once, for proxies and tests. The global `fetch` by default. */
  fetch?: Fetch;
}

/** A connection to one API with one key. */
export class Gpulease {
  /** Every operation of the API, typed. It repeats what is safe to repeat, and throws the errors of this package. */
  readonly api: Client<paths>;
  readonly leases: Leases;
  readonly events: Events;
  readonly sshKeys: SshKeys;
  readonly volumes: Volumes;
  readonly usage: Usage;

  constructor(options: Options = {}) {
    const environment: Record<string, string | undefined> = globalThis.process?.env ?? {};
    const url = options.url ?? environment.GPULEASE_URL;
    const key = options.key ?? environment.GPULEASE_KEY;
    if (!url || !key) throw new NotConfiguredError("pass url and key, or set GPULEASE_URL and GPULEASE_KEY");
    this.api = createClient<paths>({
      baseUrl: url.replace(/\/+$/, ""),
      headers: { Authorization: `Bearer ${key}`, "User-Agent": `gpulease-client-typescript/${VERSION}` },
      fetch: retryingFetch(
        options.fetch ?? ((request) => fetch(request)),
        { ...RETRIES, ...options.retries },
        options.timeout ?? TIMEOUT,
      ),
      pathSerializer: pathOf,
    });
    this.leases = new Leases(this.api);
    this.events = new Events(this.api);
    this.sshKeys = new SshKeys(this.api);
    this.volumes = new Volumes(this.api);
    this.usage = new Usage(this.api);
  }
}
