/** @module Which addresses lead to one mailbox, as far as their spelling shows. For counting only: never to be sent to, stored or shown. */

/** Domains of one provider that ignores dots in local parts. */
const GMAIL = 'gmail.com'
const GMAIL_DOMAINS: ReadonlySet<string> = new Set([GMAIL, 'googlemail.com'])

/**
 * The key under which mail to an address is counted: without what follows a plus in the local part, which nearly everywhere is the same mailbox; for
 * Gmail also without its dots, and with one name of its domain.
 * @param addressKey as `normaliseAddress` returns it
 */
export function toMailboxKey(addressKey: string): string {
  const at = addressKey.lastIndexOf('@')
  const domain = addressKey.slice(at + 1)
  const plus = addressKey.indexOf('+')
  const localPart = addressKey.slice(0, plus > 0 && plus < at ? plus : Math.max(at, 0))
  return GMAIL_DOMAINS.has(domain) ? `${localPart.replaceAll('.', '')}@${GMAIL}` : `${localPart}@${domain}`
}
