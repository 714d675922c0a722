/**
 * @module /v1/people: gathers what an account has of one recipient, by address: whether mail reaches the person, and
 * what became of it. Reads a limited number of rows, however much there is. Never writes.
 */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { SuppressionRecord, suppressionWire } from '#features/audience/suppressions/model.ts'
import { listSuppressions, type Suppression } from '#features/audience/suppressions/suppressions.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requiresOrSupport, SUPPORT_RIGHT } from '#features/core/app/http.ts'
import { listAuditEntries } from '#features/core/audit-logs/read.ts'
import { findErasure } from '#features/lifecycle/privacy/erasures.ts'
import { findUserByUuid } from '#features/people/team/users.ts'
import { listInbound } from '#features/receiving/inbound/api/inbound-emails.ts'
import { EmailRow, StateField } from '#features/sending/emails/model.ts'
import { findEmail } from '#features/sending/emails/read.ts'
import { parseSearch, scanMatches, searchEmails } from '#features/sending/emails/search-list.ts'
import { emailRowWire, hideContent, type MaxAttempts, toRecipientState } from '#features/sending/emails/wire.ts'
import { ALL_ROWS, ANY_TIME, buildMatch, formatMatch, listShards, type Match } from '#features/sending/queue/search.ts'
import { isEngagedSql } from '#features/sending/queue/settle.ts'
import { statusName } from '#features/sending/queue/status.ts'
import { listApiKeys } from '#features/setup/api-keys/keys.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { CONTACT_STATUSES, toContactStatus } from '#features/setup/contact-store/status.ts'
import {
  COMPLAINT,
  EVERY,
  HARD_BOUNCE,
  suppressionOf,
  toSuppressionKey,
  UNSUBSCRIBE,
} from '#features/setup/suppression-store/check.ts'
import { suppressionListKey } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody, isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import { type Millis, seconds } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

const PersonSuppression = Type.Object(
  {
    ...SuppressionRecord.properties,
    sentence: S.Text('Which mail it stops, and why.'),
    source_email: S.NullablePart('Email that caused it; null when there was none, or it has been deleted.', {
      id: S.Uuid({ description: 'Id of the email.' }),
      subject: S.Text('Subject.'),
      created_at: S.Timestamp({ description: 'When it was accepted.' }),
    }),
    added_by: S.NullablePart('Who added it; null: an import, or no longer known.', {
      type: S.Text('user, api_key, operator, recipient, or system: this service.'),
      id: S.Text('Id of the user or the key; otherwise as in the audit log.'),
      name: S.TextOrNull('Name of the user or the key; null: it has none, or was deleted.'),
    }),
  },
  { title: 'PersonSuppression' },
)
type PersonSuppression = Static<typeof PersonSuppression>

const PersonEmail = Type.Object(
  {
    ...EmailRow.properties,
    recipient_state: { ...StateField, description: 'What became of the copy of this person.' },
  },
  { title: 'PersonEmail' },
)

const PersonRecord = Type.Object({
  address: S.Text('The address, in lower case; its domain in A-labels.'),
  display_names: Type.Array(Type.String(), {
    description: 'Names under which it got the newest emails, newest first.',
  }),
  can_receive: Type.Boolean({
    description: 'False while a suppression stops all mail to the address. True also for one that never got mail.',
  }),
  sentence: S.Text('Which mail the address gets, and why not all.'),
  suppressions: Type.Array(PersonSuppression, { description: 'The newest 20.' }),
  emails: S.Part('Emails to the address.', {
    total: S.Count('Number of emails; 10,001 means more.'),
    first_at: S.TimeOrNull('When the first stored one was accepted; null: there is none.'),
    last_at: S.TimeOrNull('When the last one was accepted.'),
    counted: S.Count('Number of the newest emails that the fields below are about: at most 500.'),
    by_state: Type.Record(Type.String(), Type.Integer(), { description: 'Their number by `recipient_state`.' }),
    last_opened_at: S.TimeOrNull('When one of them was last opened; null: none was, or opens are not tracked.'),
    last_clicked_at: S.TimeOrNull('When a link of one of them was last clicked.'),
  }),
  recent_emails: Type.Array(PersonEmail, { description: 'The newest 20.' }),
  lists: S.Nullable(
    Type.Array(
      Type.Object({
        id: S.Uuid({ description: 'Id of the contact list.' }),
        name: S.Text('Its name.'),
        status: S.StringEnum(CONTACT_STATUSES, { description: 'Status of the contact.' }),
        subscribed_at: S.Timestamp({ description: 'When it was added, confirmed, or resubscribed.' }),
        unsubscribed_at: S.TimeOrNull('When it left the list; null: it has not.'),
      }),
    ),
    { description: 'Contact lists that the address is on, at most 100; null without the scope contacts:read.' },
  ),
  received: S.Nullable(
    Type.Array(
      Type.Object({
        id: S.Uuid({ description: 'Id of the inbound email.' }),
        subject: S.Text('Subject.'),
        created_at: S.Timestamp({ description: 'When it was received.' }),
      }),
    ),
    { description: 'The newest 10 inbound emails from the address; null without the scope inbound:read.' },
  ),
  mailboxes: S.Nullable(
    Type.Array(
      Type.Object({
        id: S.Uuid({ description: 'Id of the agent mailbox.' }),
        address: S.Text('Its address.'),
        messages: S.Count('Messages from the person.'),
        last_message_at: S.Timestamp({ description: 'When the last one arrived.' }),
      }),
    ),
    {
      description:
        'The 10 agent mailboxes that last got a message from the address; null without the scope mailboxes:read.',
    },
  ),
  erasure: S.NullablePart('Present while the person is being erased, and after it while a suppression remembers it.', {
    state: S.StringEnum(['running', 'erased'], { description: '`running`: rows are still being removed.' }),
    operation_id: S.Nullable(S.Uuid(), { description: 'Operation of a running erasure.' }),
  }),
})
export type PersonRecord = Static<typeof PersonRecord>

