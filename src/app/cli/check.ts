/**
 * @module `tassis check`: recounts every counter and checks the consistency rules. Reads over its own connection in
 * one read transaction, so it sees one moment of a running service. Never writes.
 */
import type { Database } from 'bun:sqlite'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import * as sequences from '#features/audience/sequences/consistency.ts'
import * as accounts from '#features/core/accounts/consistency.ts'
import { verifyAuditLog } from '#features/core/audit-logs/chain.ts'
import { describeDamagedContent } from '#features/core/content-gc/damaged-content.ts'
import * as events from '#features/core/events/consistency.ts'
import * as agentMailboxes from '#features/receiving/agent-mailboxes/consistency.ts'
import * as complaints from '#features/receiving/complaints/consistency.ts'
import * as inbound from '#features/receiving/inbound/api/consistency.ts'
import * as analytics from '#features/reporting/analytics/consistency.ts'
import * as broadcasts from '#features/sending/broadcasts/consistency.ts'
import * as deadLetters from '#features/sending/dead-letters/consistency.ts'
import * as queue from '#features/sending/queue/consistency.ts'
import { checkBalances, readBalances } from '#features/sending/queue/consistency.ts'
import * as tracking from '#features/sending/tracking/consistency.ts'
import * as contactStore from '#features/setup/contact-store/consistency.ts'
import * as suppressionStore from '#features/setup/suppression-store/consistency.ts'
import * as webhooks from '#features/webhooks/webhooks/manage/consistency.ts'
import { blobPath, ENCODING, formatMonth, idOfRef, monthOfRef } from '#platform/content/read.ts'
import { type ConsistencyRule, checkRule, MAX_DIFFERENCES, type Violation } from '#platform/db/consistency.ts'
import { isDatabaseCorrupt } from '#platform/db/corruption.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import { describeCorruption, RESTORE_REMEDY } from '../create.ts'
import { openKeyRing, requireKeysOf } from '../master-key.ts'
import type { Command } from './command.ts'
import { withSnapshot } from './local.ts'
import { formatPage, toPrintable } from './output.ts'

/** A rule that reads tables of several features belongs to the last of them in rank order. */
export const CONSISTENCY_RULES: readonly ConsistencyRule[] = [
  accounts,
  events,
  agentMailboxes,
  complaints,
  inbound,
  analytics,
  broadcasts,
  deadLetters,
  queue,
  tracking,
  contactStore,
  suppressionStore,
  sequences,
  webhooks,
].flatMap((rules) => Object.values<unknown>(rules).filter((rule): rule is ConsistencyRule => typeof rule === 'object'))

export const checkConsistency = (db: Database): Violation[] => CONSISTENCY_RULES.map((rule) => checkRule(db, rule))

/**
 * Tables whose rows belong to an account through a row of another table. The condition selects the rows whose account
 * is not being deleted; it reads the view of the other table, so parents come before children.
 */
const CHILD_TABLES: readonly (readonly [table: string, isKept: string])[] = [
  ['recipients', 'email_id IN (SELECT id FROM emails)'],
  ['link_clicks', 'email_id IN (SELECT id FROM emails)'],
  ['opens', 'recipient_id IN (SELECT id FROM recipients)'],
  ['click_marks', 'recipient_id IN (SELECT id FROM recipients)'],
  ['webhook_deliveries', 'webhook_id IN (SELECT id FROM webhooks)'],
  ['mailbox_messages', 'mailbox_id IN (SELECT id FROM agent_mailboxes)'],
  ['mailbox_threads', 'mailbox_id IN (SELECT id FROM agent_mailboxes)'],
  ['mailbox_contacts', 'mailbox_id IN (SELECT id FROM agent_mailboxes)'],
  ['broadcast_recipients', 'broadcast_id IN (SELECT id FROM broadcasts)'],
]

/**
 * Shadows tables with temporary views that omit the rows of accounts that are being deleted; does nothing when there
 * are none.
 */
export function hideDeletedAccounts(db: Database): void {
  if (!db.query('SELECT account_id FROM account_deletions LIMIT 1').get()) return
  const isKept = 'NOT IN (SELECT account_id FROM main.account_deletions)'
  const tables = db
    .query<{ name: string }, []>(
      `SELECT t.name FROM sqlite_master t JOIN pragma_table_info(t.name) c
       WHERE t.type = 'table' AND c.name = 'account_id' AND t.name <> 'account_deletions'`,
    )
    .all()
  for (const { name } of tables)
    db.run(`CREATE TEMP VIEW ${name} AS SELECT * FROM main.${name} WHERE account_id IS NULL OR account_id ${isKept}`)
  db.run(`CREATE TEMP VIEW accounts AS SELECT * FROM main.accounts WHERE id ${isKept}`)
  for (const [name, where] of CHILD_TABLES)
    db.run(`CREATE TEMP VIEW ${name} AS SELECT * FROM main.${name} WHERE ${where}`)
}

export function addCheckCommand(program: Command): void {
  program
    .add('check', 'recount every counter and check the consistency rules; exit code 1 if something differs')
    .option('--content', 'also read all stored content, and name what is not as it was stored')
    .local(check, formatCheck)
}

interface CheckOptions {
  readonly content?: boolean
}

