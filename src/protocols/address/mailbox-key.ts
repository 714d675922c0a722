/**
 * @module Computes a key that is equal for addresses that lead to one mailbox, as far as their spelling shows. The key
 * is for counting only: never send to a key, store it or show it.
 */

/** Two domains of one provider, which ignores dots in local parts. */
const GMAIL = 'gmail.com'
const GMAIL_DOMAINS: ReadonlySet<string> = new Set([GMAIL, 'googlemail.com'])

/**
 * Returns the key under which mail to an address is counted. Drops what follows a plus in the local part, because
 * nearly every provider delivers it to the same mailbox. For Gmail, also drops dots and uses one of its two domain
 * names.
 * @param addressKey as `normaliseAddress` returns it
 */
export function toMailboxKey(addressKey: string): string {
  const at = addressKey.lastIndexOf('@')
  const domain = addressKey.slice(at + 1)
  const plus = addressKey.indexOf('+')
  const localPart = addressKey.slice(0, plus > 0 && plus < at ? plus : Math.max(at, 0))
  return GMAIL_DOMAINS.has(domain) ? `${localPart.replaceAll('.', '')}@${GMAIL}` : `${localPart}@${domain}`
}
