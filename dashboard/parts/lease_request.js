/** A lease request: from the form's values to the body of `POST /v1/leases`, and the same request as commands. */
import { labelLines, parseLabels } from "./labels.js";

/** The values of the request about GPUs, in words. */
export const PROOFS = { auto: "if the VM can report", required: "required", off: "off" };
export const ON_GPU_FAILURE = { notify: "send an event", reboot: "reboot the VM once", replace: "launch another VM", end: "end the lease" };
export const IDLE_ACTIONS = { notify: "send an event", end: "end the lease" };

export const UNITS = [["60", "minutes"], ["3600", "hours"], ["86400", "days"]];

/** The form's first values. `ssh_keys`: names of stored keys, null until the user chooses. */
export const EMPTY = {
  name: "",
  "gpu/model": "",
  "gpu/count": "1",
  more: false,
  "gpu/memory_gib": "",
  "gpu/interconnect": "",
  "gpu/vendor": "",
  min_vcpus: "",
  min_memory_gib: "",
  min_local_disk_gib: "",
  instance_types: "",
  market: "on_demand",
  providers: [],
  regions: [],
  max_price_per_hour: "",
  max_cost: "",
  expiry_warnings_seconds: "",
  ttl_seconds: "4",
  unit: "3600",
  wait_seconds: "0",
  on_interruption: "end",
  proof: "auto",
  on_gpu_failure: "notify",
  "idle/after_seconds": "",
  "idle/action": "notify",
  benchmark: false,
  volumes: "",
  ssh_keys: null,
  ssh_public_keys: "",
  startup_script: "",
  image: "",
  disk_gib: "100",
  public_ip: true,
  allowed_cidrs: "",
  labels: "",
  tenant_id: "",
};

/** What a group has besides the request of its members. */
export const EMPTY_GROUP = { ...EMPTY, size: "2", min_size: "", placement: "any", interconnect: "none", on_member_loss: "end" };

const number = (text) => (text === "" ? undefined : Number(text));
const list = (text) => text.split(/[\s,]+/).filter(Boolean);
const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const orNone = (value) => (value?.length ? value : undefined);

/** The body of the values; undefined while they name no hardware. Defaults of the API are left out, except the market. */
export function bodyOf(values) {
  const types = list(values.instance_types);
  if (!values["gpu/model"] && !types.length) return undefined;
  const labels = parseLabels(values.labels);
  const body = {
    name: orNone(values.name.trim()),
    gpu: types.length ? undefined : gpuOf(values),
    instance_types: orNone(types),
    min_vcpus: number(values.min_vcpus),
    min_memory_gib: number(values.min_memory_gib),
    min_local_disk_gib: number(values.min_local_disk_gib),
    market: values.market,
    providers: orNone(values.providers),
    regions: orNone(values.regions),
    max_price_per_hour: orNone(values.max_price_per_hour.trim()),
    max_cost: orNone(values.max_cost.trim()),
    expiry_warnings_seconds: warningsOf(values.expiry_warnings_seconds.trim()),
    ttl_seconds: Math.round(Number(values.ttl_seconds) * Number(values.unit)),
    wait_seconds: number(values.wait_seconds) || undefined,
    on_interruption: values.on_interruption === EMPTY.on_interruption ? undefined : values.on_interruption,
    proof: values.proof === EMPTY.proof ? undefined : values.proof,
    on_gpu_failure: values.on_gpu_failure === EMPTY.on_gpu_failure ? undefined : values.on_gpu_failure,
    idle: idleOf(values),
    benchmark: values.benchmark ? "quick" : undefined,
    volumes: orNone(lines(values.volumes).map(mount)),
    ssh_keys: values.ssh_keys ?? undefined,
    ssh_public_keys: orNone(lines(values.ssh_public_keys)),
    startup_script: orNone(values.startup_script),
    image: orNone(values.image),
    disk_gib: values.disk_gib === EMPTY.disk_gib ? undefined : number(values.disk_gib),
    public_ip: values.public_ip ? undefined : false,
    allowed_cidrs: orNone(list(values.allowed_cidrs)),
    labels: Object.keys(labels).length ? labels : undefined,
    tenant_id: orNone(values.tenant_id),
  };
  return JSON.parse(JSON.stringify(body));
}

