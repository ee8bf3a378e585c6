/** The limits of a tenant: a list with their use, and the dialog that changes them. */
import { count, resourceName, usd } from "../format.js";
import { html } from "../ui.js";
import { Meter } from "./basics.js";
import { confirm } from "./dialogs.js";

export const SPEND = "spend_per_hour";
export const MAIN = ["gpus", "leases", SPEND];
const MODEL = "gpus:";

const showing = (resource) => (resource === SPEND ? usd : (value) => count(Number(value)));

/** Without a limit, `gpus` allows none; every other resource is unlimited. */
export function Use({ quota, resource }) {
  if (!quota) return html`<span class="muted">${resource === "gpus" ? "none allowed" : "no limit"}</span>`;
  if (quota.limit === null && resource === "gpus") return html`<span class="muted">none allowed</span>`;
  return html`<${Meter} used=${quota.used} limit=${quota.limit} show=${showing(resource)} />`;
}

/** Totals first, then each GPU model. */
export const Limits = ({ items }) => html`
  <ul class="limits">
    ${[...MAIN.flatMap((name) => items.filter((one) => one.resource === name)), ...items.filter((one) => !MAIN.includes(one.resource))].map((one) => html`<li key=${one.resource}><span class="strong">${resourceName(one.resource)}</span><${Use} quota=${one} resource=${one.resource} /></li>`)}
  </ul>
`;

/** Shows every limit of the tenant and replaces them all. An empty field is no limit. */
export function editQuotas(tenant, items) {
  const limitOf = (resource) => String(items.find((one) => one.resource === resource)?.limit ?? "");
  const models = items.filter((one) => one.resource.startsWith(MODEL) && one.limit !== null);
  confirm({
    title: `Quotas of ${tenant.name}`,
    text: html`<p>Limits of concurrent use. An empty field is no limit. Running leases are not ended when you lower a limit.</p>`,
    fields: [
      { name: "gpus", label: "GPUs", type: "number", min: 0, value: limitOf("gpus"), placeholder: "none allowed" },
      { name: "leases", label: "Leases", type: "number", min: 0, value: limitOf("leases"), placeholder: "no limit" },
      { name: SPEND, label: "USD per hour, VMs", inputmode: "decimal", pattern: "[0-9]{1,8}([.][0-9]{1,6})?", value: limitOf(SPEND), placeholder: "no limit" },
      { name: "models", label: "GPUs by model, one model=limit per line", kind: "textarea", value: models.map((one) => `${one.resource.slice(MODEL.length)}=${one.limit}`).join("\n"), placeholder: "A100=8" },
    ],
    yes: "Save",
    request: (values) => ["PUT", `/v1/tenants/${tenant.id}/quotas`, { limits: limitsOf(values) }],
    done: () => `The quotas of ${tenant.name} were saved.`,
  });
}

/** Raises Error for a line that is no `model=limit`. */
function limitsOf({ models, ...main }) {
  const limits = Object.entries(main).filter(([, limit]) => limit.trim() !== "");
  for (const line of models.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const [model, limit, more] = line.split("=").map((one) => one.trim());
    if (!model || !/^\d+$/.test(limit ?? "") || more !== undefined) throw new Error(`Write each line as model=limit, such as A100=8, not "${line}".`);
    limits.push([MODEL + model, limit]);
  }
  return limits.map(([resource, limit]) => ({ resource, limit: resource === SPEND ? limit.trim() : Number(limit) }));
}
