/**
 * @module Builds List-Unsubscribe and List-Unsubscribe-Post of one recipient's message (RFC 2369 §3.2, RFC 8058 §3.1),
 * and the addresses in them. Receivers use the https URL only if DKIM signs both fields, which `dkim/sign.ts` does.
 * Never writes.
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
  /** The recipient's address. */
  readonly address: string
  /** The mailbox in From, as stored. */
  readonly from: string
  readonly emailUuid: UuidBytes
  /** Host whose MX is this service. */
  readonly returnPathDomain: string
}

const sql = prepareStatements((db) => ({
  origin: db.prepare<{ accountUuid: Uint8Array; streamId: number; slug: string; listId: number | null }, [number]>(
    `SELECT accounts.uuid AS accountUuid, streams.id AS streamId, slug, list_id AS listId FROM emails JOIN accounts ON accounts.id = emails.account_id
     JOIN streams ON streams.id = stream_id WHERE emails.id = ?`,
  ),
}))

/**
 * The fields of a message with `transactional: false`; the same at every attempt. Mail to a contact list names the
 * list. Other mail of the default stream names no stream, so unsubscribing stops all mail of the account with
 * `transactional: false`.
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
    // The token is in the subject too, because an address is too short for it. Once the rows are deleted, the address
    // alone says nothing. The URL comes first because it works immediately: RFC 2369 §2 puts the preferred method
    // first.
    ['List-Unsubscribe', `<${url}>, <mailto:${mailbox}?subject=${token}>`],
    // RFC 8058 §3.1: one-click needs an https URL.
    ...(url.startsWith('https:') ? [['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click'] as const] : []),
  ]
}

/** The page of a token, for people and mail programs. */
export const createUnsubscribeUrl = ({ publicUrl }: App['config'], token: string): string =>
  `${trimTrailingSlashes(publicUrl)}${UNSUBSCRIBE_PATH}/${token}`

/** The data in a recipient's token; undefined if the email does not exist. */
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
    // People subscribe to a list, so the link unsubscribes from the list, whichever stream the mail of the list uses.
    streamId: origin.listId !== null || origin.slug === DEFAULT_STREAM ? 0 : origin.streamId,
    listId: origin.listId ?? 0,
  }
}

/** The recipient of an unsubscribe address, by local part in any case; undefined if this service did not create it. */
export const decodeUnsubscribeAddress = ({ keys }: Pick<App, 'keys'>, localPart: string): VerpRecipient | undefined =>
  decodeVerp(localPart, keys.subkeys('unsubscribe'), 'u-')
