/** Creating a lease: the form, its live plan, and the same request for other programs. */
import { nudge } from "../changes.js";
import { marketName, providerName } from "../format.js";
import { intention, Unanswered } from "../intentions.js";
import { useLive } from "../live.js";
import { Empty, Head, Refused } from "../parts/basics.js";
import { useCatalogue } from "../parts/catalogue.js";
import { say } from "../parts/dialogs.js";
import { fieldErrors, FormField, useFields } from "../parts/fields.js";
import { Icon } from "../parts/icons.js";
import { bodyOf, EMPTY, IDLE_ACTIONS, ON_GPU_FAILURE, PROOFS, UNITS, valuesFrom, valuesOf } from "../parts/lease_request.js";
import { Plan, usePlan } from "../parts/plan.js";
import { useQuote } from "../parts/quote.js";
import { SameRequest } from "../parts/same_request.js";
import { go, route, to } from "../router.js";
import { mayManageLeases } from "../session.js";
import { useSubject } from "../title.js";
import { html, useEffect, useState } from "../ui.js";
import { useTenantNames } from "./leases.js";

const MARKETS = ["on_demand", "spot", "spot_first", "reserved", "reserved_first", "any"];
const WAITS = [["0", "do not wait"], ["300", "up to 5 minutes"], ["3600", "up to 1 hour"], ["14400", "up to 4 hours"], ["86400", "up to 1 day"]];
const INTERCONNECTS = ["PCIe", "NVLink", "NVSwitch", "Infinity Fabric"];
const VENDORS = ["NVIDIA", "AMD"];

export function Create({ me }) {
  useSubject("New");
  const operator = me.role === "operator";
  const { query } = route.use();
  const from = query.get("from");
  const source = useLive(from ? `/v1/leases/${encodeURIComponent(from)}` : null, 60);
  const { values, change: set, reset } = useFields(valuesFrom(query));
  useEffect(() => {
    if (source.data) reset(valuesOf(source.data));
  }, [source.data?.id]);
  const tenant = operator ? values.tenant_id : me.tenant_id;
  const keys = useLive(tenant ? `/v1/ssh-keys?limit=100${operator ? `&tenant_id=${tenant}` : ""}` : null, 60).data?.items ?? [];
  const chosen = values.ssh_keys ?? keys.filter((key) => key.default && key.key_id === me.key_id).map((key) => key.name);
  const body = bodyOf({ ...values, ssh_keys: keys.length ? chosen : undefined });
  const missing = !tenant ? "Choose the tenant that the lease is for." : body ? null : "Choose a GPU model, or name an instance type.";
  const [refusal, setRefusal] = useState(null);
  const [busy, setBusy] = useState(false);
  const [send] = useState(() => intention("The lease may exist already, and is then billed."));
  const plan = usePlan(missing ? undefined : body, busy);
  const quote = useQuote(missing ? undefined : body);
  if (!mayManageLeases()) return html`<${Head} title="Create a lease" /><div class="panel"><${Empty} title="Your key only reads.">Use a key with the role member or admin.<//></div>`;
  const create = async (event) => {
    event.preventDefault();
    setBusy(true);
    setRefusal(null);
    const wanted = quote.quote ? { ...body, quote_id: quote.quote.id } : body;
    try {
      const lease = await send(wanted, () => ["POST", "/v1/leases", wanted]);
      nudge();
      say(`${lease.name} was created.`);
      go(to(`leases/${lease.id}`));
    } catch (problem) {
      setRefusal(problem);
      setBusy(false);
    }
  };
  const errors = fieldErrors(refusal ?? plan.problem ?? {}, Object.keys(EMPTY));
  const marked = Object.keys(errors).length > 0 && !errors[""];
  const form = { values, set: (name, value) => (setRefusal(null), set(name, value)), errors };
  return html`
    <p class="crumbs"><a href=${to("leases")}>Leases</a> <span aria-hidden="true">/</span> New</p>
    <${Head} title="Create a lease" sub=${source.data ? `Like ${source.data.name}` : "One VM with GPUs, for a fixed time"} />
    ${source.error && html`<${Refused} error=${source.error} />`}
    <div class="create">
      <form onSubmit=${create} class="panel" aria-label="Lease request">
        <${Hardware} form=${form} operator=${operator} />
        <${Access} form=${form} keys=${keys} chosen=${chosen} />
        <${More} form=${form} />
        ${refusal && html`<p class="refused" role="alert"><${Icon} name="warning" /> <span>${refusal.message}${refusal instanceof Unanswered && html` Press the button again: gpulease creates it only once. Or look at <a href=${to("leases")}>the leases</a>.`}${refusal.leaseId && html` <a href=${to(`leases/${refusal.leaseId}`)}>Show that lease</a>`}</span></p>`}
        <div class="buttons"><a class="button" href=${to("leases")}>Cancel</a><button type="submit" class="primary" disabled=${busy || Boolean(missing)}>${busy ? "Creating…" : quote.quote ? "Create lease from the quote" : "Create lease"}</button></div>
      </form>
      <div class="beside">
        <${Plan} live=${plan} missing=${missing} quote=${quote} marked=${marked} request=${body} />
        ${body && html`<${SameRequest} body=${body} />`}
      </div>
    </div>
  `;
}

