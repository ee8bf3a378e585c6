/** Labels as people write them: a line `key=value` each. */

/** The text of a form field. */
export const labelLines = (labels) => Object.entries(labels).map(([key, value]) => `${key}=${value}`).join("\n");

/** The labels of such a text. A line without `=` is a label with an empty value. */
export function parseLabels(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf("=");
    return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}
