// Runs before the first paint, so that a chosen colour scheme does not flash. Kept apart from the modules, which run later.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("gpulease.theme");
  } catch {
    // the browser stores nothing for this page
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