/** A model may be written as one of its aliases, in any case. */
function modelNamed(models, text) {
  const name = text.trim().toLowerCase();
  return models.find((one) => [one.model, ...(one.aliases ?? [])].some((known) => known.toLowerCase() === name));
}

const SOLD = { spot_first: ["spot", "on_demand"], reserved_first: ["reserved", "on_demand"], any: ["on_demand", "spot", "reserved"] };

/** The numbers of GPUs that the chosen market sells. */
function offered(model, market) {
  const counts = new Set((SOLD[market] ?? [market]).flatMap((one) => model.counts_by_market[one]));
  return counts.size ? `Offered: ${[...counts].sort((a, b) => a - b).join(", ")}.` : `Not sold ${marketName(market)}.`;
}

const F = ({ form, field }) => html`<${FormField} field=${field} value=${form.values[field.name]} error=${form.errors[field.name]} change=${form.set} />`;

const labelled = (names, show = String) => names.map((name) => [name, show(name)]);

export function Hardware({ form, operator }) {
  const { models, regions, providers } = useCatalogue();
  const tenants = useTenantNames(operator);
  const { values } = form;
  const model = modelNamed(models, values["gpu/model"]);
  const near = regions.filter((one) => !values.providers.length || values.providers.includes(one.provider));
  const counts = model ? offered(model, values.market) : null;
  return html`
    <section class="fields" aria-labelledby="fields-hardware">
      <h2 id="fields-hardware">GPUs and price</h2>
      ${operator && html`<${F} form=${form} field=${{ name: "tenant_id", label: "Tenant", kind: "select", wide: true, options: [["", "choose a tenant"], ...tenants] }} />`}
      <${F} form=${form} field=${{ name: "gpu/model", label: "GPU model", options: models.map((one) => [one.model, one.aliases?.join(", ") ?? ""]), placeholder: "A100", required: !values.instance_types, disabled: values.instance_types !== "", maxlength: 40 }} />
      <${F} form=${form} field=${{ name: "gpu/count", label: "GPUs", type: "number", min: 1, max: 64, hint: counts, disabled: values.instance_types !== "" }} />
      <${F} form=${form} field=${{ name: "market", label: "Market", kind: "select", options: labelled(MARKETS, marketName), hint: values.market === "on_demand" || values.market === "reserved" ? null : "The provider can interrupt it." }} />
      <${F} form=${form} field=${{ name: "more", label: "Accept more GPUs", kind: "check", disabled: values.instance_types !== "" }} />
      <${F} form=${form} field=${{ name: "ttl_seconds", label: "Term", type: "number", min: 1, step: "any", required: true }} />
      <${F} form=${form} field=${{ name: "unit", label: "Unit of the term", kind: "select", options: UNITS }} />
      <${F} form=${form} field=${{ name: "max_price_per_hour", label: "Max price per hour, USD", inputmode: "decimal", placeholder: "none", pattern: "[0-9]+([.][0-9]+)?" }} />
      <${F} form=${form} field=${{ name: "max_cost", label: "Max cost, USD", inputmode: "decimal", placeholder: "none", hint: "The lease ends before it costs more." }} />
      <${F} form=${form} field=${{ name: "wait_seconds", label: "Wait for capacity", kind: "select", options: options(WAITS, values.wait_seconds, "seconds") }} />
      ${providers.length > 1 && html`<${F} form=${form} field=${{ name: "providers", label: "Clouds (none checked: any)", kind: "checks", wide: true, options: labelled(providers, providerName) }} />`}
      ${near.length > 1 && html`<${F} form=${form} field=${{ name: "regions", label: "Regions (none checked: any)", kind: "checks", wide: true, options: labelled([...new Set(near.map((one) => one.region))]) }} />`}
    </section>
  `;
}

/** A value that is not among the options is added to them. */
const options = (known, value, unit) => (known.some(([one]) => one === value) ? known : [...known, [value, `${value} ${unit}`]]);

const NO_KEY = "Without an SSH key nobody can log in to the VM.";

