import type { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { type AuditVerification, verifyAuditLog } from '#features/core/audit-logs/chain.ts'
import {
  eraseAccountAuditEntries,
  eraseMatchingAuditEntries,
  purgeAuditEntries,
  purgeAuditLog,
} from '#features/core/audit-logs/erase.ts'
import { days } from '#platform/units.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'
import { rewriteAuditChain } from '#test/support/audit-chain.ts'
import { NOW } from '#test/support/email-api.ts'
import { createFolder } from '#test/support/folder.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const writeEntry = (app: App, actor: Actor, resourceId: string): Promise<void> =>
  app.commit.write((tx) =>
    audit(app, tx, actor, {
      action: 'thing.made',
      resourceType: 'thing',
      resourceId,
      metadata: { of: resourceId, text: 'Grüße \u{1f600} \ud800' },
    }),
  )

/**
 * Creates a log with the entry of the account's creation and `count` entries of a key; all fields of these entries are
 * set.
 */
async function createFilledApp(count: number) {
  const clock = new ManualClock(NOW)
  const service = await createTestApp({ clock })
  const actor: Actor = {
    ...(await createTestAccount(service.app)),
    type: 'api_key',
    id: '018f0000-0000-7000-8000-000000000001',
    ipAddress: '192.0.2.7',
  }
  for (let n = 1; n <= count; n++) {
    clock.advance(1000)
    await writeEntry(service.app, actor, `thing-${n}`)
  }
  return { ...service, actor, clock }
}

const expectedVerification = (entries: number, more: Partial<AuditVerification> = {}): AuditVerification => ({
  entries,
  erased: 0,
  removedUpTo: 0,
  headId: entries,
  headHash: expect.stringMatching(/^[0-9a-f]{64}$/),
  brokenCount: 0,
  broken: [],
  hasExpected: null,
  ...more,
})

/** Verifies the log after `change`, which is rolled back. */
function verifyAfterChange(db: Database, change: (db: Database) => void): AuditVerification {
  db.run('BEGIN')
  try {
    change(db)
    return verifyAuditLog(db)
  } finally {
    db.run('ROLLBACK')
  }
}

const COLUMNS = [
  'uuid',
  'account_id',
  'actor_type',
  'actor_id',
  'action',
  'resource_type',
  'resource_id',
  'ip_address',
  'metadata',
  'created_at',
  'salt',
  'digest',
  'hash',
]

/** Flips the lowest bit of one byte, or adds 1 to an integer. */
function flipBit(db: Database, column: string, id: number, position: number): void {
  const row = db
    .query<{ type: string; hex: string }, [number]>(
      `SELECT typeof(${column}) AS type, hex(CAST(${column} AS BLOB)) AS hex FROM audit_logs WHERE id = ?`,
    )
    .get(id)
  if (!row) throw new Error(`no entry ${id}`)
  if (row.type === 'integer') {
    db.run(`UPDATE audit_logs SET ${column} = ${column} + 1 WHERE id = ?`, [id])
    return
  }
  const bytes = Uint8Array.fromHex(row.hex)
  const at = position % bytes.length
  bytes[at] = (bytes[at] ?? 0) ^ 1
  const value = row.type === 'text' ? 'CAST(? AS TEXT)' : '?'
  db.run(`UPDATE audit_logs SET ${column} = ${value} WHERE id = ?`, [bytes, id])
}

// Proves: audit-6
test('a change of one byte in any column is found in every entry and position, and the entry is reported', async () => {
  await using service = await createFilledApp(6)
  for (const column of COLUMNS)
    for (const id of [2, 5, 7])
      for (const position of [0, 3, 15]) {
        const { broken } = verifyAfterChange(service.app.db, (copy) => flipBit(copy, column, id, position))
        expect([column, position, broken[0]?.id]).toEqual([column, position, id])
      }
})

test('a changed byte is found even if the text decodes to the same string', async () => {
  await using service = await createFilledApp(2)
  const { db } = service.app
  await service.app.commit.write((tx) =>
    audit(service.app, tx, service.actor, { action: 'thing.made', resourceId: 'a\ufffdb' }),
  )
  const { brokenCount, broken } = verifyAfterChange(db, (copy) =>
    copy.run("UPDATE audit_logs SET resource_id = CAST(x'61FFBFBD62' AS TEXT) WHERE id = 4"),
  )
  expect({ brokenCount, id: broken[0]?.id }).toEqual({ brokenCount: 1, id: 4 })
})

const TAMPERED: readonly (readonly [what: string, change: string, id: number])[] = [
  ['an entry in the middle that was removed', 'DELETE FROM audit_logs WHERE id = 4', 5],
  ['the first entries that were removed', 'DELETE FROM audit_logs WHERE id <= 3', 4],
  ['the last entry that was removed', 'DELETE FROM audit_logs WHERE id = 9', 9],
  ['the last entries that were removed', 'DELETE FROM audit_logs WHERE id > 5', 6],
  ['all entries that were removed', 'DELETE FROM audit_logs', 1],
  ['an entry inserted after the last', createCopySql('id = 5', '10'), 10],
  ['an entry inserted before the first', createCopySql('id = 5', '0'), 0],
  ['an entry with a changed number', 'UPDATE audit_logs SET id = 100 WHERE id = 9', 100],
  [
    'two entries with swapped positions',
    'UPDATE audit_logs SET id = -1 WHERE id = 4; UPDATE audit_logs SET id = 4 WHERE id = 5; UPDATE audit_logs SET id = 5 WHERE id = -1',
    4,
  ],
  ['an entry without its hashes', "UPDATE audit_logs SET salt = NULL, digest = x'', hash = x'' WHERE id = 6", 6],
  [
    'an entry that lost its salt but still has its personal fields',
    'UPDATE audit_logs SET salt = NULL WHERE id = 6',
    6,
  ],
  ['a chain whose recorded beginning is too late', 'UPDATE audit_chain SET anchor_id = 3', 1],
  ['a chain whose recorded last hash is wrong', 'UPDATE audit_chain SET head_hash = zeroblob(32)', 9],
  ['a chain without the record of its ends', 'DELETE FROM audit_chain', 0],
]

// Proves: audit-6
test('finds and reports entries that were removed, inserted, moved or changed, and wrong ends of the chain', async () => {
  await using service = await createFilledApp(8)
  for (const [what, change, id] of TAMPERED) {
    const { broken } = verifyAfterChange(service.app.db, (copy) => void copy.run(change))
    expect([what, broken[0]?.id]).toEqual([what, id])
  }
})

function createCopySql(condition: string, id: string): string {
  const others = [
    'uuid',
    'account_id',
    'actor_type',
    'actor_id',
    'action',
    'created_at',
    'salt',
    'digest',
    'hash',
  ].join()
  return `INSERT INTO audit_logs (id, ${others}) SELECT ${id}, ${others} FROM audit_logs WHERE ${condition}`
}

test('a fully rewritten log verifies, but no longer contains a hash recorded before', async () => {
  await using service = await createFilledApp(5)
  const { db } = service.app
  const noted = verifyAuditLog(db).headHash
  await writeEntry(service.app, service.actor, 'later')
  expect(verifyAuditLog(db, noted.toUpperCase())).toEqual(expectedVerification(7, { hasExpected: true }))
  db.run("UPDATE audit_logs SET action = 'thing.forged' WHERE id = 3")
  rewriteAuditChain(db)
  expect(verifyAuditLog(db, noted)).toEqual(expectedVerification(7, { hasExpected: false }))
})

test('a failed write leaves no gap: the other writes of its group commit are chained to each other', async () => {
  await using service = await createFilledApp(1)
  const { app, actor } = service
  const results = await Promise.allSettled(
    Array.from({ length: 20 }, (_, n) =>
      app.commit.write((tx) => {
        audit(app, tx, actor, { action: 'thing.made', resourceId: `${n}` })
        if (n % 3 === 1) throw new Error('refused')
      }),
    ),
  )
  expect(results.filter(({ status }) => status === 'rejected').length).toBe(7)
  expect(verifyAuditLog(app.db)).toEqual(expectedVerification(15))
})

test('entries inserted after the end of the chain do not prevent further writes, and are still found', async () => {
  await using service = await createFilledApp(3)
  const { app, actor } = service
  app.db.run(createCopySql('id = 2', '5'))
  await writeEntry(app, actor, 'next')
  const { broken } = verifyAuditLog(app.db)
  expect(broken[0]?.id).toBe(5)
})

// Proves: audit-7
test('erased entries verify by their digest, are counted as erased, and keep their action and time', async () => {
  await using service = await createFilledApp(9)
  const { app, actor } = service
  const step = await app.commit.write((tx) =>
    eraseMatchingAuditEntries(tx, {
      accountId: actor.accountId,
      after: 0,
      limit: 100,
      matches: (text) => text.includes('thing-4'),
    }),
  )
  expect(step).toEqual({ rows: 1, next: undefined })
  expect(verifyAuditLog(app.db)).toEqual(expectedVerification(10, { erased: 1 }))
  expect(
    app.db
      .query(
        'SELECT actor_type, actor_id, action, resource_type, resource_id, ip_address, metadata, salt FROM audit_logs WHERE id = 5',
      )
      .get(),
  ).toEqual({
    actor_type: 'api_key',
    actor_id: 'erased',
    action: 'thing.made',
    resource_type: 'thing',
    resource_id: null,
    ip_address: null,
    metadata: null,
    salt: null,
  })
})

test('text inserted into an erased entry is found', async () => {
  await using service = await createFilledApp(3)
  const { app, actor } = service
  await app.commit.write((tx) => eraseAccountAuditEntries(tx, actor.accountId, 100))
  const { broken } = verifyAfterChange(app.db, (copy) => copy.run("UPDATE audit_logs SET metadata = '{}' WHERE id = 2"))
  expect(broken.map(({ id }) => id)).toEqual([2])
})

test('the log of an account is erased in steps; the logs of other accounts stay', async () => {
  await using service = await createFilledApp(7)
  const { app, actor } = service
  const other = await createTestAccount(app)
  const steps: unknown[] = []
  for (let after: number | undefined = 0; after !== undefined; ) {
    const from: number = after
    const step = await app.commit.write((tx) => eraseAccountAuditEntries(tx, actor.accountId, 3, from))
    steps.push(step)
    after = step.next
  }
  expect(steps).toEqual([
    { rows: 3, next: 3 },
    { rows: 3, next: 6 },
    { rows: 2, next: undefined },
  ])
  expect(verifyAuditLog(app.db)).toEqual(expectedVerification(9, { erased: 8 }))
  expect(app.db.query('SELECT DISTINCT account_id AS account FROM audit_logs WHERE salt IS NOT NULL').all()).toEqual([
    { account: other.accountId },
  ])
})

test('old entries are deleted oldest first; the remaining log verifies, and ids are not reused', async () => {
  await using service = await createFilledApp(500)
  const { app, actor, clock } = service
  expect(await purgeAuditLog(app, NOW + 300_000)).toBe(300)
  expect(verifyAuditLog(app.db)).toEqual(expectedVerification(201, { removedUpTo: 300, headId: 501 }))
  clock.advance(9_500_000)
  expect(await app.commit.write((tx) => purgeAuditEntries(tx, NOW + 9_000_000, 50))).toBe(50)
  expect(await purgeAuditLog(app, NOW + 9_000_000)).toBe(151)
  expect(verifyAuditLog(app.db)).toEqual(expectedVerification(0, { removedUpTo: 501, headId: 501 }))
  await writeEntry(app, actor, 'after')
  expect(verifyAuditLog(app.db)).toEqual(expectedVerification(1, { removedUpTo: 501, headId: 502 }))
  const { broken } = verifyAfterChange(app.db, (copy) => copy.run('DELETE FROM audit_logs'))
  expect(broken.map(({ id }) => id)).toEqual([502])
})

test('times never decrease along the log, even if the clock was set back while the service was down', async () => {
  using folder = createFolder()
  const dataDir = folder.path
  let actor: Actor
  {
    await using ahead = await createTestApp({ clock: new ManualClock(NOW + days(1000)), dataDir })
    actor = await createTestAccount(ahead.app)
  }
  const clock = new ManualClock(NOW)
  await using service = await createTestApp({ clock, dataDir })
  for (let n = 0; n < 3; n++) await writeEntry(service.app, actor, `thing-${n}`)
  clock.advance(days(1001))
  await writeEntry(service.app, actor, 'later')
  const times = service.app.db.query<{ at: number }, []>('SELECT created_at AS at FROM audit_logs ORDER BY id').all()
  expect(times.map(({ at }) => at - NOW)).toEqual([1000, 1000, 1000, 1000, 1001].map((day) => days(day)))
  expect(verifyAuditLog(service.app.db)).toEqual(expectedVerification(5))
})
