/** Where an offering or a VM is. */
import { counted, providerName } from "../format.js";

/** AWS us-east-1a, or with several zones AWS us-east-1, 3 zones. */
export const ZoneOf = ({ place, zones = 1 }) =>
  zones > 1 ? `${providerName(place.provider)} ${place.region}, ${counted(zones, "zone")}` : `${providerName(place.provider)} ${place.zone || place.region}`;
