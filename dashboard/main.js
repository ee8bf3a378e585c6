/** The start: who is signed in, and which view the address asks for. */
import { Away, forgetEverything, whoIs } from "./api.js";
import { follow, onChange } from "./changes.js";
import { Dialogs } from "./parts/dialogs.js";
import { session, signIn, signOut } from "./session.js";
import { Banner, Shell } from "./shell.js";
import { html, render, useEffect } from "./ui.js";
import { SignIn } from "./views/signin.js";

function App() {
  const current = session.use();
  useEffect(() => {
    follow();
    if (!current) forgetEverything();
  }, [current]);
  if (!current) return html`<${Banner} /><${SignIn} />`;
  return html`<${Banner} />${current.me ? html`<${Shell} me=${current.me} />` : html`<${Greeting} kept=${current.key} />`}<${Dialogs} />`;
}

/** The key of this tab is known, whose it is not yet. */
function Greeting({ kept }) {
  useEffect(
    () =>
      onChange(2, async () => {
        try {
          signIn(kept, await whoIs(kept));
        } catch (error) {
          if (!(error instanceof Away)) signOut(error.message);
        }
      }),
    [kept],
  );
  return html`<div class="greeting" role="status"><span class="vh">Loading</span></div>`;
}

render(html`<${App} />`, document.getElementById("app"));
