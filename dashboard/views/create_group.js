/** Creating a group: the form of a lease with what a group has besides, its live plan, and the same request for programs. */
import { nudge } from "../changes.js";
import { words } from "../format.js";
import { intention, Unanswered } from "../intentions.js";
import { useLive } from "../live.js";
import { Empty, Head } from "../parts/basics.js";
import { say } from "../parts/dialogs.js";
import { fieldErrors, FormField, useFields } from "../parts/fields.js";
import { Icon } from "../parts/icons.js";
import { EMPTY_GROUP, groupBodyOf } from "../parts/lease_request.js";
import { Plan, usePlan } from "../parts/plan.js";
import { SameRequest } from "../parts/same_request.js";
import { go, to } from "../router.js";
import { mayManageLeases } from "../session.js";
import { useSubject } from "../title.js";
import { html, useState } from "../ui.js";
import { Access, Hardware, More } from "./create.js";

const PATH = "/v1/groups";
const PLACEMENTS = [["any", "one region"], ["same_zone", "one zone"], ["cluster", "close to each other in a zone"]];
const FABRICS = [["none", "not needed"], ["preferred", "preferred"], ["required", "required"]];
const LOSSES = [["end", "end the group"], ["replace", "replace the member"], ["keep", "go on with the others"]];

export function CreateGroup({ me }) {
  useSubject("New");
  const operator = me.role === "operator";
  const { values, change: set } = useFields(EMPTY_GROUP);
  const tenant = operator ? values.tenant_id : me.tenant_id;
  const keys = useLive(tenant ? `/v1/ssh-keys?limit=100${operator ? `&tenant_id=${tenant}` : ""}` : null, 60).data?.items ?? [];
  const chosen = values.ssh_keys ?? keys.filter((key) => key.default && key.key_id === me.key_id).map((key) => key.name);
  const body = groupBodyOf({ ...values, ssh_keys: keys.length ? chosen : undefined });
  const missing = !tenant ? "Choose the tenant that the group is for." : !body ? "Choose a GPU model, or name an instance type." : body.name ? null : "Name the group.";
  const [refusal, setRefusal] = useState(null);
  const [busy, setBusy] = useState(false);
  const [send] = useState(() => intention("The group may exist already, and is then billed."));
  const plan = usePlan(missing ? undefined : body, busy, `${PATH}/plan`);
  if (!mayManageLeases()) return html`<${Head} title="Create a group" /><div class="panel"><${Empty} title="Your key only reads.">Use a key with the role member or admin.<//></div>`;
  const create = async (event) => {
    event.preventDefault();
    setBusy(true);
    setRefusal(null);
    try {
      const group = await send(body, () => ["POST", PATH, body]);
      nudge();
      say(`${group.name} was created.`);
      go(to(`groups/${group.id}`));
    } catch (problem) {
      setRefusal(problem);
      setBusy(false);
    }
  };
  const errors = fieldErrors(refusal ?? plan.problem ?? {}, Object.keys(EMPTY_GROUP));
  const marked = Object.keys(errors).length > 0 && !errors[""];
  const form = { values, set: (name, value) => (setRefusal(null), set(name, value)), errors };
  return html`
    <p class="crumbs"><a href=${to("groups")}>Groups</a> <span aria-hidden="true">/</span> New</p>
    <${Head} title="Create a group" sub="Equal VMs that start together in one place" />
    <div class="create">
      <form onSubmit=${create} class="panel" aria-label="Group request">
        <${Members} form=${form} />
        <${Hardware} form=${form} operator=${operator} />
        <${Access} form=${form} keys=${keys} chosen=${chosen} named />
        <${More} form=${form} />
        ${refusal && html`<p class="refused" role="alert"><${Icon} name="warning" /> <span>${refusal.message}${refusal instanceof Unanswered && html` Press the button again: gpulease creates it only once. Or look at <a href=${to("groups")}>the groups</a>.`}</span></p>`}
        <div class="buttons"><a class="button" href=${to("groups")}>Cancel</a><button type="submit" class="primary" disabled=${busy || Boolean(missing)}>${busy ? "Creating…" : "Create group"}</button></div>
      </form>
      <div class="beside">
        <${Plan} live=${plan} missing=${missing} marked=${marked} request=${body?.lease} />
        ${body && html`<${SameRequest} body=${body} path=${PATH} />`}
      </div>
    </div>
  `;
}

const F = ({ form, field }) => html`<${FormField} field=${field} value=${form.values[field.name]} error=${form.errors[field.name]} change=${form.set} />`;

const Members = ({ form }) => html`
  <section class="fields" aria-labelledby="fields-group">
    <h2 id="fields-group">The group</h2>
    <${F} form=${form} field=${{ name: "name", label: "Name", wide: true, maxlength: 59, required: true, placeholder: "train", hint: "Members are named after the group." }} />
    <${F} form=${form} field=${{ name: "size", label: "Members", type: "number", min: 1, max: 256, required: true }} />
    <${F} form=${form} field=${{ name: "min_size", label: "At least", type: "number", min: 1, max: 256, placeholder: "all" }} />
    <${F} form=${form} field=${{ name: "placement", label: "Placement", kind: "select", options: PLACEMENTS }} />
    <${F} form=${form} field=${{ name: "interconnect", label: "Network fabric", kind: "select", options: FABRICS }} />
    <${F} form=${form} field=${{ name: "on_member_loss", label: `On ${words("member_loss")}`, kind: "select", options: LOSSES }} />
  </section>
`;
