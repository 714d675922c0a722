/**
 * @module Decides at RCPT whether an address is one of this host, of a tenant's inbound domain, or unknown. Rejects
 * within the session, so that no bounce is needed later. Read-only.
 */
import type { App } from '#features/core/app/app.ts'
import { findMailbox, isMailboxFull } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import type { Destination, Rejection } from '#features/receiving/received/message.ts'
import { toRouteKey } from '#features/receiving/route-rules/rows.ts'
import { findVerpRecipient } from '#features/sending/queue/email.ts'
import { decodeUnsubscribeAddress } from '#features/sending/unsubscribe/headers.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { toALabels } from '#protocols/address/domain.ts'
import { decodeVerp } from '#protocols/address/verp.ts'

const sql = prepareStatements((db) => ({
  // Several accounts may register a name; only one of them can have verified it.
  byName: db.prepare<{ id: number; accountId: number }, [string]>(
    `SELECT id, account_id AS accountId FROM domains
     WHERE domain = ? AND verified_at IS NOT NULL AND inbound_enabled = 1 AND deleted_at IS NULL LIMIT 1`,
  ),
  isSending: db.prepare<{ id: number }, [string, string]>(
    'SELECT id FROM domains WHERE domain = ? AND sending_subdomain = ? AND verified_at IS NOT NULL AND deleted_at IS NULL LIMIT 1',
  ),
}))

/** Role mailboxes of this host (RFC 5321 §4.5.1, RFC 2142 §4); the last three receive feedback and domain reports. */
const HOST_MAILBOXES: ReadonlySet<string> = new Set(['postmaster', 'abuse', 'fbl', 'dmarc-reports', 'tls-reports'])

/** Role mailboxes of a return-path domain (RFC 5321 §4.5.1, RFC 2142 §4), and the addresses of reports about its domain. */
const DOMAIN_MAILBOXES: ReadonlySet<string> = new Set(['postmaster', 'abuse', 'dmarc-reports', 'tls-reports'])

const userUnknown: Rejection = { code: 550, text: '5.1.1 User unknown' }
/** Also sent for registered domains without inbound mail: remote clients must not learn which customers are here. */
const relayAccessDenied: Rejection = {
  code: 550,
  text: '5.7.1 Relay access denied',
}
/** RFC 3463 §3.3: temporary, because the owner can read messages before the sender tries again. */
const mailboxFull: Rejection = { code: 452, text: '4.2.2 Mailbox full' }
const badAddressSyntax: Rejection = { code: 553, text: '5.1.3 Bad recipient address syntax' }

/** Creates the function that decides at RCPT. Accepts any client input. */
export function createRecipientDecider(
  app: Pick<App, 'config' | 'db' | 'keys'>,
): (address: string) => Destination | Rejection {
  const hostname = app.config.hostname.toLowerCase()
  return (address) => {
    if (address.toLowerCase() === 'postmaster') return { kind: 'host', address: `postmaster@${hostname}` }
    const atIndex = address.lastIndexOf('@')
    const localPart = address.slice(0, atIndex)
    const domain = toALabels(address.slice(atIndex + 1))
    if (atIndex < 1 || domain === undefined) return badAddressSyntax
    // Addresses that we generated are ours under any domain: the MAC proves it.
    const bounceName = decodeVerp(localPart, app.keys.subkeys('verp'))
    if (bounceName) return { kind: 'bounce', address, recipientId: findVerpRecipient(app.db, bounceName) }
    const unsubscribeName = decodeUnsubscribeAddress(app, localPart)
    if (unsubscribeName)
      return { kind: 'unsubscribe', address, recipientId: findVerpRecipient(app.db, unsubscribeName) }
    const name = toRouteKey(localPart)
    if (domain === hostname) return HOST_MAILBOXES.has(name) ? { kind: 'host', address } : userUnknown
    const row = sql(app.db).byName.get(domain)
    if (row) {
      const mailbox = findMailbox(app.db, domain, localPart)
      if (mailbox && isMailboxFull(app.db, mailbox)) return mailboxFull
      return { kind: 'domain', address, accountId: row.accountId, domainId: row.id }
    }
    if (isReturnPathDomain(app, domain)) return DOMAIN_MAILBOXES.has(name) ? { kind: 'host', address } : userUnknown
    return relayAccessDenied
  }
}

/** Whether this is the return-path domain of a verified domain. */
function isReturnPathDomain({ db }: Pick<App, 'db'>, domain: string): boolean {
  const dot = domain.indexOf('.')
  return sql(db).isSending.get(domain.slice(dot + 1), domain.slice(0, dot)) !== null
}