/** Newest emails whose states are counted: some 5 ms; each has at most 50 recipients. */
const MAX_COUNTED_EMAILS = 500
const MAX_RECENT_EMAILS = 20
const MAX_SUPPRESSIONS = 20
const MAX_LISTS = 100
const MAX_RECEIVED = 10
const MAX_NAMES = 5

interface RecipientRow {
  readonly id: number
  readonly emailId: number
  readonly mailbox: string | null
  readonly status: number
  readonly attempts: number
  readonly lastError: string | null
  readonly isCaptured: number
  /** Only known of an email with one recipient: whoever else got it may have complained. */
  readonly isComplained: number
}

const sql = prepareStatements((db) => ({
  copies: db.prepare<RecipientRow, [string, string]>(
    `SELECT r.id, email_id AS emailId, mailbox, status, attempts, last_error AS lastError, is_captured AS isCaptured,
       (SELECT recipient_count = 1 AND ${isEngagedSql('complained')} FROM emails WHERE id = email_id) AS isComplained
     FROM json_each(?1) AS ids CROSS JOIN recipients r INDEXED BY recipients_email ON email_id = ids.value
     WHERE lower(address) = lower(?2) ORDER BY email_id DESC`,
  ),
  firstAt: db.prepare<{ at: number }, [string, number, number]>(
    `SELECT created_at AS at FROM emails
     WHERE id = (SELECT rowid FROM email_search WHERE email_search MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid LIMIT 1)`,
  ),
  openedAt: db.prepare<{ at: number | null }, [string]>(
    'SELECT max(last_event_at) AS at FROM opens WHERE recipient_id IN (SELECT value FROM json_each(?))',
  ),
  clickedAt: db.prepare<{ at: number | null }, [string]>(
    'SELECT max(last_event_at) AS at FROM click_marks WHERE recipient_id IN (SELECT value FROM json_each(?))',
  ),
  lists: db.prepare<
    { uuid: UuidBytes; name: string; status: number; subscribedAt: number; unsubscribedAt: number | null },
    [number, string]
  >(
    `SELECT contact_lists.uuid, name, status, subscribed_at AS subscribedAt, unsubscribed_at AS unsubscribedAt
     FROM contacts JOIN contact_lists ON contact_lists.id = list_id AND deleted_at IS NULL
     WHERE contacts.account_id = ? AND address_key = ? ORDER BY contacts.id DESC LIMIT ${MAX_LISTS}`,
  ),
  mailboxes: db.prepare<{ uuid: UuidBytes; address: string; messages: number; lastAt: number }, [number, string]>(
    `SELECT uuid, local_part || '@' || domain AS address, contacts.message_count AS messages, last_message_at AS lastAt
     FROM agent_mailboxes JOIN mailbox_contacts contacts ON mailbox_id = agent_mailboxes.id AND address = ?2
     WHERE account_id = ?1 AND deleted_at IS NULL ORDER BY last_message_at DESC LIMIT ${MAX_RECEIVED}`,
  ),
}))

