/**
 * @module Links to files that need no key: the client gets one from an API response and fetches it as it is. A link is
 * sealed, names one file of one message, and expires.
 */
import type { App } from '#features/core/app/app.ts'
import { openSealedToken, sealedTokenLength, sealToken } from '#platform/crypto/sealed-token.ts'
import { encodeVarint, MAX_VARINT_BYTES } from '#platform/crypto/token-bytes.ts'
import { notFound } from '#platform/errors.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'

/**
 * The raw message of an inbound email, one of its attachments, an attachment of an email that was sent, or one of a
 * message in an agent mailbox.
 */
const FILE_KINDS = ['raw', 'received', 'sent', 'mailbox'] as const

export interface LinkedFile {
  readonly kind: (typeof FILE_KINDS)[number]
  /** Row id of the account. */
  readonly accountId: number
  /** Of the email, or of the message in a mailbox. */
  readonly uuid: UuidBytes
  /** Position of the attachment, from 0; 0 for `raw`. */
  readonly index: number
}

export interface FileLink {
  readonly url: string
  readonly expiresAt: Millis
}

const CONTEXT = 'file link'
const TTL_MS = hours(1)
const UUID_BYTES = 16
const MAX_TOKEN_LENGTH = sealedTokenLength(1 + UUID_BYTES + 3 * MAX_VARINT_BYTES)

/**
 * A link to a file. The links of one hour are the same, so that they can be cached.
 * @param path of the route that opens the link
 */
export function createFileLink({ keys, config, clock }: App, path: string, file: LinkedFile): FileLink {
  const expiresAt = Math.ceil(clock.now() / TTL_MS) * TTL_MS + TTL_MS
  const token = sealToken(keys, CONTEXT, [
    Buffer.of(FILE_KINDS.indexOf(file.kind)),
    file.uuid,
    encodeVarint(file.accountId),
    encodeVarint(file.index),
    encodeVarint(expiresAt),
  ])
  return { url: `${config.publicUrl}${path}?token=${token}`, expiresAt }
}

/** The file of a link. Throws a 404 for a link that we did not create, or that has expired. */
export function openFileLink({ keys, clock }: Pick<App, 'keys' | 'clock'>, token: string): LinkedFile {
  const facts = openSealedToken(keys, CONTEXT, token, MAX_TOKEN_LENGTH)
  const kind = facts && FILE_KINDS[facts.take(1)[0] ?? -1]
  if (!facts || !kind) throw createExpiredError()
  const uuid = new Uint8Array(facts.take(UUID_BYTES))
  const [accountId, index, expiresAt] = [facts.takeInteger(), facts.takeInteger(), facts.takeInteger()]
  if (clock.now() > expiresAt) throw createExpiredError()
  return { kind, accountId, uuid, index }
}

/** The 404 for a link of which there is no file. */
export const createExpiredError = () =>
  notFound(
    'file_not_found',
    'This link is not valid or has expired; ask the API for the attachments again to get a new one.',
  )
