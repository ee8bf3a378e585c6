/** Costs as files: the shown report as CSV, and a month of usage in the format FOCUS. */
import { download } from "../api.js";
import { now } from "../clock.js";
import { lastMonths } from "../steps.js";
import { html } from "../ui.js";
import { confirm, say } from "./dialogs.js";
import { Icon } from "./icons.js";

async function save(path, range) {
  try {
    await download(path, "text/csv", `costs-${range}.csv`);
  } catch (problem) {
    say(problem.message, "bad");
  }
}

function saveMonth(tenantId) {
  const months = lastMonths(now());
  const tenant = tenantId ? `&tenant_id=${encodeURIComponent(tenantId)}` : "";
  confirm({
    title: "Export usage as FOCUS",
    text: html`<p>A CSV file in the format FOCUS 1.2, as other cloud bills have it: a row for each machine, disk or address and hour. The current hour is not part of it.</p>`,
    fields: [{ name: "month", label: "Month, UTC", kind: "select", value: months[0][0], options: months }],
    yes: "Download",
    act: async ({ month }) => {
      await download(`/v1/costs/focus?month=${month}${tenant}`, "text/csv", `focus-${month}.csv`);
      return null;
    },
  });
}

/** `path`: of the shown report. Only admins and operators export usage as FOCUS. */
export const Downloads = ({ path, range, tenantId, me }) => html`
  <button type="button" onClick=${() => save(path, range)}><${Icon} name="download" />CSV</button>
  ${["operator", "admin"].includes(me.role) && html`<button type="button" onClick=${() => saveMonth(tenantId)}><${Icon} name="download" />FOCUS</button>`}
`;