/** Reads a person of the actor's account. Throws 422 for an invalid address; an unknown one has nothing. */
export async function readPerson(
  app: App,
  actor: Actor,
  text: string,
  maxAttempts: MaxAttempts,
): Promise<PersonRecord> {
  const mailbox = parseMailbox(text)
  if (mailbox.kind !== 'ok') throw invalid('address', mailbox.reason, 'invalid_address')
  const { db } = app
  const { accountId } = actor
  const address = toSuppressionKey(mailbox.address)
  const lists = sql(db).lists.all(accountId, address)
  const listNames = new Map(lists.map(({ uuid, name }) => [formatUuid(uuid), name]))
  const { suppressions: rows } = listSuppressions(db, accountId, { address }, { limit: MAX_SUPPRESSIONS, offset: 0 })
  const suppressions = await Promise.all(rows.map((row) => toPersonSuppression(app, actor, row, listNames)))
  const stop = suppressionOf(db, { accountId, address, transactional: true, streamId: EVERY })
  const mayRead = (scope: string) => hasScope(actor.scopes, scope)
  return {
    address,
    ...(await readEmails(app, actor, mailbox.address, maxAttempts)),
    can_receive: stop === undefined,
    sentence: stop
      ? describe({ reason: stop.reason, stream: null, list_id: null })
      : (suppressions[0]?.sentence ?? 'No suppression stops mail to this address.'),
    suppressions,
    lists:
      mayRead('contacts:read') || mayRead(SUPPORT_RIGHT)
        ? lists.map(({ uuid, name, status, subscribedAt, unsubscribedAt }) => ({
            id: formatUuid(uuid),
            name,
            status: toContactStatus(status),
            subscribed_at: isoTime(subscribedAt),
            unsubscribed_at: isoTimeOrNull(unsubscribedAt),
          }))
        : null,
    received: mayRead('inbound:read')
      ? listInbound(db, accountId, { from: mailbox.address }, { limit: MAX_RECEIVED, offset: 0 }).emails.map(
          ({ uuid, subject, createdAt }) => ({ id: formatUuid(uuid), subject, created_at: isoTime(createdAt) }),
        )
      : null,
    mailboxes: mayRead('mailboxes:read')
      ? sql(db)
          .mailboxes.all(accountId, address)
          .map(({ uuid, lastAt, ...row }) => ({ id: formatUuid(uuid), ...row, last_message_at: isoTime(lastAt) }))
      : null,
    erasure: readErasure(db, accountId, address),
  }
}

async function readEmails(app: App, actor: Actor, address: string, maxAttempts: MaxAttempts) {
  const { db } = app
  const { accountId } = actor
  const search = parseSearch(db, accountId, { to: address }) ?? {}
  const page = { limit: MAX_RECENT_EMAILS, offset: 0 }
  const found = await searchEmails(app, accountId, { filter: { status: undefined, ...ANY_TIME }, search }, page)
  const match = buildMatch(accountId, search)
  const newest: number[] = []
  await scanMatches(app, { accountId, match }, ALL_ROWS, (ids) => {
    newest.push(...ids.slice(0, MAX_COUNTED_EMAILS - newest.length))
    return newest.length >= MAX_COUNTED_EMAILS
  })
  return app.fairScheduler.resume(getTenantId(db, accountId), () => {
    const copies = sql(db).copies.all(JSON.stringify(newest), address)
    const states = copies.map((copy) => {
      const state = toRecipientState({ ...copy, status: statusName(copy.status), isCaptured: copy.isCaptured === 1 })
      return { emailId: copy.emailId, state: copy.isComplained === 1 && state === 'sent' ? 'complained' : state }
    })
    const byState = Object.groupBy(states, ({ state }) => state)
    const recipientIds = JSON.stringify(copies.map(({ id }) => id))
    app.workBudget.charge(accountId, copies.length)
    return {
      display_names: listNames(copies),
      emails: {
        total: found.total,
        first_at: isoTimeOrNull(findFirstTime(db, match) ?? null),
        last_at: isoTimeOrNull(found.emails[0]?.createdAt ?? null),
        counted: newest.length,
        by_state: Object.fromEntries(Object.entries(byState).map(([state, of]) => [state, of.length])),
        last_opened_at: isoTimeOrNull(sql(db).openedAt.get(recipientIds)?.at ?? null),
        last_clicked_at: isoTimeOrNull(sql(db).clickedAt.get(recipientIds)?.at ?? null),
      },
      recent_emails: found.emails.map((email) => {
        const row = hideContent(actor, emailRowWire(email, maxAttempts))
        return { ...row, recipient_state: states.find(({ emailId }) => emailId === email.id)?.state ?? row.state }
      }),
    }
  })
}

