/** @module The unsubscribe headers of a message (RFC 2369, RFC 8058), and the signed tokens in them. Pure. */
import type { App } from '#features/core/app/app.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { DEFAULT_STREAM } from '#features/setup/streams/streams.ts'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import { openSealedToken, sealedTokenLength, sealToken } from '#platform/crypto/sealed-token.ts'
import { encodeVarint, MAX_VARINT_BYTES } from '#platform/crypto/token-bytes.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { computeVerpTag, decodeVerp, encodeVerp, type VerpRecipient } from '#protocols/address/verp.ts'

export const UNSUBSCRIBE_PATH = '/u'

export interface UnsubscribableMail {
  readonly emailId: number
  readonly recipientId: number
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

/** The data in a token. Ids are row ids unless stated otherwise. */
export interface UnsubscribeFacts {
  readonly accountUuid: UuidBytes
  readonly emailId: number
  readonly recipientId: number
  readonly address: string
  /** Domain of From, shown to readers; `''` if it is too long to fit. */
  readonly senderDomain: string
  /** Stream whose mail the link stops; 0: every stream. */
  readonly streamId: number
  /** Contact list whose mail the link stops; 0: no list. */
  readonly listId: number
}

const CONTEXT = 'unsubscribe'
const UUID_BYTES = 16
const MAX_ADDRESS_BYTES = 254
/** Longer names are omitted: a token must fit a header line. */
const MAX_DOMAIN_LENGTH = 100
export const MAX_TOKEN_LENGTH = sealedTokenLength(
  UUID_BYTES + 4 * MAX_VARINT_BYTES + 1 + MAX_DOMAIN_LENGTH + MAX_ADDRESS_BYTES,
)

/** The token, in base64url. Throws if the address is longer than an address can be. */
export function createUnsubscribeToken(keys: KeyRing, facts: UnsubscribeFacts): string {
  const address = Buffer.from(facts.address)
  if (address.length > MAX_ADDRESS_BYTES) throw new Error(`address too long: ${address.length} octets`)
  const domain = Buffer.from(facts.senderDomain.length <= MAX_DOMAIN_LENGTH ? facts.senderDomain : '', 'latin1')
  return sealToken(keys, CONTEXT, [
    facts.accountUuid,
    ...[facts.emailId, facts.recipientId, facts.streamId, facts.listId].map(encodeVarint),
    Buffer.of(domain.length),
    domain,
    address,
  ])
}

/** The data in a token; undefined if this service did not create it, or it was changed in transit. Accepts any text. */
export function openUnsubscribeToken(keys: KeyRing, text: string): UnsubscribeFacts | undefined {
  const facts = openSealedToken(keys, CONTEXT, text, MAX_TOKEN_LENGTH)
  return (
    facts && {
      accountUuid: new Uint8Array(facts.take(UUID_BYTES)),
      emailId: facts.takeInteger(),
      recipientId: facts.takeInteger(),
      streamId: facts.takeInteger(),
      listId: facts.takeInteger(),
      senderDomain: facts.take(facts.take(1)[0] ?? 0).toString('latin1'),
      address: facts.takeRest().toString('utf8'),
    }
  )
}
