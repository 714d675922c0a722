/** @module The value of a file imported `with { type: 'file' }` in Bun: the file's path, also inside the executable. */
declare module 'minijinja-js/dist/web/minijinja_js_bg.wasm' {
  const path: string
  export default path
}
