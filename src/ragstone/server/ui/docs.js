// Show the description of every endpoint, to read and to try out.
window.SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  tryItOutEnabled: false,
  defaultModelsExpandDepth: 0,
});