/** The body of `POST /v1/groups`; undefined while the values name no hardware. */
export function groupBodyOf(values) {
  const request = bodyOf(values);
  if (!request) return undefined;
  const { name, tenant_id, ...lease } = request;
  const { placement, interconnect, on_member_loss } = values;
  return JSON.parse(JSON.stringify({ name, size: number(values.size), min_size: number(values.min_size), placement, interconnect, on_member_loss, lease, tenant_id }));
}

/** The name of a volume and its path, which a colon separates. */
function mount(line) {
  const [name, ...path] = line.split(":");
  return { name: name.trim(), path: path.join(":").trim() };
}

/** Without a time there is no rule. People write minutes. */
function idleOf(values) {
  const minutes = values["idle/after_seconds"];
  return minutes === "" ? undefined : { after_seconds: Math.round(Number(minutes) * 60), action: values["idle/action"] };
}

const NO_WARNING = "none";

/** Minutes as people write them, in seconds. Empty: as the installation is configured. */
function warningsOf(text) {
  if (!text) return undefined;
  return text === NO_WARNING ? [] : list(text).map((minutes) => Math.round(Number(minutes) * 60));
}

const warningText = (seconds) => (seconds ? seconds.map((one) => one / 60).join(", ") || NO_WARNING : "");

function gpuOf(values) {
  const count = Number(values["gpu/count"] || 1);
  return {
    model: values["gpu/model"].trim(),
    ...(values.more ? { min_count: count } : { count }),
    memory_gib: number(values["gpu/memory_gib"]),
    interconnect: orNone(values["gpu/interconnect"]),
    vendor: orNone(values["gpu/vendor"]),
  };
}

export const volumeText = ({ name, path }) => `${name}:${path}`;

/** The form's first values with the hardware that the address names, such as `?gpu_model=A100&count=8&market=spot`. */
export function valuesFrom(query) {
  const text = (name) => query.get(name) ?? EMPTY[name] ?? "";
  return {
    ...EMPTY,
    "gpu/model": text("gpu_model"),
    "gpu/count": query.get("count") ?? EMPTY["gpu/count"],
    "gpu/memory_gib": text("memory_gib"),
    instance_types: text("instance_type"),
    market: text("market"),
    providers: query.getAll("provider"),
  };
}

/** The form's values for a request like an earlier one. Its stored keys are written out, since one may be deleted by now. */
export function valuesOf(lease) {
  const { request } = lease;
  const unit = [...UNITS].reverse().find(([seconds]) => request.ttl_seconds % Number(seconds) === 0)?.[0] ?? "60";
  return {
    ...EMPTY,
    "gpu/model": request.gpu?.model ?? "",
    "gpu/count": String(request.gpu?.count ?? request.gpu?.min_count ?? 1),
    more: Boolean(request.gpu?.min_count),
    "gpu/memory_gib": String(request.gpu?.memory_gib ?? ""),
    "gpu/interconnect": request.gpu?.interconnect ?? "",
    "gpu/vendor": request.gpu?.vendor ?? "",
    min_vcpus: String(request.min_vcpus ?? ""),
    min_memory_gib: String(request.min_memory_gib ?? ""),
    min_local_disk_gib: String(request.min_local_disk_gib ?? ""),
    instance_types: (request.instance_types ?? []).join(", "),
    market: request.market ?? "any",
    providers: request.providers ?? [],
    regions: request.regions ?? [],
    max_price_per_hour: request.max_price_per_hour ?? "",
    max_cost: lease.max_cost ?? "",
    expiry_warnings_seconds: warningText(lease.expiry_warnings_seconds),
    ttl_seconds: String(request.ttl_seconds / Number(unit)),
    unit,
    wait_seconds: String(request.wait_seconds),
    on_interruption: request.on_interruption,
    proof: request.proof ?? EMPTY.proof,
    on_gpu_failure: request.on_gpu_failure ?? EMPTY.on_gpu_failure,
    "idle/after_seconds": request.idle ? String(request.idle.after_seconds / 60) : "",
    "idle/action": request.idle?.action ?? EMPTY["idle/action"],
    benchmark: request.benchmark === "quick",
    volumes: (request.volumes ?? []).map(volumeText).join("\n"),
    ssh_public_keys: (request.ssh_public_keys ?? []).join("\n"),
    startup_script: request.startup_script ?? "",
    image: request.image ?? "",
    disk_gib: String(request.disk_gib),
    public_ip: request.public_ip,
    allowed_cidrs: (request.allowed_cidrs ?? []).join(", "),
    labels: labelLines(lease.labels),
    tenant_id: lease.tenant_id,
  };
}

