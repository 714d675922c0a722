/**
 * @module List-Unsubscribe and List-Unsubscribe-Post of one recipient's message (RFC 2369 §3.2, RFC 8058 §3.1), and the addresses in them. Receivers
 * use the https URL only when DKIM signs both fields, which `dkim/sign.ts` does. Never writes.
 */
import type { App } from '#features/core/app/app.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/base-url.ts'
import { DEFAULT_STREAM } from '#features/setup/streams/streams.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { computeVerpTag, decodeVerp, encodeVerp, type VerpRecipient } from '#protocols/address/verp.ts'
import { createUnsubscribeToken, type UnsubscribeFacts } from './token.ts'

export const UNSUBSCRIBE_PATH = '/u'

export interface UnsubscribableMail {
  readonly emailId: number
  readonly recipientId: number
  /** Of the recipient. */
  readonly address: string
  /** Mailbox in From, as it was stored. */
  readonly from: string
  readonly emailUuid: UuidBytes
  /** Host whose MX we are. */
  readonly returnPathDomain: string
}

const sql = prepareStatements((db) => ({
  origin: db.prepare<{ accountUuid: Uint8Array; streamId: number; slug: string; listId: number | null }, [number]>(
    `SELECT accounts.uuid AS accountUuid, streams.id AS streamId, slug, list_id AS listId FROM emails JOIN accounts ON accounts.id = emails.account_id
     JOIN streams ON streams.id = stream_id WHERE emails.id = ?`,
  ),
}))

/**
 * The fields of a message with `transactional: false`; the same at every attempt. Mail to a contact list
 * names the list. Other mail of the default stream names no stream, so that unsubscribing from it stops all such mail of the account.
 */
export function createUnsubscribeHeaders(
  { config, keys, db }: Pick<App, 'config' | 'keys' | 'db'>,
  mail: UnsubscribableMail,
): readonly (readonly [name: string, value: string])[] {
  const { emailId, emailUuid, recipientId, returnPathDomain } = mail
  const facts = readUnsubscribeFacts(db, mail)
  if (!facts) throw new Error(`email ${emailId} has no account or no stream`)
  const token = createUnsubscribeToken(keys, facts)
  const mailbox = `${encodeVerp({ recipientId, tag: computeVerpTag(emailUuid) }, keys.subkey('unsubscribe'), 'u-')}@${returnPathDomain}`
  const url = createUnsubscribeUrl(config, token)
  return [
    // The token is in the subject as well: an address has no room for it, and without rows the address alone says nothing.
    // The one that answers at once comes first: RFC 2369 §2 has the preferred first.
    ['List-Unsubscribe', `<${url}>, <mailto:${mailbox}?subject=${token}>`],
    // RFC 8058 §3.1: without an https URL there is no one click.
    ...(url.startsWith('https:') ? [['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click'] as const] : []),
  ]
}

/** Where a token leads people and mail programs. */
export const createUnsubscribeUrl = ({ publicUrl }: App['config'], token: string): string =>
  `${trimTrailingSlashes(publicUrl)}${UNSUBSCRIBE_PATH}/${token}`

/** What the token of a recipient says; undefined when the email is gone. */
export function readUnsubscribeFacts(
  db: App['db'],
  { emailId, recipientId, address, from }: Omit<UnsubscribableMail, 'emailUuid' | 'returnPathDomain'>,
): UnsubscribeFacts | undefined {
  const origin = sql(db).origin.get(emailId)
  if (!origin) return undefined
  return {
    accountUuid: origin.accountUuid,
    emailId,
    recipientId,
    address,
    senderDomain: domainOfMailbox(from),
    // A list is what people put themselves on, so it is what they leave: in whichever stream its mail comes.
    streamId: origin.listId !== null || origin.slug === DEFAULT_STREAM ? 0 : origin.streamId,
    listId: origin.listId ?? 0,
  }
}

/** Whose address for unsubscribing has this local part, in any case; undefined when we did not make it. */
export const decodeUnsubscribeAddress = ({ keys }: Pick<App, 'keys'>, localPart: string): VerpRecipient | undefined =>
  decodeVerp(localPart, keys.subkey('unsubscribe'), 'u-')
