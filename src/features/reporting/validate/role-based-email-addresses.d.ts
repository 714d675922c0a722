/** @module Types of role-based-email-addresses, which ships without types. */
declare module 'role-based-email-addresses' {
  /** Local parts in lower case, each once. */
  const localParts: readonly string[]
  export default localParts
}
