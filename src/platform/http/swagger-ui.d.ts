/** @module The value of files imported `with { type: 'file' }` in Bun: their path, inside the executable too. */
declare module 'swagger-ui-dist/swagger-ui-bundle.js' {
  const path: string
  export default path
}

declare module 'swagger-ui-dist/swagger-ui.css' {
  const path: string
  export default path
}