/** A word of a shell command. */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

export const asJson = (body) => JSON.stringify(body, null, 2);

export const asCurl = (body, address) => `curl --fail-with-body ${quoted(address)} \\
  -H "Authorization: Bearer $GPULEASE_KEY" -H "Content-Type: application/json" \\
  -d ${quoted(asJson(body))}`;

const OPTIONS = {
  name: "name",
  instance_types: "type",
  min_vcpus: "min-vcpus",
  min_memory_gib: "min-memory",
  min_local_disk_gib: "min-local-disk",
  market: "market",
  providers: "provider",
  regions: "region",
  max_price_per_hour: "max-price",
  max_cost: "max-cost",
  expiry_warnings_seconds: "warn-before",
  ttl_seconds: "ttl",
  wait_seconds: "wait",
  on_interruption: "on-interruption",
  proof: "proof",
  on_gpu_failure: "on-gpu-failure",
  benchmark: "benchmark",
  volumes: "volume",
  ssh_keys: "ssh-key",
  image: "image",
  disk_gib: "disk",
  allowed_cidrs: "cidr",
  tenant_id: "tenant",
};

const duration = (seconds) => (seconds % 3600 === 0 ? `${seconds / 3600}h` : seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`);
const SHOWN = { volumes: volumeText, ttl_seconds: duration, wait_seconds: duration, expiry_warnings_seconds: (seconds) => seconds.map(duration).join(",") || NO_WARNING };
const JOINED = ["expiry_warnings_seconds"]; // one option for all values

/** The command with options; where a field has none, the command reads the request from its standard input. */
export function asCommand(body) {
  const { gpu, labels = {}, idle, public_ip: publicIp, ...rest } = body;
  if (!Object.keys(rest).every((name) => name in OPTIONS)) {
    const { tenant_id: tenant, ...request } = body;
    return `gpulease lease create${tenant ? ` --tenant ${quoted(tenant)}` : ""} --from-file - <<'END'\n${asJson(request)}\nEND`;
  }
  const words = ["gpulease lease create"];
  if (gpu) words.push(`--gpu ${quoted(gpu.count ? `${gpu.model}:${gpu.count}` : gpu.model)}`);
  if (gpu?.min_count) words.push(`--min-gpus ${gpu.min_count}`);
  if (gpu?.memory_gib) words.push(`--gpu-memory ${gpu.memory_gib}`);
  if (gpu?.interconnect) words.push(`--interconnect ${quoted(gpu.interconnect)}`);
  if (gpu?.vendor) words.push(`--vendor ${gpu.vendor}`);
  for (const [name, value] of Object.entries(rest)) for (const one of JOINED.includes(name) ? [value] : [value].flat()) words.push(`--${OPTIONS[name]} ${quoted(String(SHOWN[name]?.(one) ?? one))}`);
  if (idle) words.push(`--idle-after ${duration(idle.after_seconds)}`, `--idle-action ${idle.action}`);
  for (const [key, value] of Object.entries(labels)) words.push(`--label ${quoted(`${key}=${value}`)}`);
  if (rest.ssh_keys?.length === 0) words.push("--no-ssh-key");
  if (publicIp === false) words.push("--no-public-ip");
  return words.join(" \\\n  ");
}
