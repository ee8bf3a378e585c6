/** Signing in with an API key. */
import { Away, whoIs } from "../api.js";
import { Icon } from "../parts/icons.js";
import { farewell, signIn, staysAfterReload } from "../session.js";
import { html, useEffect, useState } from "../ui.js";

export function SignIn() {
  const parting = farewell.use();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [lasting] = useState(staysAfterReload);
  useEffect(() => {
    document.title = "Sign in · gpulease";
  }, []);
  const enter = async (event) => {
    event.preventDefault();
    const key = new FormData(event.currentTarget).get("key").trim();
    setBusy(true);
    setError(null);
    try {
      signIn(key, await whoIs(key));
    } catch (problem) {
      setBusy(false);
      if (!(problem instanceof Away)) setError(problem.status === 401 ? "This key is unknown or no longer valid." : problem.message);
      else setError("The API does not respond. Try again in a moment.");
    }
  };
  return html`
    <main class="signin">
      <form onSubmit=${enter}>
        <img src="icon.svg" alt="" width="40" height="40" />
        <h1>Sign in to gpulease</h1>
        <p class="muted">Use an API key of an operator or of your tenant. ${lasting ? "The browser keeps the key only until you close this tab." : "Your browser stores nothing for this page, so a reload signs you out."}</p>
        <label for="key">API key</label>
        <input id="key" name="key" type="password" required autofocus autocomplete="off" spellcheck=${false} placeholder="gpl_…"
          aria-describedby="key-note" aria-invalid=${error ? "true" : null} />
        <p id="key-note" class=${error ? "refused" : "muted"} role=${error ? "alert" : null}>
          ${error ? html`<${Icon} name="warning" /> ${error}` : parting ?? html`Create a key with <code>gpulease key create</code>.`}
        </p>
        <button type="submit" class="primary" disabled=${busy}>${busy ? "Checking…" : "Sign in"}</button>
      </form>
    </main>
  `;
}
