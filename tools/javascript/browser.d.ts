// What the browsers have and the types of TypeScript do not yet.

interface JSON {
  parse(text: string, reviver?: (key: string, value: any, context: { source: string }) => any): any;
  rawJSON(text: string): unknown;
}

// Swagger UI's script, which the reference loads after its own.
declare const SwaggerUIBundle: (options: object) => {
  preauthorizeApiKey(scheme: string, token: string): void;
};

// The libraries of the page. The service serves them beside its modules.
declare module "*/preact.mjs" {
  export * from "preact";
}
declare module "*/htm.mjs" {
  export { default } from "htm";
}
declare module "*/uqr.mjs" {
  export * from "uqr";
}

// An event, at the element whose handler it calls.
type On<Target, Kind = Event> = Kind & { currentTarget: Target };
