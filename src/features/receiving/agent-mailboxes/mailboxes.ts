/**
 * @module Creates, reads and deletes agent mailboxes, validates and generates their local parts, and limits their
 * unread mail. A mailbox belongs to one registration of a domain, and receives only while the domain stays registered
 * and verified; afterwards it stays readable. A deleted mailbox disappears immediately; its rows are deleted later,
 * batch by batch.
 */

import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { requireHeaderSafe } from '#features/sending/accept/attachments.ts'
import { revokeKeysOfMailbox } from '#features/setup/api-keys/keys.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { insertSql, newestFirst, prepareStatements, type RowWindow } from '#platform/db/open.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import { formatUuid, newUuid, parseUuid, randomBelow, type UuidBytes } from '#platform/ids.ts'
import { GiB, type Millis } from '#platform/units.ts'
import { listLocalPartKeys } from '#protocols/address/parse.ts'
import type { agentMailboxes } from './tables.ts'

/** A row of `agent_mailboxes`, with its address and the public id of its account. The row of its domain may be deleted. */
export interface Mailbox extends Readonly<Omit<typeof agentMailboxes.$inferSelect, 'deletedAt' | 'drafts'>> {
  /** 1: replies are drafts. */
  readonly drafts: number
  readonly accountUuid: UuidBytes
  readonly address: string
}

interface MailboxDomain {
  readonly id: number
  readonly domain: string
  readonly verifiedAt: Millis | null
  readonly inboundEnabled: number
}

const SELECT = `SELECT m.id, m.uuid, m.account_id AS accountId, accounts.uuid AS accountUuid, m.domain_id AS domainId, m.local_part AS localPart,
  m.domain, m.local_part || '@' || m.domain AS address, m.display_name AS displayName, m.message_count AS messageCount,
  m.unread_count AS unreadCount, m.unread_bytes AS unreadBytes, m.thread_count AS threadCount, m.auto_responder AS autoResponder, m.drafts, m.created_at AS createdAt,
  m.updated_at AS updatedAt FROM agent_mailboxes m JOIN accounts ON accounts.id = m.account_id`

const SELECT_DOMAIN =
  'SELECT id, domain, verified_at AS verifiedAt, inbound_enabled AS inboundEnabled FROM domains WHERE account_id = ? AND deleted_at IS NULL'

const sql = prepareStatements((db) => ({
  byId: db.prepare<Mailbox, [number]>(`${SELECT} WHERE m.id = ? AND m.deleted_at IS NULL`),
  byUuid: db.prepare<Mailbox, [Uint8Array, number]>(
    `${SELECT} WHERE m.uuid = ? AND m.account_id = ? AND m.deleted_at IS NULL`,
  ),
  // Another account that verifies the domain has its own registration of it, so mail for that account never reaches
  // this mailbox.
  byAddress: db.prepare<Mailbox, [string, string]>(
    `${SELECT} JOIN domains d ON d.id = m.domain_id WHERE d.domain = ? AND d.verified_at IS NOT NULL AND d.deleted_at IS NULL
     AND m.local_part = ? AND m.deleted_at IS NULL`,
  ),
  list: newestFirst<Mailbox, [number]>(
    db,
    SELECT,
    'agent_mailboxes m WHERE account_id = ? AND deleted_at IS NULL',
    'm.id',
  ),
  domainByUuid: db.prepare<MailboxDomain, [number, Uint8Array]>(`${SELECT_DOMAIN} AND uuid = ?`),
  firstDomain: db.prepare<MailboxDomain, [number]>(
    `${SELECT_DOMAIN} AND verified_at IS NOT NULL AND inbound_enabled = 1 ORDER BY id LIMIT 1`,
  ),
  taken: db.prepare<{ id: number }, [number, string]>(
    'SELECT id FROM agent_mailboxes WHERE domain_id = ? AND local_part = ? AND deleted_at IS NULL',
  ),
  insert: db.prepare(
    insertSql('agent_mailboxes', 'uuid accountId domainId localPart domain displayName drafts createdAt updatedAt'),
  ),
  setDrafts: db.prepare('UPDATE agent_mailboxes SET drafts = ?, updated_at = ? WHERE id = ?'),
  markDeleted: db.prepare('UPDATE agent_mailboxes SET deleted_at = ?, updated_at = ? WHERE id = ?'),
  // The index contains all columns that are read.
  ofAccount: db.prepare<{ count: number; bytes: number }, [number]>(
    `SELECT total(unread_count) AS count, total(unread_bytes) AS bytes FROM agent_mailboxes INDEXED BY agent_mailboxes_unread
     WHERE account_id = ? AND deleted_at IS NULL AND unread_count > 0`,
  ),
}))

