/**
 * @module The broadcasts of an account, what their readers did, and who would get one now: routes that read and count.
 * Never writes.
 */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { EXPORT_WORK_UNITS } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { type EventType, toEventCode, toEventType } from '#features/core/events/record.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { type ContactList, getList } from '#features/setup/contact-store/lists.ts'
import {
  CONTACT_STATUSES,
  type ContactStatus,
  readContactCount,
  toContactStatusCode,
} from '#features/setup/contact-store/status.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { toSuppressionScopeCode } from '#features/setup/suppression-store/check.ts'
import { newestFirst, prepareStatements } from '#platform/db/open.ts'
import { errorResponses } from '#platform/http/access.ts'
import { dataBody, pageById, toWire } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import * as S from '#platform/http/schemas.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { createFairYield, yieldToEventLoop } from '#platform/time/clock.ts'
import type { Millis } from '#platform/units.ts'
import { BROADCAST_STREAM } from './model.ts'
import { IS_SUPPRESSED } from './start.ts'
import { BROADCAST_STATES, countBroadcastEmails, stateName } from './states.ts'
import type { broadcasts } from './tables.ts'

const readsContacts = describeWith('emails:read', 'contacts:read')

/** With row ids beside the public id, which is that of the operation. */
interface Row
  extends Readonly<
    Pick<typeof broadcasts.$inferSelect, 'from' | 'subject' | 'state' | 'createdAt' | 'updatedAt'> &
      Record<'uuid' | 'listId', UuidBytes> &
      Record<'id' | 'operationId' | 'listDeleted' | 'sandbox' | 'totalRecipients' | 'enqueued' | 'skipped', number>
  > {
  readonly listName: string
  readonly message: string | null
  readonly beginsAt: Millis
}

const ENGAGEMENT_TYPES = ['opened', 'clicked', 'complained', 'unsubscribed'] as const satisfies readonly EventType[]

const COLUMNS = `b.id, b.operation_id AS operationId, operations.uuid, contact_lists.uuid AS listId,
  contact_lists.name AS listName, contact_lists.deleted_at IS NOT NULL AS listDeleted, b.from_address AS "from", b.subject, b.state, b.sandbox,
  b.total AS totalRecipients, b.handed_over AS enqueued, b.left_out AS skipped, b.error AS message, b.due_at AS beginsAt, b.created_at AS createdAt,
  b.updated_at AS updatedAt`
// A list keeps its row when it is deleted.
const JOINED = `broadcasts b JOIN operations ON operations.id = b.operation_id JOIN contact_lists ON contact_lists.id = b.list_id`

const sql = prepareStatements((db) => ({
  list: newestFirst<Row, [number]>(
    db,
    `SELECT ${COLUMNS} FROM ${JOINED}`,
    'broadcasts b INDEXED BY broadcasts_account WHERE account_id = ? AND operation_id IS NOT NULL',
    'b.id',
  ),
  byUuid: db.prepare<Row, [Uint8Array, number]>(
    `SELECT ${COLUMNS} FROM ${JOINED} WHERE operations.uuid = ? AND b.account_id = ?`,
  ),
  sentAfter: db.prepare<{ last: number | null; n: number }, [number, number, number, number]>(
    `SELECT MAX(id) AS last, COUNT(*) AS n FROM (SELECT id FROM emails INDEXED BY emails_of_operation WHERE operation_id = ? AND status = ? AND id > ?
     ORDER BY id LIMIT ?)`,
  ),
  engaged: db.prepare<{ type: number; n: number }, [number, number, number, number]>(
    `SELECT type, COUNT(DISTINCT email_id) AS n FROM events INDEXED BY events_email WHERE email_id IN (
       SELECT id FROM emails INDEXED BY emails_of_operation WHERE operation_id = ? AND status = ? AND id > ? AND id <= ?)
     AND type IN (${ENGAGEMENT_TYPES.map((type) => toEventCode(type)).join(', ')}) GROUP BY type`,
  ),
  // The parameters are numbered as IS_SUPPRESSED expects them.
  examined: db.prepare<{ last: number | null; n: number; stopped: number | null }, number[]>(
    `SELECT MAX(id) AS last, COUNT(*) AS n, SUM(stopped) AS stopped FROM (SELECT id, ${IS_SUPPRESSED} AS stopped
     FROM contacts INDEXED BY contacts_status WHERE list_id = ?2 AND status = ?3 AND id > ?4 ORDER BY id LIMIT ?5)`,
  ),
}))

