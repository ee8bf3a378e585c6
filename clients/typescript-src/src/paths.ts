import { InvalidValueError } from "./errors.js";

/** What no encoding makes a part of a path: slashes, percent signs, control characters, `.` and `..`. */
const WRONG = /[/\\%\u0000-\u001f\u007f]|^\.{0,2}$/;

/** The path with its parameters percent-encoded. Throws InvalidValueError, because a value must not choose another resource. */
export function pathOf(template: string, parameters: Record<string, unknown>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(parameters[name] ?? "");
    if (WRONG.test(value)) throw new InvalidValueError(`${JSON.stringify(value)} is no id or name: it cannot be a part of a path`);
    return encodeURIComponent(value);
  });
}