const MAX_MAILBOXES = 10_000
const MAX_DISPLAY_NAME_LENGTH = 200
/** Attempts to find a free random local part; two collisions in a row are likely only with millions of mailboxes. */
const MAX_LOCAL_PART_ATTEMPTS = 10

/** The account's mailbox with this public id; throws 404. */
export function getMailbox(db: Database, accountId: number, id: string): Mailbox {
  const mailbox = sql(db).byUuid.get(parseUuidParam(id, 'mailbox_not_found', 'mailbox'), accountId)
  if (!mailbox) throw notFoundById('mailbox_not_found', 'mailbox')
  return mailbox
}

export const findMailboxById = (db: Database, id: number): Mailbox | undefined => sql(db).byId.get(id) ?? undefined

/** The mailbox of an address, by the whole local part, otherwise by the part before its plus. Ignores case. */
export function findMailbox(db: Database, domain: string, localPart: string): Mailbox | undefined {
  for (const candidate of listLocalPartKeys(localPart)) {
    const found = sql(db).byAddress.get(domain, candidate)
    if (found) return found
  }
  return undefined
}

export const listMailboxes = (db: Database, accountId: number, page: RowWindow) => sql(db).list(page, accountId)

export interface NewMailboxInput {
  readonly display_name?: string | null | undefined
  readonly local_part?: string | null | undefined
  readonly domain_id?: string | null | undefined
  readonly drafts?: boolean | undefined
}

/** Creates a mailbox. Throws 422 for a domain or local part that is not allowed, 409 for an address in use. */
export function createMailbox(app: App, actor: Actor, input: NewMailboxInput): Promise<Mailbox> {
  const displayName = requireValidDisplayName(input.display_name ?? null)
  const requestedLocalPart = typeof input.local_part === 'string' ? requireValidLocalPart(input.local_part) : undefined
  const { accountId } = actor
  return app.commit.write((tx) => {
    const { id: domainId, domain } = getReceivingDomain(tx.db, accountId, input.domain_id ?? undefined)
    if (listMailboxes(tx.db, accountId, { limit: 0, offset: 0 }).total >= MAX_MAILBOXES)
      throw conflict(
        'too_many_mailboxes',
        `This account has reached its limit of ${MAX_MAILBOXES} mailboxes; delete one that is not needed.`,
      )
    const localPart = requestedLocalPart ?? findFreeLocalPart(tx.db, domainId)
    const address = `${localPart}@${domain}`
    if (sql(tx.db).taken.get(domainId, localPart))
      throw conflict('mailbox_exists', `The mailbox ${address} already exists; choose another local part.`)
    const uuid = newUuid()
    const id = formatUuid(uuid)
    const now = app.eventTime()
    const facts = { uuid, accountId, domainId, localPart, domain, displayName }
    sql(tx.db).insert.run({ ...facts, drafts: input.drafts ? 1 : 0, createdAt: now, updatedAt: now })
    auditChange(app, tx, actor, 'mailbox.created', id, { address })
    return getMailbox(tx.db, accountId, id)
  })
}

