/**
 * @module Exports an account as one streamed JSON text: one export at a time, and one completed per hour. Each part
 * yields its records in batches of some milliseconds, oldest first. Changes made during the export may be included or
 * not. No bodies of emails and received messages, and no secrets.
 */
import type { Database } from 'bun:sqlite'
import { contactWire, listWire } from '#features/audience/contact-lists/model.ts'
import * as sequences from '#features/audience/sequences/sequences.ts'
import { formWire } from '#features/audience/signup-forms/model.ts'
import { getForm } from '#features/audience/signup-forms/signup-forms.ts'
import { suppressionWire } from '#features/audience/suppressions/model.ts'
import { listSuppressionsAfter, type Suppression } from '#features/audience/suppressions/suppressions.ts'
import { readAccountState } from '#features/core/accounts/accounts.ts'
import { toAccountWire } from '#features/core/accounts/model.ts'
import { listSubAccounts, readExportedAt, recordExport } from '#features/core/accounts/rows.ts'
import { EXPORT_WORK_UNITS } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { listAuditEntriesAfter, type StoredAuditEntry, toAuditLogWire } from '#features/core/audit-logs/read.ts'
import { getOperation, toOperationWire } from '#features/core/operations/operations.ts'
import { listInvitations } from '#features/people/team/invitations.ts'
import { invitationWire, memberWire } from '#features/people/team/model.ts'
import { listConnectors } from '#features/people/team/oauth/grants.ts'
import { listMembers } from '#features/people/team/users.ts'
import { findMailboxById, getMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { findMessageById } from '#features/receiving/agent-mailboxes/messages.ts'
import { toMailboxWire, toMessageFields } from '#features/receiving/agent-mailboxes/model.ts'
import { getInbound } from '#features/receiving/inbound/api/inbound-emails.ts'
import { toInboundWire } from '#features/receiving/inbound/api/model.ts'
import { getInsight, insightWire } from '#features/reporting/insights/insights.ts'
import { getDeadLetter } from '#features/sending/dead-letters/dead-letters.ts'
import { deadLetterWire } from '#features/sending/dead-letters/model.ts'
import { createMaxAttempts } from '#features/sending/delivery/verdict/outcome.ts'
import { findEmail } from '#features/sending/emails/read.ts'
import { emailRowWire, recipientWire } from '#features/sending/emails/wire.ts'
import { getNewsletter, toNewsletterWire } from '#features/sending/newsletters/newsletters.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { listApiKeys } from '#features/setup/api-keys/keys.ts'
import { toApiKeyWire } from '#features/setup/api-keys/model.ts'
import { findContactById } from '#features/setup/contact-store/find.ts'
import { findListById, getList } from '#features/setup/contact-store/lists.ts'
import { getDomain } from '#features/setup/domains/domains.ts'
import { toDomainWire } from '#features/setup/domains/model.ts'
import { toStreamWire } from '#features/setup/streams/model.ts'
import { getStream } from '#features/setup/streams/streams.ts'
import { toTemplateWire, toVersionWire } from '#features/setup/templates/model.ts'
import { getTemplate } from '#features/setup/templates/templates.ts'
import { getVersion, listVersions, MAX_VERSIONS } from '#features/setup/templates/versions.ts'
import { toWordingWire } from '#features/setup/wording/model.ts'
import { findLogo, readWording } from '#features/setup/wording/wording.ts'
import { ALL_TYPES, readFeed, readFeedRange } from '#features/webhooks/event-feed/feed.ts'
import { getRoute } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { toRouteWire } from '#features/webhooks/inbound-routes/model.ts'
import { toWebhookWire } from '#features/webhooks/webhooks/history/model.ts'
import { getWebhook } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { streamJson } from '#platform/http/download.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { isDue } from '#platform/queue/due-loop.ts'
import { hours, type Millis } from '#platform/units.ts'

interface FoundRow {
  readonly id: number
  readonly uuid: UuidBytes
}

const sql = prepareStatements((db) => ({
  // Ids grow with created_at.
  emails: db.prepare<FoundRow & { createdAt: number }, [number, number, number, number]>(
    `SELECT id, uuid, created_at AS createdAt FROM emails INDEXED BY emails_by_time WHERE account_id = ? AND (created_at, id) > (?, ?)
     ORDER BY created_at, id LIMIT ?`,
  ),
  contacts: db.prepare<{ id: number }, [number, number, number]>(
    'SELECT id FROM contacts INDEXED BY contacts_list WHERE list_id = ? AND id > ? ORDER BY id LIMIT ?',
  ),
  messages: db.prepare<{ id: number; createdAt: number }, [number, number, number, number]>(
    `SELECT id, created_at AS createdAt FROM mailbox_messages INDEXED BY mailbox_messages_mailbox WHERE mailbox_id = ? AND email_id IS NULL
     AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?`,
  ),
  deadLetters: db.prepare<{ id: number }, [number, number, number]>(
    `SELECT id FROM dead_letters WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
}))

/** Records per batch: fewer where each record has texts of its own. */
const LARGE_BATCH = 200
const MEDIUM_BATCH = 50
const SMALL_BATCH = 5

type Batches = Generator<readonly unknown[]>
type ExportPart = (app: App, actor: Actor) => Batches

/**
 * Batches of rows, converted to records.
 * @param read returns the rows after one, or the first
 */
function* generate<Row>(read: (last: Row | undefined) => readonly Row[], wire: (row: Row) => unknown): Batches {
  for (let last: Row | undefined; ; ) {
    const rows = read(last)
    last = rows.at(-1)
    if (last === undefined) return
    yield rows.map(wire)
  }
}

/** Rows of a table of the account, by id. */
const readTable =
  (table: string, where: string, limit: number) =>
  ({ db }: App, { accountId }: Actor, last?: FoundRow): FoundRow[] =>
    db
      .query<FoundRow, [number, number, number]>(
        `SELECT id, uuid FROM ${table} WHERE account_id = ? AND id > ? AND ${where} ORDER BY id LIMIT ?`,
      )
      .all(accountId, last?.id ?? 0, limit)

type ReadTable = ReturnType<typeof readTable>

const IS_LIVE = 'deleted_at IS NULL'
const readLists = readTable('contact_lists', IS_LIVE, SMALL_BATCH)
const readMailboxes = readTable('agent_mailboxes', IS_LIVE, LARGE_BATCH)
const readTemplates = readTable('templates', IS_LIVE, SMALL_BATCH)

/** Creates a part whose records are read by public id, as their routes do. */
const createPart =
  <T>(
    read: ReadTable,
    get: (db: Database, accountId: number, id: string) => T,
    wire: (value: T, accountUuid: string, app: App) => unknown,
  ): ExportPart =>
  (app, actor) =>
    generate<FoundRow>(
      (last) => read(app, actor, last),
      ({ uuid }) => wire(get(app.db, actor.accountId, formatUuid(uuid)), actor.accountUuid, app),
    )

/** The rows of a table, each alone: each has a part of its own. */
function* listRows(read: ReadTable, app: App, actor: Actor): Generator<FoundRow> {
  for (let rows = read(app, actor); rows.length > 0; rows = read(app, actor, rows.at(-1))) yield* rows
}

const requirePresent = <T>(value: T | undefined): T => {
  if (value === undefined) throw new Error('a row of the export was deleted')
  return value
}

function* contacts(app: App, actor: Actor): Batches {
  for (const { id: listId } of listRows(readLists, app, actor)) {
    // The list was deleted after its id was read, with all its contacts.
    const list = findListById(app.db, listId)
    if (!list) continue
    yield* generate<{ id: number }>(
      (last) => sql(app.db).contacts.all(list.id, last?.id ?? 0, LARGE_BATCH),
      ({ id }) => contactWire(requirePresent(findContactById(app.db, id)), list, actor.accountUuid),
    )
  }
}

function* messages(app: App, actor: Actor): Batches {
  for (const { id: mailboxId } of listRows(readMailboxes, app, actor)) {
    const mailbox = findMailboxById(app.db, mailboxId)
    if (!mailbox) continue
    yield* generate<{ id: number; createdAt: number }>(
      (last) => sql(app.db).messages.all(mailbox.id, last?.createdAt ?? 0, last?.id ?? 0, MEDIUM_BATCH),
      ({ id }) => toMessageFields(requirePresent(findMessageById(app.db, id)), mailbox),
    )
  }
}

function* emails(app: App, { accountId }: Actor): Batches {
  const attempts = createMaxAttempts(app.config.retryExpiryHours)
  yield* generate<FoundRow & { createdAt: number }>(
    (last) => sql(app.db).emails.all(accountId, last?.createdAt ?? 0, last?.id ?? 0, MEDIUM_BATCH),
    ({ uuid }) => {
      const email = requirePresent(findEmail(app.db, accountId, uuid))
      return { ...emailRowWire(email, attempts), recipients: email.recipients.map(recipientWire) }
    },
  )
}

function* events(app: App, { accountId, accountUuid }: Actor): Batches {
  const { firstSeq, lastSeq: upTo } = readFeedRange(app.db, accountId)
  for (let after = firstSeq - 1; after < upTo; ) {
    const slice = readFeed(app, { accountId, accountUuid }, { after, upTo, types: ALL_TYPES, limit: LARGE_BATCH })
    yield slice.events
    after = slice.after
  }
}

function* subAccounts({ config, db }: App, { accountId }: Actor): Batches {
  for (let offset = 0; ; offset += MEDIUM_BATCH) {
    const { accounts } = listSubAccounts(config, db, accountId, { limit: MEDIUM_BATCH, offset })
    if (accounts.length === 0) return
    yield accounts.map(({ uuid, name, email, plan }) => ({ id: formatUuid(uuid), name, email, plan }))
  }
}

/** Each version alone, because it can be large. */
function* templateVersions(app: App, actor: Actor): Batches {
  for (const { id, uuid } of listRows(readTemplates, app, actor))
    for (const { version } of listVersions(app.db, id, { limit: MAX_VERSIONS, offset: 0 }).versions)
      yield [{ template_id: formatUuid(uuid), ...toVersionWire(getVersion(app.db, id, version)) }]
}

function* sequencePeople({ db }: App, { accountId }: Actor): Batches {
  for (const sequence of sequences.listSequences(db, accountId).rows)
    yield* generate<sequences.Person>(
      (last) => sequences.listPeople(db, sequence, { limit: LARGE_BATCH, offset: 0, after: last && [last.id] }).rows,
      (person) => ({ sequence_id: formatUuid(sequence.uuid), ...sequences.toPersonWire(db, sequence, person) }),
    )
}

/** Parts by their names in the export, in order. */
export const PARTS: Readonly<Record<string, ExportPart>> = {
  domains: createPart(readTable('domains', IS_LIVE, LARGE_BATCH), getDomain, (domain, _, app) =>
    toDomainWire(app, domain),
  ),
  templates: createPart(readTemplates, getTemplate, toTemplateWire),
  template_versions: templateVersions,
  webhooks: createPart(
    readTable('webhooks', `${IS_LIVE} AND route_id IS NULL`, LARGE_BATCH),
    getWebhook,
    toWebhookWire,
  ),
  suppressions: ({ db }, { accountId, accountUuid }) =>
    generate<Suppression>(
      (last) => listSuppressionsAfter(db, accountId, last?.id ?? 0, LARGE_BATCH),
      (suppression) => suppressionWire(suppression, accountUuid),
    ),
  contact_lists: createPart(readLists, getList, (list, accountUuid, { db }) => listWire(db, list, accountUuid)),
  contacts,
  signup_forms: createPart(
    readTable('signup_forms', `list_id IN (SELECT id FROM contact_lists WHERE ${IS_LIVE})`, MEDIUM_BATCH),
    getForm,
    (form, _, { config }) => formWire(form, config),
  ),
  sequences: createPart(readTable('sequences', 'TRUE', MEDIUM_BATCH), sequences.getSequence, sequences.toSequenceWire),
  sequence_people: sequencePeople,
  streams: createPart(readTable('streams', IS_LIVE, LARGE_BATCH), getStream, toStreamWire),
  newsletters: createPart(readTable('newsletters', 'TRUE', SMALL_BATCH), getNewsletter, toNewsletterWire),
  emails,
  dead_letters: ({ db }, { accountId, accountUuid }) =>
    generate<{ id: number }>(
      (last) => sql(db).deadLetters.all(accountId, last?.id ?? 0, MEDIUM_BATCH),
      ({ id }) => deadLetterWire(getDeadLetter(db, accountId, String(id)), accountUuid),
    ),
  inbound: createPart(
    readTable('inbound_emails INDEXED BY inbound_emails_account', 'TRUE', MEDIUM_BATCH),
    getInbound,
    toInboundWire,
  ),
  inbound_routes: createPart(readTable('inbound_routes', 'TRUE', LARGE_BATCH), getRoute, toRouteWire),
  mailboxes: createPart(readMailboxes, getMailbox, (mailbox) => toMailboxWire(mailbox)),
  mailbox_messages: messages,
  operations: createPart(readTable('operations', 'TRUE', MEDIUM_BATCH), getOperation, (operation, accountUuid) =>
    toOperationWire(operation, accountUuid),
  ),
  insights: createPart(readTable('insights', 'TRUE', MEDIUM_BATCH), getInsight, insightWire),
  *api_keys({ db, clock }, { accountId }) {
    const connectors = listConnectors(db, accountId)
    yield listApiKeys(db, accountId).map((key) => toApiKeyWire(key, clock.now(), connectors))
  },
  *members({ db }, { accountId }) {
    yield listMembers(db, accountId).map(memberWire)
  },
  *wording({ db, config }, { accountId }) {
    const wording = readWording(db, accountId)
    const { name, texts, logo: facts } = wording
    if (name === null && facts === null && Object.keys(texts).length === 0) return
    const logo = facts && findLogo(db, facts.hash)
    yield [
      {
        ...toWordingWire(wording, trimTrailingSlashes(config.publicUrl)),
        logo_content: logo ? Buffer.from(logo.bytes).toString('base64') : null,
      },
    ]
  },
  *invitations({ db, clock }, { accountId }) {
    yield listInvitations(db, accountId, clock.now()).map(invitationWire)
  },
  sub_accounts: subAccounts,
  audit_logs: ({ db }, { accountId, accountUuid }) =>
    generate<StoredAuditEntry>(
      (last) => listAuditEntriesAfter(db, accountId, last?.id ?? 0, LARGE_BATCH),
      (entry) => toAuditLogWire(entry, accountUuid),
    ),
  // Last, so that it includes events caused by the other parts.
  events,
}

const EXPORT_INTERVAL_MS = hours(1)
/** Retry-After while an export is running. */
const RUNNING_RETRY_SECONDS = 30

/**
 * Creates the function that responds with an export. It throws 429 `export_running` while another export of the account
 * runs, and 429 `export_limit` within an hour of a completed one.
 */
export function createAccountExport(app: App): (actor: Actor, request: Request) => Response {
  /** Accounts with a running export. */
  const running = new Set<number>()
  /** When an account's last export was completed; used until the database holds the time. */
  const completed = new Map<number, Millis>()
  return (actor, request) => {
    const { accountId } = actor
    const now = app.clock.now()
    const lastAt = completed.get(accountId) ?? readExportedAt(app.db, accountId)
    const nextAt = (lastAt ?? Number.NEGATIVE_INFINITY) + EXPORT_INTERVAL_MS
    if (!isDue(nextAt, now, EXPORT_INTERVAL_MS))
      throw tooManyRequests(
        'export_limit',
        'The account was exported within the last hour; try again later.',
        (nextAt - now) / 1000,
      )
    if (running.has(accountId))
      throw tooManyRequests(
        'export_running',
        'An export of the account is running; read it to its end, or try again afterwards.',
        RUNNING_RETRY_SECONDS,
      )
    if (request.method === 'HEAD') return new Response(null, { headers: { 'content-type': 'application/json' } })
    app.workBudget.spend(accountId, EXPORT_WORK_UNITS)
    const response = streamJson(app, request, generateExport(app, actor, now), {
      filename: 'account.json',
      onEnded(isWhole) {
        running.delete(accountId)
        if (!isWhole) return
        completed.set(accountId, app.clock.now())
        void recordCompletion(app, actor).finally(() => completed.delete(accountId))
      },
    })
    running.add(accountId)
    return response
  }
}

/** The JSON text in chunks of some milliseconds. */
export function* generateExport(app: App, actor: Actor, now: number): Generator<string> {
  yield `{"exported_at":${JSON.stringify(isoTime(now))},"data":{"account":${JSON.stringify(toAccountWire(readAccountState(app, actor)))}`
  for (const [name, part] of Object.entries(PARTS)) {
    yield `,${JSON.stringify(name)}:[`
    let separator = ''
    for (const records of part(app, actor)) {
      if (records.length === 0) continue
      yield separator + records.map((record) => JSON.stringify(record)).join(',')
      separator = ','
    }
    yield ']'
  }
  yield '}}'
}

async function recordCompletion(app: App, actor: Actor): Promise<void> {
  try {
    await app.commit.write((tx) => {
      recordExport(tx, actor.accountId, app.clock.now())
      auditChange(app, tx, actor, 'account.exported', actor.accountUuid)
    })
  } catch (error) {
    // Harmless: without the record, the next export is merely allowed before the hour is over.
    app.log.error({ err: error, account: actor.accountUuid }, 'account export not recorded')
  }
}
