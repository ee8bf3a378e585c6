/** The types of events, as filters and webhooks select them. */
const NAMES = {
  lease: "queued provisioning booting active releasing release_blocked released failed updated extended expiring_soon cap_near price_changed host_keys rebooting rebooted reboot_failed interruption_notice adopted proof gpu_health idle_soon idle kept benchmark",
  attempt: "gpu_check_failed planned launched settling refused dead",
  group: "queued forming pool_failed active degraded member_lost resized releasing ended",
  quota: "nearly_used",
  budget: "threshold",
  orphan: "ended",
};

export const EVENT_TYPES = Object.entries(NAMES).flatMap(([noun, names]) => names.split(" ").map((name) => `${noun}.${name}`));

/** What a webhook may select besides: a message that is no event. */
export const METER_TYPES = ["usage.hour"];
