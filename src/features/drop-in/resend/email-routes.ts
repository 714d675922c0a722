/** @module Emails that were sent: read, list, reschedule, cancel. */
import type { App } from '#features/core/app/app.ts'
import type { EventType } from '#features/core/events/record.ts'
import * as emails from '#features/sending/emails/read.ts'
import { cancelEmail, rescheduleEmail } from '#features/sending/emails/scheduled.ts'
import { emailRowWire, type MaxAttempts, type RenderBodies, readEmailBodies } from '#features/sending/emails/wire.ts'
import type { Status } from '#features/sending/queue/status.ts'
import type { RowWindow } from '#platform/db/row-window.ts'
import { parseUuid } from '#platform/ids.ts'
import { formatMailbox, parseMailboxList } from '#protocols/address/parse.ts'
import { readPage } from './list.ts'
import { missingField, on } from './route.ts'
import { toSendAt, toTagPairs } from './translate.ts'

export interface EmailRouteOptions {
  readonly maxAttempts: MaxAttempts
  readonly renderedBodies: RenderBodies
}

export const emailRoutes = (options: EmailRouteOptions) => [
  on('GET /emails/', 'emails:read', ({ app, app: { db }, accountId, query }) => {
    const source = {
      find(id: string) {
        const uuid = parseUuid(id)
        return uuid && emails.findEmail(db, accountId, uuid)
      },
      keyOf: ({ createdAt, id }: emails.StoredEmail) => [createdAt, id],
      listBelow: (window: RowWindow) => emails.listEmails(db, accountId, ANY_EMAIL, window).emails,
      listAbove: (email: emails.StoredEmail, limit: number) => emails.listEmailsAbove(db, accountId, email, limit),
    }
    return readPage(query, source, (email) => toListedEmail(app, accountId, email, options.maxAttempts))
  }),
  on('GET /emails/:id', 'emails:read', async ({ app, accountId, id }) => {
    const email = emails.getEmail(app.db, accountId, id)
    const { html, text } = await readEmailBodies(app, email, options.renderedBodies)
    return toEmailDetail(app, accountId, email, { html, text, maxAttempts: options.maxAttempts })
  }),
  on('PATCH /emails/:id', 'emails:send', async ({ app, actor, id, read }) => {
    const sendAt = toSendAt(read(['scheduled_at'])['scheduled_at'], app.clock.now())
    if (sendAt === undefined) throw missingField('scheduled_at')
    await rescheduleEmail(app, actor, id, { send_at: sendAt })
    return toEmailReference(id)
  }),
  on('POST /emails/:id/cancel', 'emails:send', async ({ app, actor, id }) => {
    await cancelEmail(app, actor, id)
    return toEmailReference(id)
  }),
]

const ANY_EMAIL = { status: undefined, from: 0, to: Number.MAX_SAFE_INTEGER }

const toEmailReference = (id: string) => ({ object: 'email' as const, id: id.toLowerCase() })

/** The clients' names of what happened last to an email. */
const BY_EVENT = {
  queued: 'queued',
  scheduled: 'scheduled',
  cancelled: 'canceled',
  sent: 'sent',
  delivered: 'delivered',
  deferred: 'delivery_delayed',
  bounced: 'bounced',
  failed: 'failed',
  rejected: 'suppressed',
  opened: 'opened',
  clicked: 'clicked',
  complained: 'complained',
  uncertain: 'sent',
} as const satisfies Partial<Record<EventType, string>>

/** For an email whose last event has no name of theirs, or was deleted because of its age. */
const BY_STATUS = {
  ...BY_EVENT,
  processing: 'queued',
  draft: 'scheduled',
  sent: 'delivered',
} as const satisfies Record<Status, string>

function readLastEvent({ db }: App, accountId: number, { id, status }: emails.StoredEmail) {
  const type = emails.readLastEventType(db, accountId, id)
  return type && type in BY_EVENT ? BY_EVENT[type as keyof typeof BY_EVENT] : BY_STATUS[status]
}

/** The mailboxes of a header; none for a text that is no list of them. */
export function toMailboxes(header: string | null | undefined): string[] {
  const parsed = header ? parseMailboxList(header) : undefined
  return parsed?.kind === 'ok' ? parsed.mailboxes.map(formatMailbox) : []
}

export function toListedEmail(app: App, accountId: number, email: emails.StoredEmail, maxAttempts: MaxAttempts) {
  const wire = emailRowWire(email, maxAttempts)
  return {
    id: wire.id,
    message_id: wire.message_id,
    from: wire.from_address,
    to: email.recipients.filter(({ kind }) => kind === 'to').map(({ address }) => address),
    cc: wire.cc,
    bcc: wire.bcc,
    reply_to: toMailboxes(wire.reply_to),
    subject: wire.subject,
    created_at: wire.created_at,
    scheduled_at: wire.scheduled_at ?? null,
    last_event: readLastEvent(app, accountId, email),
  }
}

export function toEmailDetail(
  app: App,
  accountId: number,
  email: emails.StoredEmail,
  { html, text, maxAttempts }: { html: string | null; text: string | null; maxAttempts: MaxAttempts },
) {
  const { tags } = emailRowWire(email, maxAttempts)
  return {
    object: 'email' as const,
    ...toListedEmail(app, accountId, email, maxAttempts),
    html,
    text,
    tags: toTagPairs(tags),
  }
}
