/** @module /v1/operator/received: received mail that is not processed yet, or could not be parsed. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView, toServiceActor } from '#features/core/audit-logs/audit.ts'
import type { Destination } from '#features/receiving/received/message.ts'
import { dataBody, pageBody, toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import type { Parser } from './parser.ts'
import { countQueueEntries, isSuspect, listQueueEntries, type QueueEntry } from './queue.ts'
import { listUnparsed, retryUnparsed, START_POSITION, type UnparsedCursor, UnparsedMessage } from './retry.ts'

const ReceivedEntry = Type.Object({
  id: S.Text('Id of the entry.'),
  mail_from: S.Text('Sender of the envelope; empty for the null reverse-path.'),
  rcpt_to: Type.Array(Type.String(), { description: 'Recipients of the envelope; the first 20.' }),
  source_ip: S.Text('Address from which it came.'),
  size_bytes: S.Bytes('Size of the message'),
  is_suspect: Type.Boolean({
    description: 'Whether the process ended with it in progress: it is then processed alone.',
  }),
  received_at: S.Timestamp({ description: 'When it arrived.' }),
})

const UnparsedQuery = Type.Object({
  after: Type.Optional(
    Type.String({ maxLength: 50, pattern: '^\\d{1,15}-\\d{1,15}$', description: '`next_after` of the previous page.' }),
  ),
})
const RetryResult = Type.Object({
  id: S.Uuid({ description: 'Id of the message.' }),
  parse_error: S.TextOrNull('Why it still cannot be parsed; null: it was parsed.'),
})

/** A message has at most a few hundred recipients. */
const MAX_SHOWN_RECIPIENTS = 20

const toReceivedEntry = (entry: QueueEntry) =>
  toWire(ReceivedEntry, entry, {
    id: String(entry.id),
    rcpt_to: (JSON.parse(entry.destinations) as Destination[])
      .slice(0, MAX_SHOWN_RECIPIENTS)
      .map(({ address }) => address),
    is_suspect: isSuspect(entry),
  })

const MAX_UNPARSED = 25

export const operatorReceivedRoutes = (app: App, { parser }: { readonly parser: Parser }) =>
  new Elysia({ prefix: '/v1/operator/received' })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'received' })
        const page = S.parsePage(query)
        return pageBody(listQueueEntries(app.db, page).map(toReceivedEntry), {
          ...page,
          total: countQueueEntries(app.db),
        })
      },
      {
        query: S.PageQuery,
        response: S.PageBody(ReceivedEntry),
        detail: operatorRoute('List received mail that is not processed yet', 'Oldest first.'),
      },
    )
    .get(
      '/unparsed',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'received' })
        const { unparsed, cursor } = listUnparsed(app, parsePosition(query.after), MAX_UNPARSED)
        return {
          data: unparsed,
          next_after: cursor === undefined ? null : `${cursor.inbound}-${cursor.mailbox}`,
        }
      },
      {
        query: UnparsedQuery,
        response: Type.Object({
          data: Type.Array(UnparsedMessage),
          next_after: S.TextOrNull('Value of `after` for the next page; null: the last.'),
        }),
        detail: operatorRoute(
          'List received mail that could not be parsed',
          'Oldest first. Its account sees only the header and the raw message.',
        ),
      },
    )
    .post(
      '/unparsed/:id/retry',
      async ({ actor, params }) => {
        const problem = await retryUnparsed(app, parser, params.id, toServiceActor(actor))
        return dataBody({ id: params.id.toLowerCase(), parse_error: problem ?? null })
      },
      {
        params: Type.Object({ id: S.Text('Id of the message.') }),
        response: S.DataBody(RetryResult),
        detail: operatorRoute(
          'Parse a received message again',
          'Stores its content; its events are not emitted again.',
          { 404: ['message_not_found', 'No unparsed message has this id.'] },
        ),
      },
    )

function parsePosition(after: string | undefined): UnparsedCursor {
  if (after === undefined) return START_POSITION
  const [inbound, mailbox] = after.split('-').map(Number)
  return { inbound: inbound ?? 0, mailbox: mailbox ?? 0 }
}
