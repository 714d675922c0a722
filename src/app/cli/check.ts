/**
 * @module `tassis check`: recounts every counter and checks the consistency rules. Reads over its own connection in
 * one read transaction, so it sees one moment of a running service. Never writes.
 */

import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { verifyAuditLog } from '#features/core/audit-logs/verify.ts'
import { type Balance, checkBalances, readBalances } from '#features/sending/queue/consistency.ts'
import type { Violation } from '#platform/db/consistency.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { Config } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import { checkConsistency } from '../consistency-rules.ts'
import { describeDamagedContent } from '../damaged-content.ts'
import { openKeyRing, requireKeysOf } from '../master-key.ts'
import { loadConfig } from '../settings.ts'
import { requireData } from './call.ts'
import type { Command } from './command.ts'
import { checkContent, findCorruption } from './content-check.ts'
import { askService } from './local-service.ts'
import type { JsonOption } from './options.ts'
import { formatTable, printResult, toPrintable } from './output.ts'
import { findSettingWarnings } from './setting-warnings.ts'
import { withSnapshot } from './snapshot.ts'

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

interface CheckResult {
  readonly ok: boolean
  readonly at: string
  readonly balances: readonly Balance[]
  readonly findings: readonly Violation[]
  /** Problems with the settings of the running service, else of this shell; they do not affect `ok`. */
  readonly warnings: readonly string[]
}

interface CheckOptions extends JsonOption {
  readonly content?: boolean | undefined
}

export function addCheckCommand(program: Command): void {
  program
    .add('check', 'recount every counter and check the consistency rules; exit code 1 if something differs')
    .option('--content', 'also read all stored content, and name what is not as it was stored')
    .action(async (options: CheckOptions) => {
      const { config } = loadConfig()
      requireData(config)
      const result = check(config, options, (await askService(config))?.warnings ?? findSettingWarnings(config))
      printResult(options, result, formatCheck)
      if (!result.ok) process.exitCode = 1
    })
}

function check(
  config: Config,
  { content: readsContent = false }: CheckOptions,
  warnings: readonly string[],
): CheckResult {
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
    return { ok, at, balances: allBalances, findings, warnings }
  })
}

function checkStoredContent(db: Database, dataDir: string): Violation {
  const differences = describeDamagedContent(db, dataDir)
  if (differences.length > 0)
    differences.push('docs/backup.md says how to mend it; until then mail that needs it waits')
  return { rule: 'all stored content is as it was stored', differences }
}

/** Verifies each entry, as `tassis audit verify` does. */
function checkAuditLog(db: Database): Violation {
  const { broken, brokenCount } = verifyAuditLog(db)
  const more = brokenCount - broken.length
  return {
    rule: 'the audit log is unchanged',
    differences: [
      ...broken.map(({ id, reason }) => `entry ${id} ${reason}`),
      ...(more > 0 ? [`and ${more} more entries`] : []),
    ],
  }
}

const OUTCOMES = ['accepted', 'sent', 'bounced', 'failed', 'rejected', 'cancelled', 'uncertain', 'open'] as const

function formatCheck({ ok, balances: all, findings, warnings }: CheckResult): string {
  const broken = findings.filter(({ differences }) => differences.length > 0).length
  // A deleted account leaves a row without a name, so that its number is not reused.
  const shown = all.filter((balance) => balance.account !== '' || OUTCOMES.some((outcome) => balance[outcome] !== 0))
  return [
    formatTable(
      ['account', ...OUTCOMES].map((name) => name.toUpperCase()),
      shown.map((balance) => [balance.account, ...OUTCOMES.map((outcome) => String(balance[outcome]))]),
    ),
    '',
    ...findings.flatMap(({ rule, differences }) => [
      `${differences.length === 0 ? 'ok    ' : 'WRONG '} ${rule}`,
      ...differences.map((difference) => `         ${toPrintable(difference)}`),
    ]),
    ...warnings.flatMap((warning) => ['', `Warning: ${warning}`]),
    '',
    ok ? 'No inconsistencies found.' : `${broken === 1 ? '1 rule does' : `${broken} rules do`} not hold.`,
  ].join('\n')
}
