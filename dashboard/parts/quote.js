/** A quote: the plan's price, held for 15 minutes, with disks and address in the total. */
import { ask } from "../api.js";
import { useNow } from "../clock.js";
import { span, usd } from "../format.js";
import { html, useState } from "../ui.js";
import { Refused } from "./basics.js";

const FREE = ["name", "labels", "ssh_keys", "ssh_public_keys", "startup_script", "expiry_warnings_seconds"];

/** What a quote is for: a lease from it may differ in the other fields. */
export const quotedPart = (body) => JSON.stringify(Object.entries(body).filter(([name]) => !FREE.includes(name)));

/** `{quote, problem, request, drop}`. A quote holds while the request stays as it was. */
export function useQuote(body) {
  const [state, setState] = useState({ quote: null, problem: null, of: null });
  const part = body ? quotedPart(body) : null;
  const request = async () => {
    const found = await ask("/v1/quotes", body).then(
      (quote) => ({ quote, problem: null, of: part }),
      (problem) => ({ quote: null, problem, of: part }),
    );
    setState(found);
  };
  const drop = () => setState({ quote: null, problem: null, of: null });
  const holds = state.of !== null && state.of === part;
  return { quote: holds ? state.quote : null, problem: holds ? state.problem : null, request, drop };
}

export function Quote({ live: { quote, problem, request, drop } }) {
  return html`
    <div class="quote" role="status">
      ${quote ? html`<${Held} quote=${quote} request=${request} drop=${drop} />` : html`<button type="button" onClick=${request}>Get a quote</button><p class="note">Holds the price for 15 minutes. Its total includes disks and the address.</p>`}
      ${problem && html`<${Refused} error=${problem} />`}
    </div>
  `;
}

function Held({ quote, request, drop }) {
  const left = (Date.parse(quote.valid_until) - useNow()) / 1000;
  return html`
    <dl class="sums"><div><dt>Quoted total</dt><dd>${usd(quote.total)}</dd></div><div><dt>Per hour, at most</dt><dd>${usd(quote.price_per_hour)}</dd></div></dl>
    <p class="note">${left > 0 ? html`Valid for <span class="num" aria-live="off">${span(left)}</span>. The total includes disks and the address.` : "The quote has expired."}</p>
    <p class="actions">${left <= 0 && html`<button type="button" onClick=${request}>Get another quote</button>`}<button type="button" class="ghost" onClick=${drop}>Create without the quote</button></p>
  `;
}
