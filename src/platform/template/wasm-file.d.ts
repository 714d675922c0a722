/** @module The value of files imported `with { type: 'file' }` in Bun: their path, inside the executable too. */
declare module 'minijinja-js/dist/web/minijinja_js_bg.wasm' {
  const path: string
  export default path
}