function check(config: Config, { content: readsContent = false }: CheckOptions) {
  const at = isoTime(systemClock.now())
  return withSnapshot(config, (db) => {
    requireKeysOf(db, openKeyRing(config, false))
    // Runs before deleted accounts are hidden, because the log is one chain over all accounts.
    const audit = checkAuditLog(db)
    hideDeletedAccounts(db)
    const allBalances = readBalances(db)
    const findings = [
      { rule: 'the database is intact', differences: findCorruption(db, 'tassis.db') },
      checkBalances(allBalances),
      ...checkConsistency(db),
      audit,
      ...checkContent(db, join(config.dataDir, 'content')),
      ...(readsContent ? [checkStoredContent(db, config.dataDir)] : []),
    ]
    const ok = findings.every(({ differences }) => differences.length === 0)
    return { ok, at, balances: allBalances, findings }
  })
}

function checkStoredContent(db: Database, dataDir: string): Violation {
  const differences = describeDamagedContent(db, dataDir)
  if (differences.length > 0)
    differences.push('docs/backup.md says how to mend it; until then mail that needs it waits')
  return { rule: 'all stored content is as it was stored', differences }
}

/** Verifies each entry, as `tassis audit verify` does, which shows more. */
function checkAuditLog(db: Database): Violation {
  const { broken, brokenCount } = verifyAuditLog(db)
  const more = brokenCount - broken.length
  const differences = broken.map(({ id, reason }) => `entry ${id} ${reason}`)
  return {
    rule: 'the audit log is unchanged',
    differences: more > 0 ? [...differences, `and ${more} more`] : differences,
  }
}

function formatCheck({ ok, balances: all, findings }: ReturnType<typeof check>): string {
  const broken = findings.filter(({ differences }) => differences.length > 0).length
  // A deleted account leaves a row without a name, so that its number is not reused.
  const shown = all.filter(
    ({ account, account_id: _, ...counts }) => account !== '' || Object.values(counts).some(Boolean),
  )
  return [
    formatPage(
      { data: shown },
      'account accepted sent bounced failed rejected cancelled uncertain open',
      undefined,
      'No account has sent mail.',
    ),
    '',
    ...findings.flatMap(({ rule, differences }) => [
      `${differences.length === 0 ? 'ok    ' : 'WRONG '} ${rule}`,
      ...differences.map((difference) => `         ${toPrintable(difference)}`),
    ]),
    '',
    ok ? 'No inconsistencies found.' : `${broken === 1 ? '1 rule does' : `${broken} rules do`} not hold.`,
  ].join('\n')
}

/** An attachment has no reference once retention has deleted its content. */
const REFS = `SELECT uuid, html_ref AS ref FROM emails WHERE html_ref IS NOT NULL
  UNION ALL SELECT uuid, text_ref FROM emails WHERE text_ref IS NOT NULL
  UNION ALL SELECT uuid, value ->> 'ref' FROM emails, json_each(attachments) WHERE value ->> 'ref' IS NOT NULL`

/**
 * Looks up every body and attachment that an email of the snapshot refers to, without reading any. The months are read
 * after the snapshot was taken, so they hold all content of its emails.
 * @param folder of the content store
 */
export function checkContent(db: Database, folder: string): Violation[] {
  const months = new Map<number, ReadonlySet<number>>()
  const faults: string[] = []
  const differences: string[] = []
  for (const { uuid, ref } of db.query<{ uuid: Uint8Array; ref: number }, []>(REFS).iterate()) {
    const month = monthOfRef(ref)
    const id = idOfRef(ref)
    const ids = months.get(month) ?? readMonth(folder, month, faults)
    months.set(month, ids)
    if (ids.has(id)) continue
    differences.push(`email ${formatUuid(uuid)} refers to blob ${id} of ${formatMonth(month)}, which is missing`)
    if (differences.length > MAX_DIFFERENCES) break
  }
  return [
    { rule: 'every body and attachment that an email refers to exists', differences },
    { rule: 'the content databases are intact', differences: faults },
  ]
}

/** The ids of the blobs that exist; adds what is wrong with their database. */
function readMonth(folder: string, month: number, faults: string[]): ReadonlySet<number> {
  const path = join(folder, `${formatMonth(month)}.db`)
  const ids = new Set<number>()
  if (!existsSync(path)) {
    faults.push(`${path} is missing`)
    return ids
  }
  try {
    using db = openReadOnly(path)
    const blobs = db.query<{ id: number; hash: Uint8Array | null }, [number]>(
      `SELECT id, CASE WHEN encoding = ? THEN hash END AS hash FROM parts WHERE encoding <> ${ENCODING.deleted}`,
    )
    for (const { id, hash } of blobs.iterate(ENCODING.file))
      if (hash === null || existsSync(blobPath(folder, month, hash))) ids.add(id)
    faults.push(...findCorruption(db, formatMonth(month)))
  } catch (error) {
    // Blobs of a corrupt month count as missing, so every email that refers to them is listed.
    if (!isDatabaseCorrupt(error)) throw error
    ids.clear()
    faults.push(describeCorruption(path, RESTORE_REMEDY, error))
  }
  return ids
}

/** Returns what `PRAGMA integrity_check` and `foreign_key_check` find; empty when the database is intact. */
export function findCorruption(db: Database, name: string): string[] {
  const broken = db
    .query<{ integrity_check: string }, []>(`PRAGMA integrity_check(${MAX_DIFFERENCES})`)
    .all()
    .map((row) => row.integrity_check)
    .filter((text) => text !== 'ok')
  const dangling = db
    .query<{ table: string; rowid: number | null; parent: string }, []>('PRAGMA foreign_key_check')
    .all()
    .slice(0, MAX_DIFFERENCES)
    .map(({ table, rowid, parent }) => `row ${rowid ?? '?'} of ${table} refers to a missing row of ${parent}`)
  const remedy = broken.length > 0 ? [`it is corrupt; ${RESTORE_REMEDY}`] : []
  return [...remedy, ...broken, ...dangling].map((text) => `${name}: ${text}`)
}
