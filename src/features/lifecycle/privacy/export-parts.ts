/**
 * @module What the export of an account has in it, part by part: each gives its records in slices of some milliseconds, oldest first. No bodies of emails and
 * received messages, and no secrets.
 */

import { contactWire, listWire } from '#features/audience/contact-lists/model.ts'
import { formWire } from '#features/audience/signup-forms/model.ts'
import { getForm } from '#features/audience/signup-forms/signup-forms.ts'
import { suppressionWire } from '#features/audience/suppressions/model.ts'
import { suppressionsAfter } from '#features/audience/suppressions/suppressions.ts'
import { accountState } from '#features/core/accounts/accounts.ts'
import { accountWire } from '#features/core/accounts/model.ts'
import { listSubAccounts } from '#features/core/accounts/rows.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditLogWire } from '#features/core/audit-logs/model.ts'
import type { StoredAuditEntry } from '#features/core/audit-logs/read.ts'
import { operationWire } from '#features/core/operations/model.ts'
import { getOperation } from '#features/core/operations/operations.ts'
import { listInvitations } from '#features/people/team/invitations.ts'
import { invitationWire, memberWire } from '#features/people/team/model.ts'
import { membersOf } from '#features/people/team/users.ts'
import { getMailbox, mailboxById } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { messageById } from '#features/receiving/agent-mailboxes/messages.ts'
import { mailboxWire, messageFields } from '#features/receiving/agent-mailboxes/model.ts'
import { inboundById } from '#features/receiving/inbound/inbound-emails.ts'
import { inboundWire } from '#features/receiving/inbound/model.ts'
import { getInsight } from '#features/reporting/insights/insights.ts'
import { insightWire } from '#features/reporting/insights/model.ts'
import { deadLetterWire } from '#features/sending/dead-letters/model.ts'
import { getDeadLetter } from '#features/sending/dead-letters/read.ts'
import { maxAttempts } from '#features/sending/delivery/retry.ts'
import { findEmail } from '#features/sending/emails/read.ts'
import { emailRowWire, recipientWire } from '#features/sending/emails/wire.ts'
import { newsletterWire } from '#features/sending/newsletters/model.ts'
import { getNewsletter } from '#features/sending/newsletters/newsletters.ts'
import { listApiKeys } from '#features/setup/api-keys/keys.ts'
import { apiKeyWire } from '#features/setup/api-keys/model.ts'
import { contactById } from '#features/setup/contact-store/find.ts'
import { getList, listById } from '#features/setup/contact-store/lists.ts'
import { findDomain } from '#features/setup/domains/domains.ts'
import { domainWire } from '#features/setup/domains/model.ts'
import { streamWire } from '#features/setup/streams/model.ts'
import { getStream } from '#features/setup/streams/streams.ts'
import { templateWire } from '#features/setup/templates/model.ts'
import { getTemplate } from '#features/setup/templates/templates.ts'
import { EVERY_TYPE, feedRange, readFeed } from '#features/webhooks/event-feed/feed.ts'
import { getRoute } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { routeWire } from '#features/webhooks/inbound-routes/model.ts'
import { webhookWire } from '#features/webhooks/webhooks/model.ts'
import { getWebhook } from '#features/webhooks/webhooks/webhooks.ts'
import { prepared } from '#platform/db/open.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'

interface Found {
  readonly id: number
  readonly uuid: UuidBytes
}

const ofAccount = (table: string, where = ''): string =>
  `SELECT id, uuid FROM ${table} WHERE account_id = ? AND id > ? ${where} ORDER BY id LIMIT ?`

