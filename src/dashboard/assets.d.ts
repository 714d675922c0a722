/** The URL of the file. */
declare module '*.woff2' {
  const url: string
  export default url
}

/** Style sheets are imported for their effect: the bundler collects them. */
declare module '*.css'
