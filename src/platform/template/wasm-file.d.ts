/** @module The values of files of minijinja-js, as the `type` of their imports asks for them, also in the executable. */
declare module 'minijinja-js/dist/bundler/minijinja_js_bg.wasm' {
  const path: string
  export default path
}
declare module 'minijinja-js/dist/bundler/minijinja_js_bg.js' {
  const text: string
  export default text
}
