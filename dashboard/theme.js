// Runs before the first paint, so that a chosen colour scheme does not flash. Kept apart from the modules, which run later.
(() => {
  const chosen = localStorage.getItem("gpulease.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
