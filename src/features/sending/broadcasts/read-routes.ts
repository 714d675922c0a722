/** @module Routes that read broadcasts, and that count recipients: paths, schemas and one call each. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { EXPORT_WORK_UNITS } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { getList } from '#features/setup/contact-store/lists.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody, idKey, isoTime, pageBody } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import {
  DataBody,
  Nullable,
  PageBody,
  PageQuery,
  parsePage,
  StringEnum,
  Timestamp,
  Uuid,
} from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { createRecipientCounter } from './count-recipients.ts'
import { countEngagement, getBroadcast, type ListedBroadcast, listBroadcasts } from './list.ts'
import { BROADCAST_STREAM } from './start.ts'
import { BROADCAST_STATES, countBroadcastEmails } from './states.ts'

const FIELDS = {
  id: Uuid({ description: 'Id of the broadcast, which is that of its operation.' }),
  list_id: Uuid({ description: 'Contact list.' }),
  list_name: Type.String({ description: 'Name of the contact list, also after it was deleted.' }),
  list_deleted: Type.Boolean({ description: 'Whether the contact list was deleted.' }),
  from_address: Type.String({ description: 'Sender.' }),
  subject: Type.String({ description: 'Source of the subject.' }),
  state: StringEnum(
    BROADCAST_STATES.filter((state) => state !== 'fixing'),
    { description: 'As `metadata.state` of its operation.' },
  ),
  sandbox: Type.Boolean({ description: 'Whether its emails are only captured.' }),
  total_recipients: Type.Integer({ description: 'Number of recipients at its start.' }),
  enqueued: Type.Integer({ description: 'Recipients whose email was enqueued for delivery.' }),
  skipped: Type.Integer({ description: 'Recipients who were skipped or whose email was withdrawn.' }),
  message: Nullable(Type.String(), { description: 'Why it waits or ended early; null: it does not.' }),
  begins_at: Timestamp({ description: 'When it begins or began.' }),
  created_at: Timestamp({ description: 'When it was accepted.' }),
  updated_at: Timestamp({ description: 'When it last progressed.' }),
}

export const BroadcastRow = Type.Object(FIELDS)
export type BroadcastRow = Static<typeof BroadcastRow>

export const BroadcastRecord = Type.Object({
  ...FIELDS,
  emails: Type.Record(Type.String(), Type.Integer(), { description: 'Number of its emails per status.' }),
})
export type BroadcastRecord = Static<typeof BroadcastRecord>

export const EngagementRecord = Type.Object({
  opened: Type.Integer({ description: 'Emails that were opened; only of mail with tracking.' }),
  clicked: Type.Integer({ description: 'Emails in which a link was clicked; only of mail with tracking.' }),
  complained: Type.Integer({ description: 'Emails reported as spam.' }),
  unsubscribed: Type.Integer({ description: 'Emails whose reader unsubscribed.' }),
})
export type EngagementRecord = Static<typeof EngagementRecord>

export const RecipientCountRecord = Type.Object({
  contacts: Type.Integer({ description: 'Contacts on the list.' }),
  recipients: Type.Integer({ description: 'Contacts who would get a broadcast now.' }),
  left_out: Type.Object(
    {
      suppressed: Type.Integer({ description: 'Active, but on the suppression list.' }),
      pending: Type.Integer({ description: 'Not confirmed yet.' }),
      unsubscribed: Type.Integer({ description: 'Left the list.' }),
      bounced: Type.Integer({ description: 'Undeliverable.' }),
      complained: Type.Integer({ description: 'Reported mail as spam.' }),
    },
    { description: 'The others, by the reason.' },
  ),
})
export type RecipientCountRecord = Static<typeof RecipientCountRecord>

const toRow = (broadcast: ListedBroadcast): BroadcastRow => ({
  id: formatUuid(broadcast.operationUuid),
  list_id: formatUuid(broadcast.listUuid),
  list_name: broadcast.listName,
  list_deleted: broadcast.isListDeleted,
  from_address: broadcast.from,
  subject: broadcast.subject,
  state: broadcast.state as BroadcastRow['state'],
  sandbox: broadcast.sandbox,
  total_recipients: broadcast.total,
  enqueued: broadcast.handedOver,
  skipped: broadcast.leftOut,
  message: broadcast.error,
  begins_at: isoTime(broadcast.dueAt),
  created_at: isoTime(broadcast.createdAt),
  updated_at: isoTime(broadcast.updatedAt),
})

const tags = ['Broadcasts']
const params = Type.Object({ id: Type.String({ description: 'Id of the broadcast.' }) })

export const broadcastReadRoutes = (app: App) => {
  const countRecipients = createRecipientCounter(app)
  return new Elysia({ tags })
    .use(authenticated)
    .get(
      '/v1/broadcasts',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { broadcasts, total } = listBroadcasts(app.db, actor.accountId, page)
        return pageBody(broadcasts.map(toRow), { ...page, total }, idKey(broadcasts))
      },
      {
        query: PageQuery,
        response: PageBody(BroadcastRow),
        detail: describeRoute(
          'List broadcasts',
          requires('emails:read', 'contacts:read'),
          'Newest first, also those of newsletters. Drafts are newsletters with the status draft.',
        ),
      },
    )
    .get(
      '/v1/broadcasts/:id',
      ({ actor, params }) => {
        const broadcast = getBroadcast(app.db, actor.accountId, params.id)
        const emails = { ...countBroadcastEmails(app.db, actor.accountId, broadcast.operationId) }
        return dataBody({ ...toRow(broadcast), emails })
      },
      {
        params,
        response: DataBody(BroadcastRecord),
        detail: describeRoute(
          'Get a broadcast',
          requires('emails:read', 'contacts:read'),
          'Its operation of the same id is paused, resumed and cancelled.',
        ),
      },
    )
    .get(
      '/v1/broadcasts/:id/engagement',
      ({ actor, params, request }) =>
        withoutTimeLimit(request, async () => {
          const broadcast = getBroadcast(app.db, actor.accountId, params.id)
          app.workBudget.spend(actor.accountId, Math.min(broadcast.handedOver, EXPORT_WORK_UNITS))
          return dataBody(await countEngagement(app.db, broadcast))
        }),
      {
        params,
        response: DataBody(EngagementRecord),
        detail: describeRoute(
          'Count what the readers of a broadcast did',
          requires('emails:read'),
          'Delivered emails by what their stored events show; each email counts once. Takes some seconds for a million emails.',
        ),
      },
    )
    .get(
      '/v1/contact-lists/:id/recipients',
      ({ actor, params, query, request }) =>
        withoutTimeLimit(request, async () => {
          const list = getList(app.db, actor.accountId, params.id)
          return dataBody(await countRecipients(list, query.stream ?? BROADCAST_STREAM))
        }),
      {
        params: Type.Object({ id: Type.String({ description: 'Id of the contact list.' }) }),
        query: Type.Object({
          stream: Type.Optional(
            Type.String({ description: `Slug of the message stream; omitted: \`${BROADCAST_STREAM}\`.` }),
          ),
        }),
        response: DataBody(RecipientCountRecord),
        detail: describeRoute(
          'Count the recipients of a broadcast',
          requires('contacts:read'),
          'Who would get a broadcast to the list now, and who would be left out and why. Takes a second or two for a million contacts; one count of an account at a time, others wait.',
          errorResponses({
            404: ['contact_list_not_found', 'Contact list not found.'],
            429: ['rate_limited', 'Too many counts of the account wait; wait as long as Retry-After says.'],
          }),
        ),
      },
    )
}
