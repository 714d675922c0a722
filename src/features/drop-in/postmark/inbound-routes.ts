/** @module /postmark/messages/inbound: received emails in the form of Postmark's messages. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { createBodyReader } from '#features/core/app/stored-content.ts'
import {
  getInbound,
  type InboundEmail,
  inboundStatusName,
  listInbound,
} from '#features/receiving/inbound/api/inbound-emails.ts'
import type { RowKey } from '#platform/db/row-window.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { yieldFairly } from '#platform/http/request-context.ts'
import { formatUuid } from '#platform/ids.ts'
import { parseMailboxList } from '#protocols/address/parse.ts'
import { POSTMARK_PREFIX } from './dialect.ts'
import { createQueryReader, isInTime, type Query, readTimes, readWindow } from './fields.ts'

const INVALID_QUERY = 'invalid_message_query'
/** The newest received emails, among which a list searches. */
const MAX_EXAMINED = 10_000
const BATCH_SIZE = 100

export const postmarkInboundRoutes = (app: App) =>
  new Elysia({ prefix: `${POSTMARK_PREFIX}/messages/inbound` })
    .use(authenticated)
    .get('/', ({ actor, query, request }) => listMessages(app, actor.accountId, query, () => yieldFairly(request)), {
      detail: requires('inbound:read'),
    })
    .get('/:id/details', ({ actor, params }) => toInboundDetails(app, getInbound(app.db, actor.accountId, params.id)), {
      detail: requires('inbound:read'),
    })

async function listMessages(app: App, accountId: number, query: Query, takeTurn: () => Promise<void>) {
  const read = createQueryReader(query)
  const { limit, offset } = readWindow(read, INVALID_QUERY)
  const times = readTimes(read, INVALID_QUERY)
  const has = (name: string, text: string) => text.toLowerCase().includes(read(name)?.toLowerCase() ?? '')
  const isWanted = (email: InboundEmail, { From, Subject, MailboxHash, Status, Tag }: InboundMessage) =>
    has('recipient', email.rcptTo.join(' ')) &&
    has('fromemail', From) &&
    has('subject', Subject) &&
    has('mailboxhash', MailboxHash) &&
    has('tag', Tag) &&
    has('status', Status) &&
    isInTime(email.receivedAt, times)
  const messages: InboundMessage[] = []
  let found = 0
  let after: RowKey | undefined
  for (let examined = 0; examined < MAX_EXAMINED; examined += BATCH_SIZE) {
    const { emails } = listInbound(app.db, accountId, {}, { limit: BATCH_SIZE, offset: 0, after })
    for (const email of emails) {
      const message = toInboundMessage(email)
      if (!isWanted(email, message)) continue
      if (found >= offset && messages.length < limit) messages.push(message)
      found++
    }
    if (emails.length < BATCH_SIZE) break
    after = [emails.at(-1)?.id ?? 0]
    await takeTurn()
  }
  return { TotalCount: found, InboundMessages: messages }
}

const STATUSES = { received: 'Queued', delivered: 'Processed', failed: 'Failed', no_route: 'Blocked' } as const

/** What is between the first "+" and "@". */
const toHash = (address: string): string => address.split('@')[0]?.split('+').slice(1).join('+') ?? ''

function toMailboxes(header: string | null) {
  const parsed = header === null ? undefined : parseMailboxList(header)
  const mailboxes = parsed?.kind === 'ok' ? parsed.mailboxes : []
  return mailboxes.map(({ address, name }) => ({ Email: address, Name: name ?? '', MailboxHash: toHash(address) }))
}

export type InboundMessage = ReturnType<typeof toInboundMessage>

export function toInboundMessage(email: InboundEmail) {
  const sender = { Email: email.fromAddress ?? '', Name: '', MailboxHash: '' }
  const [from = sender] = toMailboxes(email.fromHeader)
  const [recipient = ''] = email.rcptTo
  return {
    ...{ From: from.Email, FromName: from.Name, FromFull: from, To: email.toHeader ?? '' },
    ...{ ToFull: toMailboxes(email.toHeader), Cc: email.ccHeader ?? '', CcFull: toMailboxes(email.ccHeader) },
    ...{ Bcc: '', BccFull: [], ReplyTo: '', OriginalRecipient: recipient, MailboxHash: toHash(recipient), Tag: '' },
    ...{ Subject: email.subject ?? '', Date: isoTime(email.receivedAt), MessageID: formatUuid(email.uuid) },
    Status: STATUSES[inboundStatusName(email.status)],
    Attachments: email.attachments.map(({ filename, content_type, content_id, size }) => ({
      ...{ Name: filename ?? '', Content: '', ContentID: content_id ?? '' },
      ...{ ContentType: content_type, ContentLength: size },
    })),
    MessageStream: 'inbound',
  }
}

export function toInboundDetails(app: App, email: InboundEmail) {
  const { read } = createBodyReader(app)
  const headers = JSON.parse(read(email.headersRef) ?? '[]') as [string, string][]
  return {
    ...toInboundMessage(email),
    ...{ TextBody: read(email.textRef) ?? '', HtmlBody: read(email.htmlRef) ?? '', StrippedTextReply: '' },
    Headers: headers.map(([Name, Value]) => ({ Name, Value })),
    BlockedReason: email.errorMessage ?? '',
  }
}
