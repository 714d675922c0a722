/** @module What operators decide for mail in the queue, and the mail that they select for it. */
import type { Database } from 'bun:sqlite'
import { findStreamPool } from '#features/setup/streams/streams.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { conflict } from '#platform/errors.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import type { Millis } from '#platform/units.ts'
import { accountOfLane, domainOfLane, streamOfLane, toLanePrefixes } from './lanes.ts'
import type { QueuePosition } from './queue.ts'
import type { queueRules } from './tables.ts'

/** The kinds that commands for the queue list and end. */
export const QUEUE_RULE_KINDS = ['hold', 'redirect'] as const
export type QueueRuleKind = (typeof QUEUE_RULE_KINDS)[number]
type RuleKind = QueueRuleKind | 'pool'

export interface QueueRule extends Readonly<Omit<typeof queueRules.$inferSelect, 'kind'>> {
  readonly kind: QueueRuleKind
  /** Public ids of its account and its email. */
  readonly accountUuid: UuidBytes | null
  readonly emailUuid: UuidBytes | null
}

/** Each claim reads them; an operator needs a few. */
const MAX_RULES = 1000

const COLUMNS = `id, kind, account_id AS accountId, domain, provider, email_id AS emailId, target, reason, created_by AS createdBy,
  created_at AS createdAt, (SELECT uuid FROM accounts WHERE accounts.id = queue_rules.account_id) AS accountUuid,
  (SELECT uuid FROM emails WHERE emails.id = queue_rules.email_id) AS emailUuid`

