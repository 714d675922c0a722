/** @module The routes of /v1/emails: the list, and sending. `one-email-routes.ts` has those of one email. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { acceptRequest } from '#features/sending/accept/accept.ts'
import { acceptBatch } from '#features/sending/accept/batch.ts'
import { BatchRequest, BatchResponse, SendRequest, SendResponse } from '#features/sending/accept/model.ts'
import { RATE_HEADERS, type TakeRate } from '#features/sending/accept/send-rate.ts'
import { ANY_TIME } from '#features/sending/queue/search.ts'
import { isStatus, STATUSES, type Status } from '#features/sending/queue/status.ts'
import { invalid } from '#platform/errors.ts'
import { dateFields, parseDateRange } from '#platform/http/date-filter.ts'
import { dataBody, pageBody, timeKey } from '#platform/http/envelope.ts'
import { responseHeaders } from '#platform/http/route-errors.ts'
import { DataBody, PAGE_FIELDS, PageBody, parsePage, StringEnum } from '#platform/http/schemas.ts'
import { parseUuid, type UuidBytes } from '#platform/ids.ts'
import { EmailRow } from './model.ts'
import { listEmails } from './read.ts'
import { parseSearch, searchEmails } from './search-list.ts'
import { emailRowWire, type MaxAttempts } from './wire.ts'

const EmailQuery = Type.Object({
  ...PAGE_FIELDS,
  status: Type.Optional(
    StringEnum([...STATUSES, 'delivered'], { description: 'Only emails with this status; `delivered` means `sent`.' }),
  ),
  ...dateFields('emails accepted'),
  operation_id: Type.Optional(Type.String({ description: 'Only emails of this batch, broadcast or newsletter.' })),
  to: Type.Optional(
    Type.String({
      description:
        'Only emails to this address, in To, Cc or Bcc; `@example.com`: to any address of that domain. Case is ignored.',
    }),
  ),
  from: Type.Optional(
    Type.String({
      description:
        'Only emails from this address; `@example.com`: from any address of exactly that domain. Case is ignored.',
    }),
  ),
  subject: Type.Optional(
    Type.String({
      description:
        'Only emails with all of these whole words in the subject, in any order; case and accents are ignored. The subject of a broadcast is searched before rendering.',
    }),
  ),
  tag: Type.Optional(Type.String({ description: 'Only emails with exactly this tag.' })),
  stream: Type.Optional(Type.String({ description: 'Only emails of the stream with this slug.' })),
  domain: Type.Optional(
    Type.String({
      description:
        'Only emails of your domain with this name, the one that signs them; it may cover senders at its subdomains.',
    }),
  ),
  message_id: Type.Optional(
    Type.String({
      description:
        'Only emails with this Message-ID: ours, or the one that the client chose when it submitted the email by SMTP. With or without its angle brackets.',
    }),
  ),
})

/** OpenAPI parameter for a route's `detail`. */
export const IDEMPOTENCY_KEY_PARAMETER = {
  parameters: [
    {
      name: 'Idempotency-Key',
      in: 'header' as const,
      required: false,
      description: 'Repeating a request with the same key returns the first response and sends nothing new.',
      schema: { type: 'string' as const, minLength: 1, maxLength: 256 },
    },
  ],
}

/** Values from features that this one may not import; `src/app` passes them. */
export interface EmailRouteOptions {
  readonly maxAttempts: MaxAttempts
  readonly takeRate: TakeRate
}

export const emailRoutes = (app: App, { maxAttempts, takeRate }: EmailRouteOptions) => {
  return new Elysia({ prefix: '/v1/emails' })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query }) => {
        const page = parsePage(query)
        const { from, to } = parseDateRange(query)
        const filter = {
          status: parseStatusFilter(query.status),
          from: from ?? ANY_TIME.from,
          to: to ?? ANY_TIME.to,
          operation: parseOperationFilter(query.operation_id),
        }
        const search = parseSearch(app.db, actor.accountId, query)
        if (search) {
          const { emails, lastKey, ...counted } = await searchEmails(app, actor.accountId, { filter, search }, page)
          return pageBody(
            emails.map((email) => emailRowWire(email, maxAttempts)),
            { ...page, ...counted },
            lastKey,
          )
        }
        const { emails, total } = listEmails(app.db, actor.accountId, filter, page)
        return pageBody(
          emails.map((email) => emailRowWire(email, maxAttempts)),
          { ...page, total },
          timeKey(emails, ({ createdAt }) => createdAt),
        )
      },
      {
        query: EmailQuery,
        response: PageBody(EmailRow),
        detail: {
          summary: 'List emails',
          description:
            'Newest first, without bodies; filters can be combined. With `to`, `from`, `subject`, `tag`, `stream`, `domain` or `message_id`, `pagination.total` counts to 10,000, and 10,001 means more. If a status or an operation is added, the total is the number found so far, and a page may have fewer rows than `per_page`: continue while there is a `next_cursor`.',
          tags: ['Emails'],
          ...requires('emails:read'),
        },
      },
    )
    .post(
      '/',
      async ({ actor, body, headers, set, status }) => {
        const { response } = await acceptRequest(app, actor, body, headers['idempotency-key'], () => {
          Object.assign(set.headers, takeRate(actor))
        })
        if (response.mismatch) set.headers['idempotency-mismatch'] = 'true'
        return status(202, dataBody(response))
      },
      {
        body: SendRequest,
        response: { 202: DataBody(SendResponse) },
        detail: {
          summary: 'Send an email',
          description:
            'Responds when the email is on disk. The header Idempotency-Key is equivalent to idempotency_key. For tests, `sim.` and the host name of the service is a domain of simulated mailboxes: `deliver`, `bounce+5.1.1` with any code, `defer`, `greylist`, `slow`, `drop-after-dot`, `open`, `click`, `complain`. Such mail has all events and webhooks but is `sandbox` mail: it affects neither quota nor reputation nor suppressions.',
          tags: ['Emails'],
          ...IDEMPOTENCY_KEY_PARAMETER,
          ...responseHeaders(...RATE_HEADERS, 'Idempotency-Mismatch'),
          ...requires('emails:send'),
        },
      },
    )
    .post(
      '/batch',
      async ({ actor, body, headers, set, status }) => {
        const input = { emails: body.emails, idempotencyKey: headers['idempotency-key'] }
        const response = await acceptBatch(app, actor, input, () => {
          Object.assign(set.headers, takeRate(actor))
        })
        return status(202, response)
      },
      {
        body: BatchRequest,
        response: { 202: BatchResponse },
        detail: {
          summary: 'Send up to 500 emails',
          description: 'Each email is checked separately; invalid ones are reported in `errors`, the others are sent.',
          tags: ['Emails'],
          ...IDEMPOTENCY_KEY_PARAMETER,
          ...responseHeaders(...RATE_HEADERS),
          ...requires('emails:send'),
        },
      },
    )
}

/** Accepts `delivered`, the name that some clients use for `sent`. */
function parseStatusFilter(text: string | undefined): Status | undefined {
  if (text === undefined) return undefined
  const status = text === 'delivered' ? 'sent' : text
  return isStatus(status) ? status : undefined
}

function parseOperationFilter(id: string | undefined): UuidBytes | undefined {
  if (id === undefined) return undefined
  const uuid = parseUuid(id)
  if (!uuid) throw invalid('operation_id', 'operation_id must be a UUID, the id of an operation.')
  return uuid
}
