import { resolveQuickly } from "./resolve.js";

// Shows the description that this API serves. Nothing is stored: a key entered under Authorize is gone with the page.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

window.SwaggerUIBundle({
  dom_id: "#reference",
  url: "openapi.json",
  presets: [window.SwaggerUIBundle.presets.apis],
  plugins: [resolveQuickly],
  layout: "BaseLayout",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  defaultModelRendering: "example",
  displayRequestDuration: true,
  filter: true,
  validatorUrl: null,
});
