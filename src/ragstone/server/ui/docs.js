// The description of every door, to read and to try out.
window.SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#doors",
  deepLinking: true,
  tryItOutEnabled: false,
  defaultModelsExpandDepth: 0,
});
