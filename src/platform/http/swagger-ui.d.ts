/** @module The value of a file imported `with { type: 'file' }` in Bun: the file's path, also inside the executable. */
declare module 'swagger-ui-dist/swagger-ui-bundle.js' {
  const path: string
  export default path
}

declare module 'swagger-ui-dist/swagger-ui.css' {
  const path: string
  export default path
}
