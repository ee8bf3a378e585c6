// The layer of the TypeScript client over a scripted `fetch`. Run by test_typescript.py with node --test.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import { Gpulease, isProblem, LeaseEndedError, ProblemError, UnreachableError, WaitTimeoutError } from "gpulease-client";

const problem = (status, code, headers = {}) =>
  new Response(JSON.stringify({ code, status, detail: "no", title: "No", request_id: "r1", retryable: true }), { status, headers });
const json = (document, status = 200) => Response.json(document, { status });
const stream = (text) => new Response(text, { headers: { "Content-Type": "text/event-stream" } });
const lease = (state, version, terminal = false) => ({ id: "lease_1", state, version, terminal, reason: null });

/** A client whose requests get these answers in turn; an answer is a function or an Error. `requests` are those sent. */
function scripted(...answers) {
  const requests = [];
  const fetch = async (request) => {
    requests.push(request);
    const answer = answers.shift();
    assert.ok(answer, `unexpected ${request.method} ${request.url}`);
    const outcome = answer();
    if (outcome instanceof Error) throw outcome;
    return outcome;
  };
  const client = new Gpulease({ url: "http://api.test", key: "k", fetch, retries: { attempts: 3, firstPause: 0 } });
  return { client, requests };
}

const broken = (code) => () => Object.assign(new TypeError("fetch failed"), { cause: { code } });
const wish = { gpu: { model: "A10G" }, ttl_seconds: 60 };

test("a create is repeated with the same key and body", async () => {
  const { client, requests } = scripted(
    () => problem(503, "database_unavailable", { "Retry-After": "0" }),
    broken("ECONNRESET"),
    () => json(lease("queued", 1), 201),
  );
  assert.equal((await client.leases.create(wish)).id, "lease_1");
  const keys = new Set(requests.map((request) => request.headers.get("Idempotency-Key")));
  assert.equal(keys.size, 1);
  assert.ok([...keys][0]);
  assert.deepEqual(await requests[2].json(), wish);
});

test("what is not safe is sent once, unless it was not sent or was refused by 429", async () => {
  const path = { params: { path: { lease_id: "lease_1" } }, body: { name: "x" } };
  const once = scripted(broken("ECONNRESET"));
  await assert.rejects(once.client.api.PATCH("/v1/leases/{lease_id}", path), UnreachableError);
  const unavailable = scripted(() => problem(503, "database_unavailable", { "Retry-After": "0" }));
  await assert.rejects(unavailable.client.api.PATCH("/v1/leases/{lease_id}", path), ProblemError);
  const safe = scripted(broken("ECONNREFUSED"), () => problem(429, "rate_limited", { "Retry-After": "0" }), () => json(lease("active", 2)));
  await safe.client.api.PATCH("/v1/leases/{lease_id}", path);
  assert.equal(safe.requests.length, 3);
});

test("errors have the code of the problem, and attempts have an end", async () => {
  const { client } = scripted(() => problem(409, "quota_exceeded"));
  await assert.rejects(client.leases.create(wish), (error) => isProblem(error, "quota_exceeded") && !isProblem(error, "not_found"));
  const tired = scripted(...Array(3).fill(() => problem(503, "too_many_streams")));
  await assert.rejects(tired.client.leases.get("lease_1"), (error) => isProblem(error, "too_many_streams"));
  const long = scripted(() => problem(429, "rate_limited", { "Retry-After": "3600" }));
  await assert.rejects(long.client.leases.get("lease_1"), (error) => error.retryAfter === 3600);
});

test("a wait reports changes, and ends with the state, the end of the lease or its time", async () => {
  const seen = [];
  const ready = scripted(() => json(lease("queued", 1), 201), () => json(lease("queued", 1)), () => json(lease("active", 2)));
  await ready.client.leases.create(wish, { wait: true, onChange: (one) => seen.push(one.state) });
  assert.deepEqual(seen, ["queued", "active"]);
  assert.match(ready.requests[1].url, /poll_seconds=25&if_version=1$/);
  const failed = scripted(() => json(lease("failed", 2, true)));
  await assert.rejects(failed.client.leases.wait("lease_1"), LeaseEndedError);
  const versions = scripted(...[1, 2].map((n) => () => json(lease("active", n))));
  assert.equal((await versions.client.leases.wait("lease_1", (one) => one.version === 2)).version, 2);
  const slow = scripted();
  await assert.rejects(slow.client.leases.wait(lease("queued", 1), "active", { timeout: 0 }), WaitTimeoutError);
});

