/** A tenant's keys: SSH keys for its VMs, and API keys for its admins. */
import { ApiKeys } from "../parts/api_keys.js";
import { Head } from "../parts/basics.js";
import { SshKeys } from "../parts/ssh_keys.js";
import { html } from "../ui.js";

export const Keys = ({ me }) => html`
  <${Head} title="Keys" sub=${me.role === "admin" ? "SSH keys for VMs, API keys for people and programs" : "SSH keys for VMs"} />
  <${SshKeys} me=${me} />
  ${me.role === "admin" && html`<${ApiKeys} tenantId=${me.tenant_id} />`}
`;
