import type { Client } from "openapi-fetch";
import { data, iterate } from "./pages.js";
import type { components, operations, paths } from "./schema.js";

export type SshKey = components["schemas"]["SshKey"];
export type NewSshKey = components["schemas"]["NewSshKey"];
export type SshKeyPatch = components["schemas"]["SshKeyPatch"];
export type SshKeyFilters = NonNullable<operations["list_ssh_keys"]["parameters"]["query"]>;

/** `/v1/ssh-keys`: public keys with which leases are created. */
export class SshKeys {
  readonly #api: Client<paths>;

  constructor(api: Client<paths>) {
    this.#api = api;
  }

  /** Stores a public key. */
  create(body: NewSshKey): Promise<SshKey> {
    return data(this.#api.POST("/v1/ssh-keys", { body }));
  }

  /** All keys of the tenant, page after page. */
  list(query: SshKeyFilters = {}): AsyncGenerator<SshKey> {
    return iterate((cursor) => this.#api.GET("/v1/ssh-keys", { params: { query: { ...query, ...cursor } } }));
  }

  /** Changes the name, or whether the key is a default key. */
  update(sshKeyId: string, body: SshKeyPatch): Promise<SshKey> {
    return data(this.#api.PATCH("/v1/ssh-keys/{ssh_key_id}", { params: { path: { ssh_key_id: sshKeyId } }, body }));
  }

  /** Deletes a key. VMs that have the key keep it. */
  async delete(sshKeyId: string): Promise<void> {
    await this.#api.DELETE("/v1/ssh-keys/{ssh_key_id}", { params: { path: { ssh_key_id: sshKeyId } } });
  }
}
