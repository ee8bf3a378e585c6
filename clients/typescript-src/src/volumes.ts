import type { Client } from "openapi-fetch";
import { data, iterate } from "./pages.js";
import type { components, operations, paths } from "./schema.js";

export type Volume = components["schemas"]["Volume"];
export type NewVolume = components["schemas"]["NewVolume"];
export type VolumeFilters = NonNullable<operations["list_volumes"]["parameters"]["query"]>;

/** `/v1/volumes`: disks that outlive leases. */
export class Volumes {
  readonly #api: Client<paths>;

  constructor(api: Client<paths>) {
    this.#api = api;
  }

  /** Creates a volume: an empty disk in one zone. */
  create(body: NewVolume): Promise<Volume> {
    return data(this.#api.POST("/v1/volumes", { body }));
  }

  /** Reads a volume. */
  get(volumeId: string): Promise<Volume> {
    return data(this.#api.GET("/v1/volumes/{volume_id}", { params: { path: { volume_id: volumeId } } }));
  }

  /** All volumes of the tenant, page after page. */
  list(query: VolumeFilters = {}): AsyncGenerator<Volume> {
    return iterate((cursor) => this.#api.GET("/v1/volumes", { params: { query: { ...query, ...cursor } } }));
  }

  /** Deletes a volume and all data on it. A volume in use is refused. */
  delete(volumeId: string): Promise<Volume> {
    return data(this.#api.DELETE("/v1/volumes/{volume_id}", { params: { path: { volume_id: volumeId } } }));
  }
}