/** Sets whether replies are drafts. Throws 404, and 403 for an actor that may not release and turns it off. */
export function setMailboxDrafts(app: App, actor: Actor, id: string, drafts: boolean): Promise<Mailbox> {
  if (!drafts) requireScope(actor, 'drafts:release', 'to let replies leave without a release')
  return app.commit.write((tx) => {
    const mailbox = getMailbox(tx.db, actor.accountId, id)
    sql(tx.db).setDrafts.run(drafts ? 1 : 0, app.eventTime(), mailbox.id)
    auditChange(app, tx, actor, 'mailbox.updated', mailbox.uuid, { drafts })
    return getMailbox(tx.db, actor.accountId, id)
  })
}

/** Deletes a mailbox, with immediate effect; `removeDeletedMailboxes` deletes its rows. Throws 404. */
export function deleteMailbox(app: App, actor: Actor, id: string): Promise<void> {
  return app.commit.writeFromReserve((tx) => {
    const mailbox = getMailbox(tx.db, actor.accountId, id)
    const now = app.eventTime()
    sql(tx.db).markDeleted.run(now, now, mailbox.id)
    revokeKeysOfMailbox(app, tx, actor, formatUuid(mailbox.uuid))
    auditChange(app, tx, actor, 'mailbox.deleted', mailbox.uuid, { address: mailbox.address })
    // Wakes the long polls of this mailbox, which then fail with 404.
    tx.afterCommit(() => app.mailboxChanged.emit({ mailboxId: mailbox.id }))
  })
}

/** The domain for a new mailbox; throws 422 when it cannot receive. */
function getReceivingDomain(db: Database, accountId: number, id: string | undefined): MailboxDomain {
  if (id === undefined) {
    const first = sql(db).firstDomain.get(accountId)
    if (first) return first
    throw invalid(
      'domain_id',
      'No domain of this account receives mail yet; verify one, then set inbound_enabled with PATCH /v1/domains/{id} or publish its MX record.',
      'no_inbound_domain',
    )
  }
  const uuid = parseUuid(id)
  const domain = uuid && sql(db).domainByUuid.get(accountId, uuid)
  if (!domain)
    throw invalid(
      'domain_id',
      `${uuid ? 'Domain not found' : 'domain_id must be the id of a domain, not its name'}; GET /v1/domains lists all domains.`,
      'domain_not_found',
    )
  if (domain.verifiedAt === null)
    throw invalid(
      'domain_id',
      `The domain ${domain.domain} is not verified; publish its DNS records and verify it first.`,
      'domain_not_verified',
    )
  if (domain.inboundEnabled !== 1)
    throw invalid(
      'domain_id',
      `The domain ${domain.domain} receives no mail; set inbound_enabled with PATCH /v1/domains/{id} or publish its MX record.`,
      'inbound_not_enabled',
    )
  return domain
}

function findFreeLocalPart(db: Database, domainId: number): string {
  for (let attempts = 0; attempts < MAX_LOCAL_PART_ATTEMPTS; attempts++) {
    const localPart = createRandomLocalPart()
    if (!sql(db).taken.get(domainId, localPart)) return localPart
  }
  throw new Error('no random local part was free')
}

function requireValidDisplayName(text: string | null): string | null {
  const name = text?.trim() ?? ''
  if (name.length > MAX_DISPLAY_NAME_LENGTH)
    throw invalid('display_name', `display_name must have at most ${MAX_DISPLAY_NAME_LENGTH} characters.`)
  requireHeaderSafe('display_name', name)
  if (CONTROL_CHARACTER.test(name) || !name.isWellFormed())
    throw invalid('display_name', 'display_name must not contain control characters; send it as plain text.')
  return name === '' ? null : name
}

// C0, DEL, C1 and the two Unicode line ends: the name becomes part of a From header.
const CONTROL_CHARACTER = /[\0-\x1f\x7f-\x9f\u2028\u2029]/

