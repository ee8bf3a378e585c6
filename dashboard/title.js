/** The name of what the page shows, such as a lease's, for the title of the browser's tab. */
import { shared, useEffect, useLayoutEffect } from "./ui.js";

/** Null: the view's own name is enough. */
const subject = shared(null);

export function useSubject(name) {
  useLayoutEffect(() => {
    subject.set(name);
    return () => subject.get() === name && subject.set(null);
  }, [name]);
}

/** Keeps the title. A component of its own: a change while the shell renders would be lost to the shell. */
export function Title({ view }) {
  const title = [subject.use(), view, "gpulease"].filter(Boolean).join(" · ");
  useEffect(() => {
    document.title = title;
  }, [title]);
  return null;
}