/** The account's broadcast with the public id of its operation; throws 404. */
function getBroadcast(db: Database, accountId: number, id: string): Row {
  const row = sql(db).byUuid.get(S.parseUuidParam(id, 'broadcast_not_found', 'broadcast'), accountId)
  if (!row) throw S.notFoundById('broadcast_not_found', 'broadcast')
  return row
}

/** Emails of a broadcast by what their readers did; each counts once. */
type Engagement = Readonly<Record<(typeof ENGAGEMENT_TYPES)[number], number>>

/** Emails whose events are counted at a time: about 5 ms. */
const BATCH_SIZE = 1000

/**
 * Counts in batches, between which other requests are served: some seconds for a million emails. Counts what the stored
 * events show, so it becomes less when retention deletes them.
 */
async function countEngagement(db: Database, { operationId }: Row): Promise<Engagement> {
  const counts: Record<string, number> = Object.fromEntries(ENGAGEMENT_TYPES.map((type) => [type, 0]))
  const sent = statusCode('sent')
  for (let after = 0; ; ) {
    const batch = sql(db).sentAfter.get(operationId, sent, after, BATCH_SIZE)
    if (!batch || batch.last === null) return counts as Engagement
    for (const { type, n } of sql(db).engaged.all(operationId, sent, after, batch.last)) {
      const name = toEventType(type)
      counts[name] = (counts[name] ?? 0) + n
    }
    if (batch.n < BATCH_SIZE) return counts as Engagement
    after = batch.last
    await yieldToEventLoop()
  }
}

/** Contacts examined at a time: about 5 ms. */
const CONTACT_BATCH_SIZE = 2000
/** Contacts examined for one unit, in long lists; in short ones each contact is a unit. */
const CONTACTS_PER_WORK_UNIT = 20
/** However many lists are counted at the same time, each batch gets its own tick of the event loop. */
const yieldFairly = createFairYield()

/**
 * Who would get a broadcast to a list now, and who would be left out and why. Examines the contacts in batches, between
 * which other requests are served: a second or two for a million.
 */
async function countRecipients(
  { db, workBudget }: Pick<App, 'db' | 'workBudget'>,
  { id: listId, accountId }: ContactList,
  streamSlug: string,
) {
  const units = readContactCount(db, accountId, listId, 'active')
  workBudget.spend(accountId, Math.max(Math.min(units, EXPORT_WORK_UNITS), units / CONTACTS_PER_WORK_UNIT))
  // No suppression is of this stream if the stream does not exist yet.
  const streamId = findStreamId(db, accountId, streamSlug) ?? -1
  const [active, all] = [toContactStatusCode('active'), toSuppressionScopeCode('all')]
  const examined = { contacts: 0, suppressed: 0 }
  for (let after = 0; ; ) {
    const batch = sql(db).examined.get(0, listId, active, after, CONTACT_BATCH_SIZE, all, streamId)
    examined.contacts += batch?.n ?? 0
    examined.suppressed += batch?.stopped ?? 0
    if (!batch || batch.last === null || batch.n < CONTACT_BATCH_SIZE) break
    after = batch.last
    await yieldFairly()
  }
  const inactive = Object.fromEntries(
    CONTACT_STATUSES.filter((status) => status !== 'active').map((status) => [
      status,
      readContactCount(db, accountId, listId, status),
    ]),
  ) as Record<Exclude<ContactStatus, 'active'>, number>
  return {
    contacts: Object.values(inactive).reduce((sum, n) => sum + n, examined.contacts),
    recipients: examined.contacts - examined.suppressed,
    left_out: { suppressed: examined.suppressed, ...inactive },
  }
}

const FIELDS = {
  id: S.Uuid({ description: 'Id of the broadcast, which is that of its operation.' }),
  list_id: S.Uuid({ description: 'Contact list.' }),
  list_name: Type.String({ description: 'Name of the contact list, also after it was deleted.' }),
  list_deleted: Type.Boolean({ description: 'Whether the contact list was deleted.' }),
  from_address: Type.String({ description: 'Sender.' }),
  subject: Type.String({ description: 'Source of the subject.' }),
  state: S.StringEnum(
    BROADCAST_STATES.filter((state) => state !== 'fixing'),
    { description: 'As `metadata.state` of its operation.' },
  ),
  sandbox: Type.Boolean({ description: 'Whether its emails are only captured.' }),
  total_recipients: Type.Integer({ description: 'Number of recipients at its start.' }),
  enqueued: Type.Integer({ description: 'Recipients whose email was enqueued for delivery.' }),
  skipped: Type.Integer({ description: 'Recipients who were skipped or whose email was withdrawn.' }),
  message: S.Nullable(Type.String(), { description: 'Why it waits or ended early; null: it does not.' }),
  begins_at: S.Timestamp({ description: 'When it begins or began.' }),
  created_at: S.Timestamp({ description: 'When it was accepted.' }),
  updated_at: S.Timestamp({ description: 'When it last progressed.' }),
}