/** When the oldest matching email was accepted. */
function findFirstTime(db: Database, match: Match): Millis | undefined {
  for (const { number, first, last } of [...listShards(db, match, ALL_ROWS)].reverse()) {
    const row = sql(db).firstAt.get(formatMatch(match, number), first, last)
    if (row) return row.at
  }
  return undefined
}

/** Display names of the recipient in these copies, newest first. */
const listNames = (copies: readonly RecipientRow[]): string[] => {
  const names = copies.flatMap(({ mailbox }) => {
    const parsed = mailbox === null ? undefined : parseMailbox(mailbox)
    return parsed?.kind === 'ok' && parsed.name !== undefined ? [parsed.name] : []
  })
  return [...new Set(names)].slice(0, MAX_NAMES)
}

async function toPersonSuppression(
  { db }: App,
  { accountId, accountUuid }: Actor,
  row: Suppression,
  listNames: ReadonlyMap<string, string>,
): Promise<PersonSuppression> {
  const wire = suppressionWire(row, accountUuid)
  const source = row.sourceUuid && findEmail(db, accountId, row.sourceUuid)
  return {
    ...wire,
    sentence: describe(wire, wire.list_id === null ? undefined : listNames.get(wire.list_id)),
    source_email: source
      ? { id: formatUuid(source.uuid), subject: source.subject, created_at: isoTime(source.createdAt) }
      : null,
    added_by: await findAddedBy(db, accountId, row),
  }
}

function describe(
  { reason, stream, list_id: listId }: Pick<SuppressionRecord, 'reason' | 'stream' | 'list_id'>,
  listName?: string,
): string {
  switch (reason) {
    case HARD_BOUNCE:
      return 'No mail is sent to this address, because its server said that there is no such mailbox.'
    case COMPLAINT:
      return 'No mail is sent to this address, because the recipient reported an email as spam.'
    case UNSUBSCRIBE: {
      const part =
        listId !== null ? `the list ${listName ?? listId}` : stream !== null ? `the stream ${stream}` : 'all of it'
      return `The address is unsubscribed from mail with transactional: false: ${part}. Transactional mail is sent.`
    }
    case 'manual':
      return 'No mail is sent to this address, because the account put it on its suppression list.'
    default:
      return `No mail is sent to this address, because the account put it on its suppression list: ${reason}.`
  }
}

/** Both are stored in one transaction. */
const AUDIT_DELAY_MS = seconds(1)

/** Who added a suppression, if the audit log still has it: an import has one entry for all of its lines. */
async function findAddedBy(db: Database, accountId: number, { address, createdAt }: Suppression) {
  const time = { from: createdAt, to: createdAt + AUDIT_DELAY_MS }
  const filter = { action: 'suppression.created', resourceId: address, ...time }
  const [entry] = (await listAuditEntries(db, accountId, filter, { limit: 1, offset: 0 })).entries
  if (!entry) return null
  const { actorType, actorId: id } = entry
  const uuid = actorType === 'user' ? parseUuid(id) : undefined
  const name = uuid ? findUserByUuid(db, uuid)?.name : listApiKeys(db, accountId).find((key) => key.id === id)?.name
  const isByRecipient = (JSON.parse(entry.metadata ?? '{}') as { by?: unknown }).by === 'recipient'
  return { type: isByRecipient ? 'recipient' : actorType, id, name: name ?? null }
}

function readErasure(db: Database, accountId: number, address: string): PersonRecord['erasure'] {
  const running = findErasure(db, accountId, address)
  if (running) return { state: 'running', operation_id: formatUuid(running.operationUuid) }
  return suppressionListKey(db, accountId, address) === address ? null : { state: 'erased', operation_id: null }
}

// Null when its percent-encoding is invalid; then it is not an address either.
const params = Type.Object({ address: S.TextOrNull('The address, URL-encoded, in any spelling.') })

export const peopleRoutes = (app: App, { maxAttempts }: { readonly maxAttempts: MaxAttempts }) =>
  new Elysia({ prefix: '/v1/people', tags: ['People'] })
    .use(authenticated)
    .get(
      '/:address',
      async ({ actor, params }) => dataBody(await readPerson(app, actor, params.address ?? '', maxAttempts)),
      {
        params,
        response: S.DataBody(PersonRecord),
        detail: describeRoute(
          'Get a recipient',
          requiresOrSupport('emails:read', 'suppressions:read'),
          'Whether mail reaches the address, what became of the newest emails to it, its contact lists and what was received from it. An address that never got mail has no emails and can receive. `GET /v1/gdpr/export` has everything, with contents; `DELETE /v1/gdpr/erase` removes it.',
        ),
      },
    )