/** RFC 5321 §4.5.3.1.1. */
const MAX_OCTETS = 64
/** RFC 5321 §4.1.2, Dot-string, in lower case. */
const DOT_STRING = /^[a-z0-9!#$%&'*+\-/=?^_`{|}~]+(?:\.[a-z0-9!#$%&'*+\-/=?^_`{|}~]+)*$/
/** Role addresses. RFC 2142 requires that people read them, so their mail goes to the operator. */
const ROLES: readonly string[] = ['postmaster', 'abuse']
/** The format of return paths and unsubscribe addresses (protocols/address/verp.ts). */
export const RETURN_PATH = /^[bu]-[a-z2-7]{32}$/

/** Returns the local part in lower case; throws 422 on `local_part` for one that is not allowed. */
export function requireValidLocalPart(text: string): string {
  const notAllowed = (message: string) => invalid('local_part', message, 'invalid_local_part')
  const localPart = text.trim().toLowerCase()
  if (localPart.length > MAX_OCTETS || !DOT_STRING.test(localPart))
    throw notAllowed(
      `local_part must have 1 to ${MAX_OCTETS} of a to z, 0 to 9 and !#$%&'*+-/=?^_\`{|}~, with dots between them.`,
    )
  if (ROLES.includes(localPart))
    throw notAllowed(`"${localPart}" is reserved for the operator; choose another local part.`)
  if (RETURN_PATH.test(localPart)) throw notAllowed('A local part like a return path is reserved; choose another.')
  return localPart
}

const ADJECTIVES =
  'amber bold brave brisk calm clear clever cosy crisp eager early fair fresh gentle glad golden grand green happy honest jolly keen kind late light lively lucky mellow merry mild neat nimble noble open plain proud quick quiet rapid ready rosy royal sharp shiny silent silver smart snowy soft solid spry steady sunny swift tidy true upbeat vivid warm wide wise witty young zesty'.split(
    ' ',
  )
const NOUNS =
  'acorn badger beacon birch bison breeze brook cedar cherry clover comet coral crane creek daisy delta dune eagle ember falcon fern finch fjord forest fox garden glacier harbour hazel heron hill ibis island ivy jasmine lagoon lark laurel lilac linden lotus maple meadow mesa moss oak olive orchid otter owl panda pebble pine plum poppy prairie quail raven reef river robin spruce stone swan'.split(
    ' ',
  )
const NUMBER_COUNT = 10_000

/** A random local part, such as `calm-otter-0482`, one of about 40 million. */
export const createRandomLocalPart = (): string =>
  `${pickRandom(ADJECTIVES)}-${pickRandom(NOUNS)}-${String(randomBelow(NUMBER_COUNT)).padStart(4, '0')}`

const pickRandom = (words: readonly string[]): string => words[randomBelow(words.length)] ?? ''

/**
 * Limits of unread mail, because remote clients send it and nothing deletes unread mail to save space. While a mailbox
 * is full, RCPT is rejected temporarily, so that the sender retries; mail that was already accepted is still delivered.
 * High, because all messages stay unread when consumers only list them.
 */
export const MAX_UNREAD_PER_MAILBOX = 50_000
export const MAX_UNREAD_BYTES_PER_MAILBOX = 1 * GiB
/** Limits of all mailboxes of an account together. */
const MAX_UNREAD_PER_ACCOUNT = 500_000
export const MAX_UNREAD_BYTES_PER_ACCOUNT = 5 * GiB

/** Whether a mailbox, or its account, has reached its limit of unread mail. */
export function isMailboxFull(db: Database, mailbox: Mailbox): boolean {
  const { accountId, unreadCount, unreadBytes } = mailbox
  if (unreadCount >= MAX_UNREAD_PER_MAILBOX || unreadBytes >= MAX_UNREAD_BYTES_PER_MAILBOX) return true
  const { count, bytes } = sql(db).ofAccount.get(accountId) ?? { count: 0, bytes: 0 }
  return count >= MAX_UNREAD_PER_ACCOUNT || bytes >= MAX_UNREAD_BYTES_PER_ACCOUNT
}
