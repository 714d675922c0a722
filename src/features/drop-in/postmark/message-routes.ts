/** @module /postmark/messages/outbound: sent messages and their events. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { getEmail, listEmails, readEmailEvents, type StoredEmail } from '#features/sending/emails/read.ts'
import { parseSearch, searchEmails } from '#features/sending/emails/search-list.ts'
import { isSystemMail, type RenderBodies, readEmailBodies } from '#features/sending/emails/wire.ts'
import { ANY_TIME } from '#features/sending/queue/search.ts'
import type { Status } from '#features/sending/queue/status.ts'
import { toSlug } from '#features/webhooks/webhooks/payload/postmark.ts'
import { invalid } from '#platform/errors.ts'
import { yieldFairly } from '#platform/http/request-context.ts'
import { POSTMARK_PREFIX } from './dialect.ts'
import { toMessageDetails, toOutboundMessage } from './messages.ts'
import { createQueryReader, type Query, readTimes, readWindow } from './query.ts'

/** Functions of features that this one does not import; `src/app` passes them. */
export interface PostmarkMessageOptions {
  readonly renderedBodies: RenderBodies
  /** Composes the message of an email, by row id, again. */
  readonly readSource: (
    emailId: number,
    options: { readonly isContentHidden: boolean },
  ) => Promise<{ readonly source: string | null }>
}

const INVALID_QUERY = 'invalid_message_query'
const STATUSES: Readonly<Record<string, Status>> = { queued: 'queued', sent: 'sent', processed: 'sent' }

function readStatus(text: string | undefined): Status | undefined {
  if (text === undefined) return undefined
  const status = STATUSES[text.toLowerCase()]
  if (!status) throw invalid('status', 'status must be queued or sent.', INVALID_QUERY)
  return status
}

async function findMessages(app: App, accountId: number, query: Query) {
  const read = createQueryReader(query)
  const window = readWindow(read, INVALID_QUERY)
  const { from = ANY_TIME.from, to = ANY_TIME.to } = readTimes(read, INVALID_QUERY)
  const filter = { status: readStatus(read('status')), from, to }
  const stream = read('messagestream')
  const search = parseSearch(app.db, accountId, {
    to: read('recipient'),
    from: read('fromemail'),
    subject: read('subject'),
    tag: read('tag'),
    stream: stream && toSlug(stream),
  })
  return search
    ? searchEmails(app, accountId, { filter, search }, window)
    : listEmails(app.db, accountId, filter, window)
}

export const postmarkMessageRoutes = (app: App, { readSource, renderedBodies }: PostmarkMessageOptions) => {
  const detail = requires('emails:read')
  const sourceOf = async (email: StoredEmail): Promise<string | null> =>
    (await readSource(email.id, { isContentHidden: isSystemMail(email) })).source
  return new Elysia({ prefix: `${POSTMARK_PREFIX}/messages/outbound` })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query, request }) => {
        await yieldFairly(request)
        const { emails, total } = await findMessages(app, actor.accountId, query)
        app.workBudget.charge(actor.accountId, emails.length)
        return { TotalCount: total, Messages: emails.map((email) => toOutboundMessage(app.db, email)) }
      },
      { detail },
    )
    .get(
      '/:id/details',
      async ({ actor, params }) => {
        const email = getEmail(app.db, actor.accountId, params.id)
        const { html, text } = await readEmailBodies(app, email, renderedBodies)
        const content = { html, text, source: await sourceOf(email) }
        return toMessageDetails(app, email, content, readEmailEvents(app, actor.accountId, email.id))
      },
      { detail },
    )
    .get(
      '/:id/dump',
      async ({ actor, params }) => ({ Body: (await sourceOf(getEmail(app.db, actor.accountId, params.id))) ?? '' }),
      { detail },
    )
}
