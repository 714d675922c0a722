/** @module Of role-based-email-addresses, which has no types of its own. */
declare module 'role-based-email-addresses' {
  /** Local parts in lower case, each once. */
  const localParts: readonly string[]
  export default localParts
}
