/** @module The SMTP replies to what acceptance decides, with the sentences of the API. Pure. */
import type { SendRequest, SendResponse } from '#features/sending/accept/model.ts'
import type { AppError } from '#platform/errors.ts'

export interface SmtpReply {
  readonly code: number
  /** Begins with the enhanced status code (RFC 3463). */
  readonly text: string
}

/** A reply line has at most 512 octets (RFC 5321 §4.5.3.1.5). */
const MAX_TEXT_LENGTH = 480

/** Builds a reply; the sentence may contain text of the client. */
export const createReply = (code: number, enhancedCode: string, sentence: string): SmtpReply => ({
  code,
  text: `${enhancedCode} ${sentence.replaceAll(/[^\x20-\x7e]/g, '?')}`.slice(0, MAX_TEXT_LENGTH),
})

/** @param dropped what is not sent of the message */
export function createAcceptedReply(response: SendResponse, dropped: readonly string[]): SmtpReply {
  const end = dropped.length > 0 ? ` - dropped: ${dropped.join(', ')}` : ''
  return createReply(250, '2.0.0', `Ok: queued as ${response.id}${describeAccepted(response)}${end}`)
}

/** What the program's log should say about a message that is stored, but not sent as usual. */
function describeAccepted({ status, sandbox, replayed, mismatch }: SendResponse): string {
  if (mismatch) return ' (of an earlier message with this idempotency key and other content; this one is not sent)'
  if (replayed) return ' (of the first message with this idempotency key)'
  if (status === 'rejected') return ' (not sent: every recipient is suppressed)'
  return sandbox ? ' (not sent: the domain of From is not verified, or the simulator gets it)' : ''
}

export const INVALID_KEY: SmtpReply = createReply(
  535,
  '5.7.8',
  'Authentication failed: the password is no valid API key of this service; check that it is whole and was not revoked; the user name can be anything',
)
export const NO_KEY: SmtpReply = createReply(
  535,
  '5.7.8',
  'Authentication failed: there is no password; it must be an API key of this service; the user name can be anything',
)

/** Codes of errors whose reply does not follow from the status. */
const BY_CODE: Readonly<Record<string, readonly [code: number, enhancedCode: string]>> = {
  quota_exceeded: [452, '4.2.2'],
  sandbox_limit: [452, '4.2.2'],
  mail_loop: [554, '5.4.6'],
  attachments_too_large: [552, '5.3.4'],
  invalid_address: [553, '5.1.3'],
}

const BY_STATUS: Readonly<Record<number, readonly [code: number, enhancedCode: string]>> = {
  401: [535, '5.7.8'],
  403: [550, '5.7.1'],
  413: [552, '5.3.4'],
  429: [451, '4.7.1'],
  503: [451, '4.3.0'],
  507: [452, '4.3.1'],
}

/** The header fields of a message, by the field of a request that has their addresses. */
const ADDRESS_FIELDS = { from: 'From', to: 'To', cc: 'Cc', bcc: 'Bcc', reply_to: 'Reply-To' } as const

/** Names the address that an error is about, where the API names a field such as `to.0`. */
function nameAddress({ message, details: [detail] }: AppError, request: SendRequest | undefined): string {
  const [name = '', index] = detail?.field.split('.') ?? []
  if (!detail || !message.startsWith(`${detail.field}: `) || !(name in ADDRESS_FIELDS)) return message
  const field = name as keyof typeof ADDRESS_FIELDS
  const provided = request?.[field]
  const address = typeof provided === 'object' ? provided?.[Number(index)] : provided
  return `The address${address === undefined ? '' : ` "${address}"`} in ${ADDRESS_FIELDS[field]}${message.slice(detail.field.length)}`
}

/**
 * A temporary reply only where the same message may succeed later.
 * @param request what the message was translated into, if it was
 */
export function toReply(error: AppError, request?: SendRequest): SmtpReply {
  const { status, code, details } = error
  const isAboutSender = details.some(({ field }) => field === 'from')
  const [smtpCode, enhancedCode] =
    (isAboutSender ? ([550, '5.7.1'] as const) : undefined) ??
    BY_CODE[code] ??
    BY_STATUS[status] ??
    (status >= 500 ? ([451, '4.3.0'] as const) : ([554, '5.6.0'] as const))
  return createReply(smtpCode, enhancedCode, nameAddress(error, request))
}
