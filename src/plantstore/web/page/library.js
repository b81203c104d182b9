/** Load a library that has the form of an AMD module: it calls `define`. @param {string} file */
export async function loadLibrary(file) {
  /** @type {any} */
  let library;
  const define = (/** @type {any[]} */ ...given) => {
    library = given.at(-1)();
  };
  Object.assign(globalThis, { define: Object.assign(define, { amd: true }) });
  await import(file);
  Object.assign(globalThis, { define: undefined });
  return library;
}
