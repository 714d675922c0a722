/**
 * @module `tassis check`: recounts every counter and verifies the books. Reads by a connection of its own, in one read transaction, so it can run
 * beside the service and sees one moment of it. Changes nothing.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import type { Command } from 'commander'
import { systemClock } from '#platform/clock.ts'
import { type Config, loadConfig } from '#platform/config.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { explainDamage, RESTORE } from '../create.ts'
import { migrations } from '../migrations.ts'
import { type Balance, balanceFinding, balances, examineBooks, type Finding } from './books.ts'
import { requireData } from './call.ts'
import { examineContent, soundness } from './content-check.ts'
import { CommandError } from './operation.ts'
import { type JsonOption, withJson } from './options.ts'
import { printable, report, table } from './output.ts'

interface CheckResult {
  readonly ok: boolean
  readonly at: string
  readonly balances: readonly Balance[]
  readonly findings: readonly Finding[]
}

export function addCheckCommand(program: Command): void {
  withJson(
    program
      .command('check')
      .description('recount every counter and verify the books; exit code 1 when something differs'),
  ).action((options: JsonOption) => {
    const { config } = loadConfig()
    requireData(config)
    const result = check(config)
    report(options, result, checkText)
    if (!result.ok) process.exitCode = 1
  })
}

function check(config: Config): CheckResult {
  const at = isoTime(systemClock.now())
  const path = join(config.dataDir, 'tassis.db')
  const db = explainDamage(path, RESTORE, () => openSnapshot(path))
  try {
    const all = balances(db)
    const findings = [
      { rule: 'the database is sound', differences: soundness(db, 'tassis.db') },
      balanceFinding(all),
      ...examineBooks(db),
      ...examineContent(db, join(config.dataDir, 'content')),
    ]
    return { ok: findings.every(({ differences }) => differences.length === 0), at, balances: all, findings }
  } finally {
    db.close()
  }
}

/** A connection in a read transaction of its own. */
function openSnapshot(path: string): Database {
  const db = openReadOnly(path)
  db.run('PRAGMA temp_store = MEMORY')
  db.run('BEGIN')
  requireThisSchema(db)
  return db
}

/** The first read: from here on the snapshot stands. */
function requireThisSchema(db: Database): void {
  const applied = db.query<{ name: string }, []>('SELECT name FROM migrations ORDER BY name').all()
  const known = migrations.map(({ name }) => name)
  if (applied.map(({ name }) => name).join() !== known.toSorted().join()) {
    throw new CommandError(
      'The database has the schema of another version of Tassis; check it with that version, or start this one first.',
    )
  }
}

function checkText({ ok, balances: all, findings }: CheckResult): string {
  const broken = findings.filter(({ differences }) => differences.length > 0).length
  const rows = all.map((b) => [
    b.account,
    b.accepted,
    b.sent,
    b.bounced,
    b.failed,
    b.rejected,
    b.cancelled,
    b.uncertain,
    b.open,
  ])
  return [
    table(
      ['ACCOUNT', 'ACCEPTED', 'SENT', 'BOUNCED', 'FAILED', 'REJECTED', 'CANCELLED', 'UNCERTAIN', 'OPEN'],
      rows.map((row) => row.map(String)),
    ),
    '',
    ...findings.flatMap(({ rule, differences }) => [
      `${differences.length === 0 ? 'ok    ' : 'WRONG '} ${rule}`,
      ...differences.map((difference) => `         ${printable(difference)}`),
    ]),
    '',
    ok ? 'All is as it should be.' : `${broken === 1 ? '1 rule does' : `${broken} rules do`} not hold.`,
  ].join('\n')
}
