// Creates and deletes through the proxy of lossy.py. Run by test_lost_answers.py, which reads the printed JSON.
import { Gpulease } from "gpulease-client";

const [url, faults, notRepeated] = process.argv.slice(2).map((text, n) => (n ? JSON.parse(text) : text));
const wish = { gpu: { model: "T4" }, ttl_seconds: 3600 };

async function outcome(work) {
  try {
    return { done: (await work())?.id ?? "deleted" };
  } catch (error) {
    return { error: error.name, message: error.message, key: error.idempotencyKey };
  }
}

async function lived(fault) {
  const timeout = fault === "slow" ? 1 : 20;
  const client = (door, n) => new Gpulease({ url, key: `gpl_${door}-${fault}-${n}`, timeout, retries: { firstPause: 0 } });
  const tries = notRepeated.includes(fault) ? 1 : 5;
  const once = await outcome(() => client("ts", 1).leases.create(wish));
  const never = await outcome(() => client("tsnever", tries).leases.create(wish));
  const again = await outcome(() => client("tsnever", tries).leases.create(wish, { idempotencyKey: never.key }));
  return [fault, { once, never, again }];
}

const deleted = {};
for (const fault of faults) {
  const timeout = fault === "slow" ? 1 : 20;
  const client = new Gpulease({ url, key: `gpl_tsdelete-${fault}-1`, timeout, retries: { firstPause: 0 } });
  deleted[fault] = await outcome(() => client.sshKeys.delete("sshkey_01jz0000000000000000000002"));
}
// garbage collection must not lose the time limit of a request
const collecting = setInterval(() => globalThis.gc(), 50);
const late = await outcome(() => new Gpulease({ url, key: "gpl_tslate-slow-5", timeout: 0.3, retries: { attempts: 2, firstPause: 0 } }).leases.create(wish));
clearInterval(collecting);
console.log(JSON.stringify({ created: Object.fromEntries(await Promise.all(faults.map(lived))), deleted, late }));
