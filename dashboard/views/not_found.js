/** An address without a view. */
import { Empty, Head } from "../parts/basics.js";
import { to } from "../router.js";
import { html } from "../ui.js";

export const NotFound = ({ home }) => html`
  <${Head} title="Page not found" sub=${location.hash} />
  <div class="panel"><${Empty} title="The dashboard has no page at this address.">Go to <a href=${to(home.path)}>${home.name}</a> or <a href=${to("leases")}>Leases</a>.<//></div>
`;