/** `named`: the name has its field elsewhere. */
export function Access({ form, keys, chosen, named }) {
  const without = !chosen.length && !form.values.ssh_public_keys.trim();
  return html`
    <section class="fields" aria-labelledby="fields-access">
      <h2 id="fields-access">${named ? "Login" : "Name and login"}</h2>
      ${!named && html`<${F} form=${form} field=${{ name: "name", label: "Name", wide: true, maxlength: 63, placeholder: "generated if empty" }} />`}
      ${keys.length > 0 && html`<${FormField} field=${{ name: "ssh_keys", label: "Stored SSH keys", kind: "checks", wide: true, options: keys.map((key) => [key.name, key.name]) }} value=${chosen} error=${form.errors.ssh_keys} change=${form.set} />`}
      <${F} form=${form} field=${{ name: "ssh_public_keys", label: keys.length ? "Other SSH public keys, one per line" : "SSH public keys, one per line", kind: "textarea", wide: true, rows: 2, placeholder: "ssh-ed25519 AAAA… me@laptop", hint: without ? NO_KEY : null }} />
    </section>
  `;
}

export function More({ form }) {
  const images = useLive("/v1/images", 300).data?.items ?? [];
  return html`
    <details class="more">
      <summary>More options</summary>
      <section class="fields" aria-label="More options">
        <${F} form=${form} field=${{ name: "instance_types", label: "Instance types instead of a GPU model", wide: true, placeholder: "p4d.24xlarge, a2-highgpu-8g" }} />
        <${F} form=${form} field=${{ name: "gpu/memory_gib", label: "Minimum memory per GPU, GiB", type: "number", min: 1 }} />
        <${F} form=${form} field=${{ name: "gpu/interconnect", label: "Interconnect", kind: "select", options: [["", "any"], ...labelled(INTERCONNECTS)] }} />
        <${F} form=${form} field=${{ name: "gpu/vendor", label: "Vendor of the GPUs", kind: "select", options: [["", "any"], ...labelled(VENDORS)] }} />
        <${F} form=${form} field=${{ name: "min_vcpus", label: "Minimum vCPUs", type: "number", min: 1 }} />
        <${F} form=${form} field=${{ name: "min_memory_gib", label: "Minimum main memory, GiB", type: "number", min: 1 }} />
        <${F} form=${form} field=${{ name: "min_local_disk_gib", label: "Minimum local disk, GiB", type: "number", min: 1 }} />
        <${F} form=${form} field=${{ name: "disk_gib", label: "Disk, GiB", type: "number", min: 30, max: 16384 }} />
        <${F} form=${form} field=${{ name: "image", label: "Image", kind: "select", options: [["", "newest with a GPU driver"], ...images.map((one) => [one.name, one.name])] }} />
        <${F} form=${form} field=${{ name: "expiry_warnings_seconds", label: "Warnings, minutes before the end", placeholder: "as configured; none: no warning" }} />
        <${F} form=${form} field=${{ name: "on_interruption", label: "On interruption", kind: "select", options: [["end", "end the lease"], ["replace", "launch another VM"]] }} />
        <${F} form=${form} field=${{ name: "proof", label: "GPU check at the boot", kind: "select", options: Object.entries(PROOFS) }} />
        <${F} form=${form} field=${{ name: "on_gpu_failure", label: "On GPU failure", kind: "select", options: Object.entries(ON_GPU_FAILURE), hint: "When a GPU of the active lease fails." }} />
        <${F} form=${form} field=${{ name: "idle/after_seconds", label: "Idle after, minutes", type: "number", min: 15, step: "any", placeholder: "no rule", hint: "All GPUs at 5 % or less for this time." }} />
        <${F} form=${form} field=${{ name: "idle/action", label: "When idle", kind: "select", options: Object.entries(IDLE_ACTIONS), disabled: form.values["idle/after_seconds"] === "" }} />
        <${F} form=${form} field=${{ name: "benchmark", label: "Measure the GPUs, under a minute", kind: "check" }} />
        <${F} form=${form} field=${{ name: "volumes", label: "Volumes, one name:/path per line", kind: "textarea", wide: true, rows: 2, placeholder: "data:/data", hint: "The VM runs in the zone of its volumes. They outlive the lease." }} />
        <${F} form=${form} field=${{ name: "public_ip", label: "Public address", kind: "check" }} />
        <${F} form=${form} field=${{ name: "allowed_cidrs", label: "Networks that may connect to port 22", wide: true, placeholder: "192.0.2.0/24; if empty, the account's own rules apply" }} />
        <${F} form=${form} field=${{ name: "labels", label: "Labels, one key=value per line", kind: "textarea", wide: true, rows: 2 }} />
        <${F} form=${form} field=${{ name: "startup_script", label: "Start-up script", kind: "textarea", wide: true, rows: 4, hint: "Runs once as root at the first boot. Begins with #! and an interpreter, such as #!/bin/bash. At most 12 KiB.", placeholder: "#!/bin/bash" }} />
      </section>
    </details>
  `;
}
