/** The name of what the page shows, such as a lease's, for the title of the browser's tab. */
import { shared, useLayoutEffect } from "./ui.js";

/** Null: the view's own name is enough. */
export const subject = shared(null);

/** Set when the view is on the page: a passive effect can run while the shell renders, which then misses the change. */
export function useSubject(name) {
  useLayoutEffect(() => {
    subject.set(name);
    return () => subject.get() === name && subject.set(null);
  }, [name]);
}