test("a wait has its own time on top of that of a try", async () => {
  const fetch = () => new Promise((resolve) => setTimeout(() => resolve(json(lease("active", 2))), 300));
  const client = new Gpulease({ url: "http://api.test", key: "k", fetch, timeout: 0.1, retries: { attempts: 1 } });
  assert.equal((await client.leases.wait(lease("queued", 1))).state, "active");
  await assert.rejects(client.leases.get("lease_1"), UnreachableError);
});

test("a list reads page after page", async () => {
  const { client, requests } = scripted(
    () => json({ items: [lease("active", 1)], next_cursor: "c2" }),
    () => json({ items: [lease("active", 2)], next_cursor: null }),
  );
  const versions = [];
  for await (const one of client.leases.list({ limit: 1 })) versions.push(one.version);
  assert.deepEqual(versions, [1, 2]);
  assert.match(requests[1].url, /limit=1&cursor=c2$/);
});

test("a stream goes on after the last event when its connection breaks", async () => {
  const frame = (n) => `id: ${n}\nevent: lease.active\ndata: {"sequence":${n}}\n\n`;
  const { client, requests } = scripted(
    () => stream(`retry: 0\n\n: still here\n\n${frame(7)}id: 8\ndata: {"seq`),
    () => stream(frame(8)),
  );
  const seen = [];
  for await (const event of client.events.stream({ after: 6 })) {
    seen.push(event.sequence);
    if (event.sequence === 8) break;
  }
  assert.deepEqual(seen, [7, 8]);
  assert.deepEqual(requests.map((request) => request.headers.get("Last-Event-ID")), ["6", "7"]);
  const begun = scripted(() => stream("retry: 0\nid: 6\n\n"), () => stream(frame(7)));
  for await (const event of begun.client.events.stream()) {
    if (event.sequence === 7) break;
  }
  assert.deepEqual(begun.requests.map((request) => request.headers.get("Last-Event-ID")), [null, "6"]);
});

/** A server whose streams have one event and then nothing. `closed` resolves when a client has left one. */
async function silent(t) {
  let leave;
  const closed = new Promise((resolve) => (leave = resolve));
  const seen = { streams: 0 };
  const server = createServer((_, answer) => {
    seen.streams += 1;
    answer.writeHead(200, { "Content-Type": "text/event-stream" });
    answer.write(`retry: 0\nid: ${seen.streams}\ndata: {"sequence":${seen.streams}}\n\n`);
    answer.on("close", leave);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.closeAllConnections());
  t.after(() => server.close());
  return { closed, seen, client: new Gpulease({ url: `http://127.0.0.1:${server.address().port}`, key: "k" }) };
}

/** Garbage is collected, also what only finalizers hold. */
async function collect() {
  for (let n = 0; n < 5; n++) {
    await new Promise((resolve) => setImmediate(resolve));
    globalThis.gc();
  }
}

test("an abort ends a stream that has waited for long, and its connection", { timeout: 20_000 }, async (t) => {
  const { closed, client } = await silent(t);
  const controller = new AbortController();
  const events = client.events.stream({ signal: controller.signal });
  assert.equal((await events.next()).value.sequence, 1);
  const next = assert.rejects(events.next(), /enough/);
  await collect();
  controller.abort(new Error("enough"));
  await next;
  await closed;
  await assert.rejects(client.events.stream({ signal: controller.signal }).next(), /enough/);
});

test("a stream that is silent for too long is opened again", { timeout: 20_000 }, async (t) => {
  const { closed, seen, client } = await silent(t);
  const events = client.events.stream({ signal: new AbortController().signal });
  await events.next();
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const next = events.next();
  await collect();
  t.mock.timers.tick(45_000);
  t.mock.timers.reset();
  assert.equal((await next).value.sequence, 2);
  await closed;
  assert.equal(seen.streams, 2);
  await events.return();
});
