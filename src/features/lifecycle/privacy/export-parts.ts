/**
 * @module Defines the parts of an account export: each yields its records in batches of some milliseconds, oldest
 * first. No bodies of emails and received messages, and no secrets.
 */

import { contactWire, listWire } from '#features/audience/contact-lists/model.ts'
import { formWire } from '#features/audience/signup-forms/model.ts'
import { getForm } from '#features/audience/signup-forms/signup-forms.ts'
import { suppressionWire } from '#features/audience/suppressions/model.ts'
import { listSuppressionsAfter } from '#features/audience/suppressions/suppressions.ts'
import { readAccountState } from '#features/core/accounts/accounts.ts'
import { toAccountWire } from '#features/core/accounts/model.ts'
import { listSubAccounts } from '#features/core/accounts/rows.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { toAuditLogWire } from '#features/core/audit-logs/model.ts'
import type { StoredAuditEntry } from '#features/core/audit-logs/read.ts'
import { toOperationWire } from '#features/core/operations/model.ts'
import { getOperation } from '#features/core/operations/operations.ts'
import { listInvitations } from '#features/people/team/invitations.ts'
import { invitationWire, memberWire } from '#features/people/team/model.ts'
import { listMembers } from '#features/people/team/users.ts'
import { findMailboxById, getMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { findMessageById } from '#features/receiving/agent-mailboxes/messages.ts'
import { toMailboxWire, toMessageFields } from '#features/receiving/agent-mailboxes/model.ts'
import { findInboundById } from '#features/receiving/inbound/api/inbound-emails.ts'
import { toInboundWire } from '#features/receiving/inbound/api/model.ts'
import { getInsight } from '#features/reporting/insights/insights.ts'
import { insightWire } from '#features/reporting/insights/model.ts'
import { deadLetterWire } from '#features/sending/dead-letters/model.ts'
import { getDeadLetter } from '#features/sending/dead-letters/read.ts'
import { createMaxAttempts } from '#features/sending/delivery/verdict/outcome.ts'
import { findEmail } from '#features/sending/emails/read.ts'
import { emailRowWire, recipientWire } from '#features/sending/emails/wire.ts'
import { toNewsletterWire } from '#features/sending/newsletters/model.ts'
import { getNewsletter } from '#features/sending/newsletters/newsletters.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { listApiKeys } from '#features/setup/api-keys/keys.ts'
import { toApiKeyWire } from '#features/setup/api-keys/model.ts'
import { findContactById } from '#features/setup/contact-store/find.ts'
import { findListById, getList } from '#features/setup/contact-store/lists.ts'
import { findDomain } from '#features/setup/domains/domains.ts'
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
import { formatUuid, type UuidBytes } from '#platform/ids.ts'

interface FoundRow {
  readonly id: number
  readonly uuid: UuidBytes
}

const selectOfAccount = (table: string, where = ''): string =>
  `SELECT id, uuid FROM ${table} WHERE account_id = ? AND id > ? ${where} ORDER BY id LIMIT ?`

const sql = prepareStatements((db) => {
  const found = (text: string) => db.prepare<FoundRow, [number, number, number]>(text)
  return {
    domains: found(selectOfAccount('domains', 'AND deleted_at IS NULL')),
    templates: found(selectOfAccount('templates', 'AND deleted_at IS NULL')),
    webhooks: found(selectOfAccount('webhooks', 'AND deleted_at IS NULL AND route_id IS NULL')),
    lists: found(selectOfAccount('contact_lists', 'AND deleted_at IS NULL')),
    forms: found(
      selectOfAccount('signup_forms', 'AND list_id IN (SELECT id FROM contact_lists WHERE deleted_at IS NULL)'),
    ),
    streams: found(selectOfAccount('streams', 'AND deleted_at IS NULL')),
    routes: found(selectOfAccount('inbound_routes')),
    mailboxes: found(selectOfAccount('agent_mailboxes', 'AND deleted_at IS NULL')),
    newsletters: found(selectOfAccount('newsletters')),
    operations: found(selectOfAccount('operations')),
    insights: found(selectOfAccount('insights')),
    inbound: found(selectOfAccount('inbound_emails INDEXED BY inbound_emails_account')),
    deadLetters: db.prepare<{ id: number }, [number, number, number]>(
      `SELECT id FROM dead_letters WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`,
    ),
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
    log: db.prepare<StoredAuditEntry, [number, number, number]>(
      `SELECT id, uuid, account_id AS accountId, actor_type AS actorType, actor_id AS actorId, action, resource_type AS resourceType,
       resource_id AS resourceId, ip_address AS ipAddress, metadata, created_at AS createdAt
       FROM audit_logs WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`,
    ),
  }
})

/** Records per batch: fewer where each record has texts of its own. */
const LARGE_BATCH = 200
const MEDIUM_BATCH = 50
const SMALL_BATCH = 5

type Batches = Generator<readonly unknown[]>
type ExportPart = (app: App, actor: Actor) => Batches

/** Batches of rows by id, converted to records. */
function* generateById<Row extends { readonly id: number }>(
  read: (after: number) => readonly Row[],
  wire: (row: Row) => unknown,
): Batches {
  for (let after = 0; ; ) {
    const rows = read(after)
    const last = rows.at(-1)
    if (!last) return
    yield rows.map(wire)
    after = last.id
  }
}

/** Batches of rows by time and id, converted to records. */
function* generateByTime<Row extends { readonly id: number; readonly createdAt: number }>(
  read: (createdAt: number, id: number) => readonly Row[],
  wire: (row: Row) => unknown,
): Batches {
  for (let at = 0, id = 0; ; ) {
    const rows = read(at, id)
    const last = rows.at(-1)
    if (!last) return
    yield rows.map(wire)
    at = last.createdAt
    id = last.id
  }
}

type TableName =
  | 'domains'
  | 'templates'
  | 'webhooks'
  | 'lists'
  | 'forms'
  | 'streams'
  | 'routes'
  | 'mailboxes'
  | 'newsletters'
  | 'operations'
  | 'insights'
  | 'inbound'

/** Creates a part whose records are read by public id. */
const createResourcePart =
  (table: TableName, limit: number, wire: (app: App, actor: Actor, id: string, row: FoundRow) => unknown): ExportPart =>
  (app, actor) =>
    generateById(
      (after) => sql(app.db)[table].all(actor.accountId, after, limit),
      (row) => wire(app, actor, formatUuid(row.uuid), row),
    )

const requirePresent = <T>(value: T | undefined): T => {
  if (value === undefined) throw new Error('a row of the export was deleted')
  return value
}

function* contacts(app: App, actor: Actor): Batches {
  for (const lists of generateById(
    (after) => sql(app.db).lists.all(actor.accountId, after, LARGE_BATCH),
    ({ id }) => id,
  )) {
    for (const listId of lists) {
      // The list was deleted after its id was read, with all its contacts.
      const list = findListById(app.db, Number(listId))
      if (!list) continue
      yield* generateById(
        (after) => sql(app.db).contacts.all(list.id, after, LARGE_BATCH),
        ({ id }) => contactWire(requirePresent(findContactById(app.db, id)), list, actor.accountUuid),
      )
    }
  }
}

function* messages(app: App, actor: Actor): Batches {
  for (const mailboxes of generateById(
    (after) => sql(app.db).mailboxes.all(actor.accountId, after, LARGE_BATCH),
    ({ id }) => id,
  )) {
    for (const mailboxId of mailboxes) {
      const mailbox = findMailboxById(app.db, Number(mailboxId))
      if (!mailbox) continue
      yield* generateByTime(
        (at, id) => sql(app.db).messages.all(mailbox.id, at, id, MEDIUM_BATCH),
        ({ id }) => toMessageFields(requirePresent(findMessageById(app.db, id)), mailbox),
      )
    }
  }
}

function* emails(app: App, { accountId }: Actor): Batches {
  const attempts = createMaxAttempts(app.config.retryExpiryHours)
  yield* generateByTime(
    (at, id) => sql(app.db).emails.all(accountId, at, id, MEDIUM_BATCH),
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
    after = slice.nextAfter
  }
}

function* subAccounts({ config, db }: App, { accountId }: Actor): Batches {
  for (let offset = 0; ; offset += MEDIUM_BATCH) {
    const accounts = listSubAccounts(config, db, accountId, { limit: MEDIUM_BATCH, offset })
    if (accounts.length === 0) return
    yield accounts.map(({ uuid, name, email, plan }) => ({ id: formatUuid(uuid), name, email, plan }))
  }
}

/** Each version alone, because it can be large. */
function* templateVersions({ db }: App, { accountId }: Actor): Batches {
  for (let after = 0; ; ) {
    const templates = sql(db).templates.all(accountId, after, SMALL_BATCH)
    const last = templates.at(-1)
    if (!last) return
    for (const { id, uuid } of templates)
      for (const { version } of listVersions(db, id, { limit: MAX_VERSIONS, offset: 0 }).versions)
        yield [{ template_id: formatUuid(uuid), ...toVersionWire(getVersion(db, id, version)) }]
    after = last.id
  }
}

/** Parts by their names in the export, in order. */
export const PARTS: Readonly<Record<string, ExportPart>> = {
  domains: createResourcePart('domains', LARGE_BATCH, (app, { accountId }, _, { uuid }) =>
    toDomainWire(app, requirePresent(findDomain(app.db, accountId, uuid))),
  ),
  templates: createResourcePart('templates', SMALL_BATCH, ({ db }, { accountId, accountUuid }, id) =>
    toTemplateWire(getTemplate(db, accountId, id), accountUuid),
  ),
  template_versions: templateVersions,
  webhooks: createResourcePart('webhooks', LARGE_BATCH, ({ db }, { accountId, accountUuid }, id) =>
    toWebhookWire(getWebhook(db, accountId, id), accountUuid),
  ),
  suppressions: ({ db }, { accountId, accountUuid }) =>
    generateById(
      (after) => listSuppressionsAfter(db, accountId, after, LARGE_BATCH),
      (suppression) => suppressionWire(suppression, accountUuid),
    ),
  contact_lists: createResourcePart('lists', SMALL_BATCH, ({ db }, { accountId, accountUuid }, id) =>
    listWire(db, getList(db, accountId, id), accountUuid),
  ),
  contacts,
  signup_forms: createResourcePart('forms', MEDIUM_BATCH, ({ db, config }, { accountId }, id) =>
    formWire(getForm(db, accountId, id), config),
  ),
  streams: createResourcePart('streams', LARGE_BATCH, ({ db }, { accountId, accountUuid }, id) =>
    toStreamWire(getStream(db, accountId, id), accountUuid),
  ),
  newsletters: createResourcePart('newsletters', SMALL_BATCH, ({ db }, { accountId, accountUuid }, id) =>
    toNewsletterWire(getNewsletter(db, accountId, id), accountUuid),
  ),
  emails,
  dead_letters: ({ db }, { accountId, accountUuid }) =>
    generateById(
      (after) => sql(db).deadLetters.all(accountId, after, MEDIUM_BATCH),
      ({ id }) => deadLetterWire(getDeadLetter(db, accountId, String(id)), accountUuid),
    ),
  inbound: createResourcePart('inbound', MEDIUM_BATCH, ({ db }, { accountUuid }, _, { id }) =>
    toInboundWire(requirePresent(findInboundById(db, id)), accountUuid),
  ),
  inbound_routes: createResourcePart('routes', LARGE_BATCH, ({ db }, { accountId, accountUuid }, id) =>
    toRouteWire(getRoute(db, accountId, id), accountUuid),
  ),
  mailboxes: createResourcePart('mailboxes', LARGE_BATCH, ({ db }, { accountId }, id) =>
    toMailboxWire(getMailbox(db, accountId, id)),
  ),
  mailbox_messages: messages,
  operations: createResourcePart('operations', MEDIUM_BATCH, ({ db }, { accountId, accountUuid }, id) =>
    toOperationWire(getOperation(db, accountId, id), accountUuid),
  ),
  insights: createResourcePart('insights', MEDIUM_BATCH, ({ db }, { accountId, accountUuid }, id) =>
    insightWire(getInsight(db, accountId, id), accountUuid),
  ),
  *api_keys({ db, clock }, { accountId }) {
    yield listApiKeys(db, accountId).map((key) => toApiKeyWire(key, clock.now()))
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
    generateById(
      (after) => sql(db).log.all(accountId, after, LARGE_BATCH),
      (entry) => toAuditLogWire(entry, accountUuid),
    ),
  // Last, so that it includes events caused by the other parts.
  events,
}

/** The account itself. */
export const toAccountPart = (app: App, actor: Actor): unknown => toAccountWire(readAccountState(app, actor))