const sql = prepareStatements((db) => ({
  // The most specific rule first: account and domain, then domain, then account.
  ofLane: db.prepare<QueueRule, [string, string, number]>(
    `SELECT ${COLUMNS}, account_id IS NULL AS rank FROM queue_rules
     WHERE kind = ?1 AND domain = ?2 AND (account_id IS NULL OR account_id = ?3) AND provider IS NULL AND email_id IS NULL
     UNION ALL SELECT ${COLUMNS}, 2 FROM queue_rules WHERE kind = ?1 AND account_id = ?3 AND domain IS NULL AND provider IS NULL AND email_id IS NULL
     ORDER BY rank LIMIT 1`,
  ),
  ofProvider: db.prepare<QueueRule, [string, string, number, string]>(
    `SELECT ${COLUMNS} FROM queue_rules WHERE kind = ?1 AND provider = ?2 AND (account_id IS NULL OR account_id = ?3)
     AND (domain IS NULL OR domain = ?4) ORDER BY account_id IS NULL, domain IS NULL LIMIT 1`,
  ),
  anyProvider: db.prepare<{ id: number }, []>('SELECT id FROM queue_rules WHERE provider IS NOT NULL LIMIT 1'),
  ofEmail: db.prepare<QueueRule, [number]>(`SELECT ${COLUMNS} FROM queue_rules WHERE email_id = ? AND kind = 'hold'`),
  // A rule is ended by what it names, so `release --account` also ends a rule for one domain of the account.
  matching: db.prepare<QueueRule, [number | null, string | null, number | null, string | null, string | null]>(
    `SELECT ${COLUMNS} FROM queue_rules WHERE (?1 IS NULL OR account_id = ?1) AND (?2 IS NULL OR domain = ?2)
     AND CASE WHEN ?3 IS NULL THEN email_id IS NULL ELSE email_id = ?3 END
     AND CASE WHEN ?4 IS NULL THEN kind <> 'pool' ELSE kind = ?4 END AND (?5 IS NULL OR provider = ?5) ORDER BY id`,
  ),
  same: db.prepare<{ id: number }, [string, number | null, string | null, string | null, number | null]>(
    'SELECT id FROM queue_rules WHERE kind = ? AND account_id IS ? AND domain IS ? AND provider IS ? AND email_id IS ?',
  ),
  all: db.prepare<QueueRule, []>(`SELECT ${COLUMNS} FROM queue_rules WHERE kind <> 'pool' ORDER BY id`),
  poolOf: db.prepare<{ pool: string }, [number]>(
    "SELECT target AS pool FROM queue_rules WHERE kind = 'pool' AND account_id = ?",
  ),
  kinds: db.prepare<{ kind: RuleKind }, []>('SELECT DISTINCT kind FROM queue_rules'),
  count: db.prepare<{ n: number }, []>('SELECT count(*) AS n FROM queue_rules'),
  insert: db.prepare<{ id: number }, (string | number | null)[]>(
    `INSERT INTO queue_rules (kind, account_id, domain, provider, email_id, target, reason, created_by, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
  ),
  delete: db.prepare('DELETE FROM queue_rules WHERE id = ?'),
  selectedOfEmail: db.prepare<SelectedRecipient, [number]>(
    `SELECT ${SELECTED_COLUMNS} FROM recipients WHERE email_id = ? AND next_at IS NOT NULL`,
  ),
  selectedOfLane: db.prepare<SelectedRecipient, [string, number, number, number]>(
    `SELECT ${SELECTED_COLUMNS} FROM recipients INDEXED BY recipients_due
     WHERE next_at IS NOT NULL AND lane = ? AND (next_at, id) > (?, ?) ORDER BY next_at, id LIMIT ?`,
  ),
  laneBetween: db.prepare<SelectedLane, [string, string]>(
    `SELECT lane, next_at AS firstAt FROM recipients INDEXED BY recipients_due
     WHERE next_at IS NOT NULL AND lane > ? AND lane < ? ORDER BY lane, next_at LIMIT 1`,
  ),
}))

/** The kinds of rules that were committed; undefined until they are needed. */
const committedKinds = perOwner((_: Database): { value: ReadonlySet<RuleKind> | undefined } => ({ value: undefined }))

/**
 * Whether there may be a rule of a kind. Most operators have none, and a turn of a lane looks for several outside of
 * transactions, where each look-up acquires the lock of the database. Inside of one, a look-up is cheap and exact.
 */
function mayHaveRules(db: Database, kind: RuleKind): boolean {
  if (db.inTransaction) return true
  const committed = committedKinds(db)
  const rows = committed.value ? [] : sql(db).kinds.all()
  committed.value ??= new Set(rows.map((row) => row.kind))
  return committed.value.has(kind)
}

function rereadKindsAfterCommit(tx: Tx): void {
  tx.afterCommit(() => {
    committedKinds(tx.db).value = undefined
  })
}

/** Rules that name a provider come last. */
function findRule(db: Database, kind: QueueRuleKind, lane: string, provider?: string): QueueRule | undefined {
  if (!mayHaveRules(db, kind)) return undefined
  const [account, domain] = [accountOfLane(lane), domainOfLane(lane)]
  const ofLane = sql(db).ofLane.get(kind, domain, account)
  if (ofLane || provider === undefined) return ofLane ?? undefined
  return sql(db).ofProvider.get(kind, provider, account, domain) ?? undefined
}

/** The rule by which an operator holds all mail of a lane. @param provider only needed while `hasProviderRules` */
export const findHold = (db: Database, lane: string, provider?: string): QueueRule | undefined =>
  findRule(db, 'hold', lane, provider)

/** Whether a rule names a provider, so that delivery must look up the providers of lanes. */
export const hasProviderRules = (db: Database): boolean =>
  QUEUE_RULE_KINDS.some((kind) => mayHaveRules(db, kind)) && sql(db).anyProvider.get() !== null

const HELD = 'held since '

/** Why held mail waits, with the command that ends the hold. */
export const describeHold = (rule: QueueRule): string =>
  `${HELD}${new Date(rule.createdAt).toISOString()} until you release it (tassis queue release ${formatSelector(rule)})${rule.reason === '' ? '' : `: ${rule.reason}`}`

/** The options of `tassis queue` that name the mail of a rule. An email is named alone. */
const formatSelector = ({ domain, provider, accountUuid, emailUuid }: QueueRule): string => {
  if (emailUuid !== null) return `--email ${formatUuid(emailUuid)}`
  return [
    ...(domain === null ? [] : [`--domain ${domain}`]),
    // Names of sites have spaces.
    ...(provider === null ? [] : [`--provider ${provider.includes(' ') ? `"${provider}"` : provider}`]),
    ...(accountUuid === null ? [] : [`--account ${formatUuid(accountUuid)}`]),
  ].join(' ')
}

export const isHoldReason = (reason: string): boolean => reason.startsWith(HELD)

/** The rule by which an operator holds an email; undefined if there is none. */
export const findEmailHold = (db: Database, emailId: number): QueueRule | undefined =>
  sql(db).ofEmail.get(emailId) ?? undefined

/** Where an operator redirects the mail of a lane; undefined if it goes to its MX. */
export const findRedirect = (db: Database, lane: string, provider?: string): string | undefined =>
  findRule(db, 'redirect', lane, provider)?.target ?? undefined

/** Where an operator redirects the mail of a lane, with the command that ends it. Ignores rules for providers. */
export function describeRedirect(db: Database, lane: string): string | undefined {
  const rule = findRule(db, 'redirect', lane)
  return (
    rule &&
    `You redirect this mail to ${rule.target}; \`tassis queue release --only redirect ${formatSelector(rule)}\` ends that`
  )
}

/** The pool of outgoing addresses that an operator gave an account; undefined if it has none of its own. */
export const findPool = (db: Database, accountId: number): string | undefined =>
  mayHaveRules(db, 'pool') ? sql(db).poolOf.get(accountId)?.pool : undefined

/** The pools of a lane's stream, of its account and of the parent account, in this order, as far as there are any. */
export const listPools = (db: Database, lane: string, parentId: number): string[] => {
  const streamId = streamOfLane(lane)
  const ofStream = streamId === undefined ? undefined : findStreamPool(db, streamId)
  return [ofStream, findPool(db, accountOfLane(lane)), findPool(db, parentId)].filter((pool) => pool !== undefined)
}

/** All holds and redirects of mail that has not ended, oldest first. */
export const listRules = (db: Database): QueueRule[] => sql(db).all.all()

/** Replaces a rule of the same kind for the same mail. Throws 409 when there are too many. */
export function addRule(
  tx: Tx,
  rule: {
    readonly kind: RuleKind
    readonly selector: MailSelector
    readonly target?: string
    readonly reason: string
    readonly createdBy: string
    readonly createdAt: Millis
  },
): void {
  const { kind, selector, target = null, reason, createdBy, createdAt } = rule
  const { accountId = null, domain = null, provider = null, emailId = null } = selector
  const key = [accountId, domain, provider, emailId] as const
  const same = sql(tx.db).same.get(kind, ...key)
  if (same) sql(tx.db).delete.run(same.id)
  if ((sql(tx.db).count.get()?.n ?? 0) >= MAX_RULES)
    throw conflict(
      'too_many_queue_rules',
      `There are ${MAX_RULES} holds and redirects; release some, or hold whole domains or accounts.`,
    )
  sql(tx.db).insert.get(kind, ...key, target, reason, createdBy, createdAt)
  rereadKindsAfterCommit(tx)
}

/** Deletes the rules, of one kind or all holds and redirects, that name at least what the selector names; returns them. */
export function removeRules(tx: Tx, selector: MailSelector, kind: RuleKind | undefined): QueueRule[] {
  const { accountId = null, domain = null, provider = null, emailId = null } = selector
  const rules = sql(tx.db).matching.all(accountId, domain, emailId, kind ?? null, provider)
  for (const { id } of rules) sql(tx.db).delete.run(id)
  rereadKindsAfterCommit(tx)
  return rules
}

/** Selects the mail that matches every field that is given; null, as in a rule: any. */
export interface MailSelector {
  readonly accountId?: number | null | undefined
  /** The recipients' domain in A-labels, or `sandbox`. */
  readonly domain?: string | null | undefined
  /** The name of the provider of the recipients' domain; the caller looks up the providers of lanes. */
  readonly provider?: string | null | undefined
  readonly emailId?: number | null | undefined
}

/** The providers of lanes; undefined: the lane has none. */
export type LaneProviders = ReadonlyMap<string, string | undefined>

export interface SelectedRecipient extends QueuePosition {
  readonly emailId: number
  /** Index into STATUSES. */
  readonly status: number
}

/** Lanes examined at once, whether they match or not; this takes some 2 ms. */
const MAX_EXAMINED_LANES = 500
/** After every domain of a lane: names of domains have no character above it. */
const LAST_DOMAIN = '\u007f'

const SELECTED_COLUMNS = 'id, email_id AS emailId, lane, next_at AS nextAt, status'

export interface SelectedLane {
  readonly lane: string
  readonly firstAt: Millis
}

/** Whether a selector without an email selects the mail of a lane, whatever its provider. */
export const isLaneSelected = ({ accountId, domain }: MailSelector, lane: string): boolean =>
  (accountId == null || accountOfLane(lane) === accountId) && (domain == null || domainOfLane(lane) === domain)

/** The first lane after another one; of an account, only its own lanes are examined. */
function findLaneAfter(db: Database, { accountId }: MailSelector, after: string): SelectedLane | undefined {
  const prefixes = accountId == null ? [''] : toLanePrefixes(accountId)
  for (const prefix of prefixes) {
    const found = sql(db).laneBetween.get(after > prefix ? after : prefix, `${prefix}${LAST_DOMAIN}`)
    if (found) return found
  }
  return undefined
}

/**
 * Examines some lanes after another one; returns up to `limit` that a selector without an email selects, whatever their
 * provider. `next` is the lane after which to continue; undefined at the end.
 */
export function listSelectedLanes(
  db: Database,
  selector: MailSelector,
  after: string,
  limit = MAX_EXAMINED_LANES,
): { lanes: SelectedLane[]; next: string | undefined } {
  const lanes: SelectedLane[] = []
  let at = after
  for (let examined = 0; examined < MAX_EXAMINED_LANES && lanes.length < limit; examined++) {
    const found = findLaneAfter(db, selector, at)
    if (!found) return { lanes, next: undefined }
    if (isLaneSelected(selector, found.lane)) lanes.push(found)
    at = found.lane
  }
  return { lanes, next: at }
}

/**
 * Reads up to `limit` selected recipients after a place, and examines a limited number of lanes, so it may return none
 * although there are more. `place` is where to continue; undefined at the end. All recipients of an email are read at
 * once.
 * @param providers of the next lanes, if the selector names a provider: reading ends at the first lane that it lacks
 */
export function readSelected(
  db: Database,
  selector: MailSelector,
  after: QueuePosition,
  limit: number,
  providers?: LaneProviders,
): { recipients: SelectedRecipient[]; place: QueuePosition | undefined } {
  if (selector.emailId != null) {
    const found = sql(db).selectedOfEmail.all(selector.emailId)
    return { recipients: found.filter(({ lane }) => isLaneSelected(selector, lane)), place: undefined }
  }
  const recipients: SelectedRecipient[] = []
  let at = after
  for (let examined = 0; examined < MAX_EXAMINED_LANES; examined++) {
    const isSelected = at.lane !== '' && isLaneSelected(selector, at.lane)
    if (isSelected && providers && !providers.has(at.lane)) return { recipients, place: at }
    if (isSelected && (!providers || providers.get(at.lane) === selector.provider)) {
      recipients.push(...sql(db).selectedOfLane.all(at.lane, at.nextAt, at.id, limit - recipients.length))
      const last = recipients.at(-1)
      if (last && recipients.length >= limit)
        return { recipients, place: { lane: last.lane, nextAt: last.nextAt, id: last.id } }
    }
    const next = findLaneAfter(db, selector, at.lane)
    if (!next) return { recipients, place: undefined }
    at = { lane: next.lane, nextAt: 0, id: 0 }
  }
  return { recipients, place: at }
}
