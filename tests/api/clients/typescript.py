"""TypeScript programs that use the package, beside that of docs/clients.md."""

import json

from tests.api.test_lease_doors import GPU, MEMBERS, TYPES

GROWTH = """
import type { components, ProblemCode } from "gpulease-client";
declare const lease: components["schemas"]["Lease"];
export const known: components["schemas"]["Lease"]["state"] = "active";
export const code: ProblemCode = "quota_exceeded";
lease.state = "paused";
lease.placement!.market = "auction";
export const request: components["schemas"]["NewLease"] = { ttl_seconds: 60, market: "spot_first" };
// @ts-expect-error values of a request must be known
export const wrong: components["schemas"]["NewLease"] = { ttl_seconds: 60, market: "auction" };
"""

OTHERS = {
    "name": "a",
    "quote_id": "quote_01k00000000000000000000000",
    "tenant_id": "tenant_01k00000000000000000000000",
    "volumes": [{"name": "data", "path": "/data"}],
}
BODIES = [{**MEMBERS, **OTHERS, **wish} for wish in (GPU, TYPES)]
"""Each member of a create. Their types must be known, and all of them must be sent."""
DOORS = f"""
import {{ Gpulease, type components }} from "gpulease-client";
const bodies: components["schemas"]["NewLease"][] = {json.dumps(BODIES)};
for (const body of bodies) {{
  const fetch = async (request: Request) => {{
    console.log(await request.text());
    return new Response("{{}}", {{ status: 201, headers: {{ "Content-Type": "application/json" }} }});
  }};
  await new Gpulease({{ url: "http://api.test", key: "k", fetch }}).leases.create(body);
}}
"""
