/**
 * @module Received mail that is not processed yet, or could not be parsed: for `tassis inbound` and the operator's
 * routes. The content is untrusted.
 */
import { isSuspect, type QueueEntry } from '#features/receiving/inbound/process/queue.ts'
import type { UnparsedCursor, UnparsedMail } from '#features/receiving/inbound/process/retry.ts'
import type { Destination } from '#features/receiving/received/message.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import type { ReceivedEntry, UnparsedMessage } from './model.ts'

export const toUnparsedView = (unparsed: UnparsedMail): UnparsedMessage => ({
  id: formatUuid(unparsed.uuid),
  kind: unparsed.kind,
  to: unparsed.to,
  from: unparsed.from,
  subject: unparsed.subject,
  parse_error: unparsed.problem,
  received_at: isoTime(unparsed.receivedAt),
})

export const START_POSITION: UnparsedCursor = { inbound: 0, mailbox: 0 }

/** A message has at most a few hundred recipients. */
const MAX_SHOWN_RECIPIENTS = 20

export const toReceivedEntry = (entry: QueueEntry): ReceivedEntry => ({
  id: String(entry.id),
  mail_from: entry.mailFrom,
  rcpt_to: (JSON.parse(entry.destinations) as Destination[])
    .slice(0, MAX_SHOWN_RECIPIENTS)
    .map(({ address }) => address),
  source_ip: entry.sourceIp,
  size_bytes: entry.sizeBytes,
  is_suspect: isSuspect(entry),
  received_at: isoTime(entry.receivedAt),
})
