/** The name of what the page shows, such as a lease's, for the title of the browser's tab. */
import { shared, useEffect } from "./ui.js";

/** Null: the view's own name is enough. */
export const subject = shared(null);

export function useSubject(name) {
  useEffect(() => {
    subject.set(name);
    return () => subject.set(null);
  }, [name]);
}
