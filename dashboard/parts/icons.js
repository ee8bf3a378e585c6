/** Line icons, 20 × 20, drawn with the text's colour. They never stand alone: a word says the same. */
import { html } from "../ui.js";

const PATHS = {
  fleet: "M3 11.5h4v5H3zM8 7.5h4v9H8zM13 3.5h4v13h-4z",
  leases: "M3.5 5h13M3.5 10h13M3.5 15h13",
  groups: "M7.5 3.5h5v4h-5zM2.5 12.5h5v4h-5zM12.5 12.5h5v4h-5zM10 7.5v2.5M5 12.5V10h10v2.5",
  usage: "M3 16.5h14M3.5 13l4-4.5 3.5 3 5.5-7",
  costs: "M10 2.8v14.4M13.6 6.4c-.5-1.1-1.9-1.8-3.6-1.8-2.1 0-3.6 1-3.6 2.6 0 3.6 7.4 1.9 7.4 5.5 0 1.7-1.6 2.7-3.8 2.7-1.9 0-3.4-.8-3.9-2.1",
  budgets: "M3 6.5h14v7H3zM3 10h8M11 6.5v7",
  reconciliation: "M6 4v9.5M3.5 11 6 13.5 8.5 11M14 16V6.5M11.5 9 14 6.5 16.5 9",
  download: "M10 3.5v9M6.5 9.5l3.5 3.5 3.5-3.5M4 16.5h12",
  prices: "M3.5 10.5v-7h7l6 6-7 7ZM7 7v.2",
  capacity: "M3.5 3.5h5v5h-5zM11.5 3.5h5v5h-5zM3.5 11.5h5v5h-5zM11.5 11.5h5v5h-5z",
  tenants: "M7.5 9a2.75 2.75 0 1 0 0-5.5 2.75 2.75 0 0 0 0 5.5ZM2.5 16.5c0-3 2.2-4.7 5-4.7s5 1.7 5 4.7M13 4a2.5 2.5 0 0 1 0 4.8M14.5 12c1.9.5 3 2.1 3 4.5",
  accounts: "M5.8 15.5a3.3 3.3 0 0 1-.3-6.6 4.7 4.7 0 0 1 9-1 3.8 3.8 0 0 1-.3 7.6Z",
  stuck: "M10 3.2 17.5 16.5h-15ZM10 8v4M10 14.2v.2",
  quotas: "M3.5 14.5a6.5 6.5 0 1 1 13 0M10 14.5l3.2-4.5",
  sun: "M10 6.8a3.2 3.2 0 1 0 0 6.4 3.2 3.2 0 0 0 0-6.4ZM10 2v1.7M10 16.3V18M18 10h-1.7M3.7 10H2M15.6 4.4l-1.2 1.2M5.6 14.4l-1.2 1.2M15.6 15.6l-1.2-1.2M5.6 5.6 4.4 4.4",
  moon: "M16.5 11.8A7 7 0 0 1 8.2 3.5a7 7 0 1 0 8.3 8.3Z",
  auto: "M10 3a7 7 0 1 0 0 14ZM10 3a7 7 0 0 1 0 14",
  out: "M8 3.5H4.5v13H8M12.5 6.5 16 10l-3.5 3.5M16 10H8",
  copy: "M7 7h9v9H7zM4 13V4h9",
  check: "M4 10.5 8 14.5 16 6",
  search: "M8.8 14.1a5.3 5.3 0 1 0 0-10.6 5.3 5.3 0 0 0 0 10.6ZM12.7 12.7l4 4",
  clock: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM10 6v4l2.7 1.8",
  edit: "M4 16v-3L13 4l3 3-9 9ZM11 6l3 3",
  reboot: "M15.5 6.5A6.5 6.5 0 1 0 16.5 10M16 3v4h-4",
  plus: "M10 4v12M4 10h12",
  events: "M3 10h3l2-5 4 10 2-5h3",
  webhooks: "M7.5 6.5a2.5 2.5 0 1 1 4 2l2.5 4.5M10 6.5 6.5 13M4 13.5a2.5 2.5 0 1 0 5 0h5.5a2.2 2.2 0 1 1-.3 1.5",
  audit: "M5 3.5h10v13H5zM7.5 7h5M7.5 10h5M7.5 13h3",
  keys: "M8.2 11.8a3.4 3.4 0 1 1 0-4.8M8.5 9.4h8M14 9.4v2.6M16.5 9.4v2",
  release: "M4.5 4.5h11v11h-11z",
  close: "M5 5l10 10M15 5 5 15",
  warning: "M10 3.2 17.5 16.5h-15ZM10 8v4M10 14.2v.2",
  left: "M12 5 7 10l5 5",
  right: "M8 5l5 5-5 5",
};

export const Icon = ({ name }) => html`
  <svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>
`;