const BroadcastRow = Type.Object(FIELDS)
type BroadcastRow = Static<typeof BroadcastRow>

const BroadcastRecord = Type.Object({
  ...FIELDS,
  emails: Type.Record(Type.String(), Type.Integer(), { description: 'Number of its emails per status.' }),
})

const EngagementRecord = Type.Object({
  opened: Type.Integer({ description: 'Emails that were opened; only of mail with tracking.' }),
  clicked: Type.Integer({ description: 'Emails in which a link was clicked; only of mail with tracking.' }),
  complained: Type.Integer({ description: 'Emails reported as spam.' }),
  unsubscribed: Type.Integer({ description: 'Emails whose reader unsubscribed.' }),
})

const RecipientCountRecord = Type.Object({
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

const toBroadcastWire = (row: Row): BroadcastRow =>
  toWire(BroadcastRow, row, {
    list_deleted: row.listDeleted !== 0,
    from_address: row.from,
    state: stateName(row.state) as BroadcastRow['state'],
    sandbox: row.sandbox !== 0,
  })

const tags = ['Broadcasts']
const params = Type.Object({ id: Type.String({ description: 'Id of the broadcast.' }) })

export const broadcastReadRoutes = (app: App) =>
  new Elysia({ tags })
    .use(authenticated)
    .get(
      '/v1/broadcasts',
      ({ actor, query }) => {
        const page = S.parsePage(query)
        const { rows, total } = sql(app.db).list(page, actor.accountId)
        return pageById(rows, { ...page, total }, toBroadcastWire)
      },
      {
        query: S.PageQuery,
        response: S.PageBody(BroadcastRow),
        detail: readsContacts(
          'List broadcasts',
          'Newest first, also those of newsletters. Drafts are newsletters with the status draft.',
        ),
      },
    )
    .get(
      '/v1/broadcasts/:id',
      ({ actor, params }) => {
        const broadcast = getBroadcast(app.db, actor.accountId, params.id)
        const emails = { ...countBroadcastEmails(app.db, actor.accountId, broadcast.operationId) }
        return dataBody({ ...toBroadcastWire(broadcast), emails })
      },
      {
        params,
        response: S.DataBody(BroadcastRecord),
        detail: readsContacts('Get a broadcast', 'Its operation of the same id is paused, resumed and cancelled.'),
      },
    )
    .get(
      '/v1/broadcasts/:id/engagement',
      ({ actor, params, request }) =>
        withoutTimeLimit(request, async () => {
          const broadcast = getBroadcast(app.db, actor.accountId, params.id)
          app.workBudget.spend(actor.accountId, Math.min(broadcast.enqueued, EXPORT_WORK_UNITS))
          return dataBody(await countEngagement(app.db, broadcast))
        }),
      {
        params,
        response: S.DataBody(EngagementRecord),
        detail: describeWith('emails:read')(
          'Count what the readers of a broadcast did',
          'Delivered emails by what their stored events show; each email counts once. Takes some seconds for a million emails.',
        ),
      },
    )
    .get(
      '/v1/contact-lists/:id/recipients',
      ({ actor, params, query, request }) =>
        withoutTimeLimit(request, async () => {
          const list = getList(app.db, actor.accountId, params.id)
          return dataBody(await countRecipients(app, list, query.stream ?? BROADCAST_STREAM))
        }),
      {
        params: Type.Object({ id: Type.String({ description: 'Id of the contact list.' }) }),
        query: Type.Object({
          stream: Type.Optional(
            Type.String({ description: `Slug of the message stream; omitted: \`${BROADCAST_STREAM}\`.` }),
          ),
        }),
        response: S.DataBody(RecipientCountRecord),
        detail: describeWith('contacts:read')(
          'Count the recipients of a broadcast',
          'Who would get a broadcast to the list now, and who would be left out and why. Takes a second or two for a million contacts.',
          errorResponses({ 404: ['contact_list_not_found', 'Contact list not found.'] }),
        ),
      },
    )
