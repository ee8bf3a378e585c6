/** What admins and operators do with webhooks. Each opens a dialog first. */
import { EVENT_TYPES, METER_TYPES } from "../event_types.js";
import { go, to } from "../router.js";
import { html } from "../ui.js";
import { confirm } from "./dialogs.js";
import { reveal } from "./secrets.js";

export const FORMATS = { standard: "JSON, signed", cloudevents: "CloudEvents, signed", slack: "a sentence for a chat, not signed" };

const pathOf = (hook, action = "") => `/v1/webhooks/${encodeURIComponent(hook.id)}${action}`;

const listOrNull = (items) => (items.length ? items : null);

const show = (hook) => {
  go(to(`webhooks/${hook.id}`));
  return reveal({ name: "the webhook", secret: hook.secret, again: () => ["POST", pathOf(hook, "/rotate-secret")], done: show, lost: "For 24 hours, messages have a signature by each of the two secrets." });
};

const FIELDS = ({ url = "", description = "", event_types: types = [], format = "standard" }) => [
  { name: "url", label: "URL of the receiver", type: "url", value: url, required: true, maxlength: 2000, hint: "It must use https and lead to a public address." },
  { name: "description", label: "Note", value: description ?? "", maxlength: 200 },
  { name: "event_types", label: "Types of events (none checked: all)", kind: "checks", value: types ?? [], options: [...EVENT_TYPES, ...METER_TYPES].map((type) => [type, type]) },
  { name: "format", label: "Format", kind: "choices", value: format, options: Object.entries(FORMATS) },
];

const bodyOf = ({ url, description, event_types: types, format }) => ({ url: url.trim(), description: description.trim() || null, event_types: listOrNull(types), format });

/** `tenants`: id → name where an operator chooses, else null. */
export const createWebhook = (tenants, tenantId) =>
  confirm({
    title: "Create a webhook",
    fields: [...(tenants ? [{ name: "tenant_id", label: "Tenant", kind: "select", value: tenantId || [...tenants.keys()][0], options: [...tenants] }] : []), ...FIELDS({})],
    yes: "Create",
    request: (values) => ["POST", "/v1/webhooks", { ...bodyOf(values), ...(tenants ? { tenant_id: values.tenant_id } : {}) }],
    done: show,
  });

export const editWebhook = (hook) =>
  confirm({ title: "Edit the webhook", fields: FIELDS(hook), yes: "Save", request: (values) => ["PATCH", pathOf(hook), bodyOf(values)], done: () => "The webhook was saved." });

export const switchWebhook = (hook) =>
  confirm({
    title: hook.enabled ? "Disable the webhook?" : "Enable the webhook?",
    text: hook.enabled
      ? html`<p>It receives nothing until it is enabled again. Events of that time are not sent later; pending messages are.</p>`
      : html`<p>It receives new events, and the messages that are still pending.</p>`,
    yes: hook.enabled ? "Disable" : "Enable",
    danger: hook.enabled,
    request: () => ["PATCH", pathOf(hook), { enabled: !hook.enabled }],
    done: () => (hook.enabled ? "The webhook is disabled." : "The webhook is enabled."),
  });

export const rotateSecret = (hook) =>
  confirm({
    title: "Rotate the secret?",
    text: html`<p>For 24 hours, messages have a signature by each of the two secrets. Afterwards only the new one signs.</p>`,
    yes: "Rotate",
    danger: true,
    request: () => ["POST", pathOf(hook, "/rotate-secret")],
    done: show,
  });

export const testWebhook = (hook) =>
  confirm({
    title: "Send a test message?",
    text: html`<p>The receiver gets one message of the type <code>webhook.test</code>. The list of deliveries shows the result.</p>`,
    yes: "Send",
    request: () => ["POST", pathOf(hook, "/test")],
    done: () => "The test message is on its way.",
  });

export const replayDelivery = (hook, delivery) =>
  confirm({
    title: `Send ${delivery.event_type} again?`,
    text: html`<p>The receiver gets the same message once more, with the same <code>webhook-id</code>.</p>`,
    yes: "Send again",
    request: () => ["POST", pathOf(hook, `/deliveries/${encodeURIComponent(delivery.id)}/replay`)],
    done: () => "The message is on its way.",
  });

export const deleteWebhook = (hook) =>
  confirm({
    title: "Delete the webhook?",
    text: html`<p>No more messages go to ${hook.url}, and the list of its deliveries is deleted. This cannot be undone.</p>`,
    yes: "Delete",
    danger: true,
    request: () => ["DELETE", pathOf(hook)],
    done: () => (go(to("webhooks")), "The webhook was deleted."),
  });
