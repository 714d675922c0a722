/**
 * @module Recognises and reads delivery status notifications (DSNs): those in standard form (RFC 3464, RFC 6533) by
 * their status part, others by their words. Excludes out-of-office replies, read receipts (RFC 8098) and complaints
 * (RFC 5965).
 */
import { type ParsedAttachment, type ParsedMessage, RETURNED_TYPES } from '../mime/parsed.ts'
import { type Dsn, findMessageId, NOTHING_RETURNED, parseReturned, type ReturnedEmail } from './fields.ts'
import {
  addExplanation,
  classifySender,
  findHeader,
  isAutomaticReply,
  type MessageHead,
  parseHeuristicDsn,
} from './heuristic.ts'
import { parseDeliveryStatus } from './standard.ts'

const STATUS_PARTS: ReadonlySet<string> = new Set(['message/delivery-status', 'message/global-delivery-status'])
/** Types of reports that are not about delivery. */
const OTHER_REPORTS: ReadonlySet<string> = new Set([
  'message/disposition-notification',
  'message/global-disposition-notification',
  'message/feedback-report',
])

/** Maximum octets read of a part. A report has the essentials at the top, but a returned message can have any size. */
const MAX_PART_BYTES = 256 * 1024

/**
 * Returns the delivery status that a message reports; undefined when the message is not a DSN. Accepts any message.
 * Does not open the returned message, so a forwarded DSN does not count.
 * @param facts.mailFrom as in `classifySender`
 */
export function parseDsn(message: ParsedMessage, { mailFrom }: { readonly mailFrom: string }): Dsn | undefined {
  const findPart = (types: ReadonlySet<string>) => message.attachments.find((part) => types.has(part.contentType))
  const contentType = findHeader(message, 'content-type')?.toLowerCase() ?? ''
  if (findPart(OTHER_REPORTS) || OTHER_REPORT_TYPE.test(contentType)) return undefined
  const sender = classifySender(message, mailFrom)
  const returnedPart = findPart(RETURNED_TYPES)
  const returned = returnedPart ? parseReturned(decodeStart(returnedPart)) : NOTHING_RETURNED
  const statusPart = findPart(STATUS_PARTS)
  // Outside of a multipart/report, anyone may have attached a status part. So the sender must be a mail system, or the
  // reverse-path must be null.
  const isReport = contentType.startsWith('multipart/report') || contentType.startsWith('message/')
  if (statusPart && (isReport || sender !== 'other')) {
    const status = parseDeliveryStatus(decodeStart(statusPart))
    if (status.recipients.length > 0) {
      const isOnly = status.recipients.length === 1
      const recipients = status.recipients.map((recipient) => addExplanation(message, recipient, isOnly))
      const named = findMessageId(status.originalMessageId)
      return { recipients, ...addMessageId(returned, named, message) }
    }
  }
  const heuristic = parseHeuristicDsn(message, sender, returnedPart !== undefined)
  if (!heuristic) return undefined
  return {
    recipients: [heuristic.recipient],
    ...addMessageId(returnedPart ? returned : heuristic.returned, null, message),
  }
}

const OTHER_REPORT_TYPE = /report-type\s?=\s?"?(?:disposition-notification|feedback-report|tlsrpt)/
const RECEIPT_TYPE = /^\s*multipart\/report\b[^\r\n]{0,500}report-type\s?=\s?"?disposition-notification/i

/**
 * Returns whether a message is an automatic reply on behalf of a person (RFC 3834 §5), or a receipt (RFC 8098). When
 * such a message arrives at a return path, it can be ignored.
 * @param mailFrom reverse-path of the session, `''` for the null reverse-path
 */
export const isAutoReplyOrReceipt = (message: MessageHead, mailFrom: string): boolean =>
  RECEIPT_TYPE.test(findHeader(message, 'content-type') ?? '') ||
  isAutomaticReply(message, classifySender(message, mailFrom))

/**
 * A report that does not return the original message may still refer to its Message-ID in In-Reply-To or References.
 */
const addMessageId = (returned: ReturnedEmail, named: string | null, message: ParsedMessage): ReturnedEmail => ({
  ...returned,
  originalMessageId:
    returned.originalMessageId ?? named ?? findMessageId(message.inReplyTo ?? message.references.at(-1) ?? undefined),
})

function decodeStart({ content }: ParsedAttachment): string {
  const bytes = Buffer.from(content.buffer, content.byteOffset, Math.min(content.length, MAX_PART_BYTES))
  const text = bytes.toString('utf8')
  return text.includes('\ufffd') ? bytes.toString('latin1') : text
}