const sql = prepared((db) => {
  const found = (text: string) => db.prepare<Found, [number, number, number]>(text)
  return {
    domains: found(ofAccount('domains', 'AND deleted_at IS NULL')),
    templates: found(ofAccount('templates', 'AND deleted_at IS NULL')),
    webhooks: found(ofAccount('webhooks', 'AND deleted_at IS NULL AND route_id IS NULL')),
    lists: found(ofAccount('contact_lists', 'AND deleted_at IS NULL')),
    forms: found(ofAccount('signup_forms', 'AND list_id IN (SELECT id FROM contact_lists WHERE deleted_at IS NULL)')),
    streams: found(ofAccount('streams', 'AND deleted_at IS NULL')),
    routes: found(ofAccount('inbound_routes')),
    mailboxes: found(ofAccount('agent_mailboxes', 'AND deleted_at IS NULL')),
    newsletters: found(ofAccount('newsletters')),
    operations: found(ofAccount('operations')),
    insights: found(ofAccount('insights')),
    inbound: found(ofAccount('inbound_emails INDEXED BY inbound_emails_account')),
    deadLetters: db.prepare<{ id: number }, [number, number, number]>(
      `SELECT id FROM dead_letters WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`,
    ),
    // An id grows with created_at.
    emails: db.prepare<Found & { createdAt: number }, [number, number, number, number]>(
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

/** Records of a slice; few where each has texts of its own. */
const MANY = 200
const SOME = 50
const FEW = 5

type Slices = Generator<readonly unknown[]>
type Part = (app: App, actor: Actor) => Slices

/** Slices of rows after an id, made into records. */
function* byId<Row extends { readonly id: number }>(
  read: (after: number) => readonly Row[],
  wire: (row: Row) => unknown,
): Slices {
  for (let after = 0; ; ) {
    const rows = read(after)
    const last = rows.at(-1)
    if (!last) return
    yield rows.map(wire)
    after = last.id
  }
}

/** The same of rows that are in order of their time. */
function* byTime<Row extends { readonly id: number; readonly createdAt: number }>(
  read: (createdAt: number, id: number) => readonly Row[],
  wire: (row: Row) => unknown,
): Slices {
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

/** A part whose records are found by their public ids. */
const resource =
  (table: TableName, limit: number, wire: (app: App, actor: Actor, id: string, row: Found) => unknown): Part =>
  (app, actor) =>
    byId(
      (after) => sql(app.db)[table].all(actor.accountId, after, limit),
      (row) => wire(app, actor, formatUuid(row.uuid), row),
    )

const present = <T>(value: T | undefined): T => {
  if (value === undefined) throw new Error('a row of an export is gone')
  return value
}

function* contacts(app: App, actor: Actor): Slices {
  for (const lists of byId(
    (after) => sql(app.db).lists.all(actor.accountId, after, MANY),
    ({ id }) => id,
  )) {
    for (const listId of lists) {
      // Deleted since: with all its contacts.
      const list = listById(app.db, Number(listId))
      if (!list) continue
      yield* byId(
        (after) => sql(app.db).contacts.all(list.id, after, MANY),
        ({ id }) => contactWire(present(contactById(app.db, id)), list, actor.accountUuid),
      )
    }
  }
}

function* messages(app: App, actor: Actor): Slices {
  for (const mailboxes of byId(
    (after) => sql(app.db).mailboxes.all(actor.accountId, after, MANY),
    ({ id }) => id,
  )) {
    for (const mailboxId of mailboxes) {
      const mailbox = mailboxById(app.db, Number(mailboxId))
      if (!mailbox) continue
      yield* byTime(
        (at, id) => sql(app.db).messages.all(mailbox.id, at, id, SOME),
        ({ id }) => messageFields(present(messageById(app.db, id)), mailbox),
      )
    }
  }
}

function* emails(app: App, { accountId }: Actor): Slices {
  const attempts = maxAttempts(app.config.retryExpiryHours)
  yield* byTime(
    (at, id) => sql(app.db).emails.all(accountId, at, id, SOME),
    ({ uuid }) => {
      const email = present(findEmail(app.db, accountId, uuid))
      return { ...emailRowWire(email, attempts), recipients: email.recipients.map(recipientWire) }
    },
  )
}

function* events(app: App, { accountId, accountUuid }: Actor): Slices {
  const { firstSeq, lastSeq: upTo } = feedRange(app.db, accountId)
  for (let after = firstSeq - 1; after < upTo; ) {
    const slice = readFeed(app, { accountId, accountUuid }, { after, upTo, types: EVERY_TYPE, limit: MANY })
    yield slice.events
    after = slice.nextAfter
  }
}

function* subAccounts({ config, db }: App, { accountId }: Actor): Slices {
  for (let offset = 0; ; offset += SOME) {
    const accounts = listSubAccounts(config, db, accountId, { limit: SOME, offset })
    if (accounts.length === 0) return
    yield accounts.map(({ uuid, name, email, plan }) => ({ id: formatUuid(uuid), name, email, plan }))
  }
}

/** By the name that each has in the export, in its order. */
export const PARTS: Readonly<Record<string, Part>> = {
  domains: resource('domains', MANY, ({ config, db }, { accountId }, _, { uuid }) =>
    domainWire(config, present(findDomain(db, accountId, uuid))),
  ),
  templates: resource('templates', FEW, ({ db }, { accountId, accountUuid }, id) =>
    templateWire(getTemplate(db, accountId, id), accountUuid),
  ),
  webhooks: resource('webhooks', MANY, ({ db }, { accountId, accountUuid }, id) =>
    webhookWire(getWebhook(db, accountId, id), accountUuid),
  ),
  suppressions: ({ db }, { accountId, accountUuid }) =>
    byId(
      (after) => suppressionsAfter(db, accountId, after, MANY),
      (suppression) => suppressionWire(suppression, accountUuid),
    ),
  contact_lists: resource('lists', FEW, ({ db }, { accountId, accountUuid }, id) =>
    listWire(db, getList(db, accountId, id), accountUuid),
  ),
  contacts,
  signup_forms: resource('forms', SOME, ({ db, config }, { accountId }, id) =>
    formWire(getForm(db, accountId, id), config),
  ),
  streams: resource('streams', MANY, ({ db }, { accountId, accountUuid }, id) =>
    streamWire(getStream(db, accountId, id), accountUuid),
  ),
  newsletters: resource('newsletters', FEW, ({ db }, { accountId, accountUuid }, id) =>
    newsletterWire(getNewsletter(db, accountId, id), accountUuid),
  ),
  emails,
  dead_letters: ({ db }, { accountId, accountUuid }) =>
    byId(
      (after) => sql(db).deadLetters.all(accountId, after, SOME),
      ({ id }) => deadLetterWire(getDeadLetter(db, accountId, String(id)), accountUuid),
    ),
  inbound: resource('inbound', SOME, ({ db }, { accountUuid }, _, { id }) =>
    inboundWire(present(inboundById(db, id)), accountUuid),
  ),
  inbound_routes: resource('routes', MANY, ({ db }, { accountId, accountUuid }, id) =>
    routeWire(getRoute(db, accountId, id), accountUuid),
  ),
  mailboxes: resource('mailboxes', MANY, ({ db }, { accountId }, id) => mailboxWire(getMailbox(db, accountId, id))),
  mailbox_messages: messages,
  operations: resource('operations', SOME, ({ db }, { accountId, accountUuid }, id) =>
    operationWire(getOperation(db, accountId, id), accountUuid),
  ),
  insights: resource('insights', SOME, ({ db }, { accountId, accountUuid }, id) =>
    insightWire(getInsight(db, accountId, id), accountUuid),
  ),
  *api_keys({ db }, { accountId }) {
    yield listApiKeys(db, accountId).map(apiKeyWire)
  },
  *members({ db }, { accountId }) {
    yield membersOf(db, accountId).map(memberWire)
  },
  *invitations({ db, clock }, { accountId }) {
    yield listInvitations(db, accountId, clock.now()).map(invitationWire)
  },
  sub_accounts: subAccounts,
  audit_logs: ({ db }, { accountId, accountUuid }) =>
    byId(
      (after) => sql(db).log.all(accountId, after, MANY),
      (entry) => auditLogWire(entry, accountUuid),
    ),
  // Last, so that what the others led to is in it.
  events,
}

/** The account itself. */
export const accountPart = (app: App, actor: Actor): unknown => accountWire(accountState(app, actor))
