/** The dialogs that create, change and delete a budget, and who may use them. */
import { usd } from "../format.js";
import { session } from "../session.js";
import { html } from "../ui.js";
import { ACTIONS } from "./budgets.js";
import { confirm } from "./dialogs.js";

/** Operators change every budget, admins those that admins have set. */
export function mayChange(budget) {
  const role = session.get()?.me?.role;
  return role === "operator" || (role === "admin" && budget.set_by === "admin");
}

const KINDS = [["tenant", "all leases of the tenant"], ["key", "leases of one API key"], ["label", "leases with a label"]];
const LASTING = [["day", "each day, UTC"], ["month", "each month, UTC"], ["lifetime", "in all, without a reset"]];

const TERMS = (budget) => [
  { name: "amount", label: "Amount, USD", inputmode: "decimal", required: true, value: budget?.amount ?? "", placeholder: "100.00" },
  { name: "thresholds", label: "Notify at percent of the amount", value: (budget?.thresholds ?? [50, 80, 100]).join(", "), placeholder: "none" },
  { name: "when_exceeded", label: "When exceeded", kind: "choices", value: budget?.when_exceeded ?? "refuse", options: Object.entries(ACTIONS) },
];

/** The terms as the API takes them. What is no number the API refuses. */
export const termsOf = ({ amount, thresholds, when_exceeded }) => ({
  amount: amount.trim(),
  thresholds: thresholds.split(/[\s,%]+/).filter(Boolean).map(Number),
  when_exceeded,
});

/** `tenants`: names by id, for operators to choose from; null: the tenant of the key. `keys`: ids and names of the API keys of the tenant. */
export function createBudget({ tenants = null, tenantId = "", keys = [] }) {
  const is = (kind) => (values) => values["scope/kind"] === kind;
  confirm({
    title: "Create a budget",
    fields: [
      tenants && { name: "scope/tenant_id", label: "Tenant", kind: "select", required: true, value: tenantId, options: [["", "choose a tenant"], ...tenants] },
      { name: "scope/kind", label: "Counts", kind: "choices", value: "tenant", options: KINDS.filter(([kind]) => kind !== "key" || keys.length) },
      { name: "scope/key_id", label: "API key", kind: "select", value: keys[0]?.[0] ?? "", options: keys, when: is("key") },
      { name: "scope/label", label: "Label", value: "", required: true, placeholder: "team:vision", when: is("label") },
      { name: "period", label: "Period", kind: "select", value: "month", options: LASTING },
      ...TERMS(null),
    ].filter(Boolean),
    yes: "Create",
    request: (values) => {
      const kind = values["scope/kind"];
      const scope = {
        kind,
        tenant_id: values["scope/tenant_id"] || undefined,
        key_id: kind === "key" ? values["scope/key_id"] : undefined,
        label: kind === "label" ? values["scope/label"].trim() : undefined,
      };
      return ["POST", "/v1/budgets", { scope, period: values.period, ...termsOf(values) }];
    },
    done: () => "The budget was created.",
  });
}

export const editBudget = (budget, name) =>
  confirm({
    title: `Change the budget: ${name}`,
    text: html`<p>An amount below what is spent and committed takes effect at once.</p>`,
    fields: TERMS(budget),
    yes: "Save",
    request: (values) => ["PATCH", `/v1/budgets/${budget.id}`, termsOf(values)],
    done: () => "The budget was saved.",
  });

export const deleteBudget = (budget, name) =>
  confirm({
    title: `Delete the budget: ${name}?`,
    text: html`<p>Nothing limits the spending of ${usd(budget.amount)} any more. Leases run on.</p>`,
    yes: "Delete",
    danger: true,
    request: () => ["DELETE", `/v1/budgets/${budget.id}`],
    done: () => "The budget was deleted.",
  });
