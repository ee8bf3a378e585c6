/** Secrets that the API returns only once. */
import { html } from "../ui.js";
import { Copy } from "./basics.js";
import { confirm } from "./dialogs.js";

/**
 * Shows the secret of a key or webhook. It is null when the first answer did not arrive: then `again` makes the request for a
 * new one, `done` takes its answer, and `lost` says what that means. Answers null: no message is needed.
 */
export function reveal({ name, secret, again, done, lost = "" }) {
  if (secret === null) {
    confirm({
      title: `The secret of ${name} is lost`,
      text: html`<p>${name} has a secret, but the API's answer with it did not arrive. gpulease does not show it again.</p><p>Get a new secret.${lost && ` ${lost}`}</p>`,
      yes: "Get a new secret",
      request: again,
      done,
    });
  } else {
    confirm({
      title: `The secret of ${name}`,
      text: html`<p>Copy the secret now. gpulease does not show it again.</p><${Copy} text=${secret} label="secret" block />`,
      yes: "Done",
      cancel: false,
      act: async () => null,
    });
  }
  return null;
}
