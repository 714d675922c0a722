/** @module What Bun gives for files imported `with { type: 'file' }`: their path, inside the executable too. */
declare module 'minijinja-js/dist/web/minijinja_js_bg.wasm' {
  const path: string
  export default path
}
