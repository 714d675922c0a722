/** @module Tests that an account deletion by the operator continues after every `kill -9` and leaves no data. */
import { Database } from 'bun:sqlite'
import { expect, setDefaultTimeout, test } from 'bun:test'
import { join } from 'node:path'
import { startBackground } from '#app/schedules.ts'
import { listOpenDeletions } from '#features/lifecycle/privacy/delete-account.ts'
import { systemClock } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'
import { createTestAccount, createTestApp, eventually } from '#test/support/app.ts'
import { createEmailApi } from '#test/support/email-api.ts'
import { grepData } from '#test/support/grep-data.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createDataFolder, runTassis, runTassisList, startServing } from './process.ts'

setDefaultTimeout(300_000)

/** Reads the deletion row beside the running service. */
function readDeletion(dataDir: string): string {
  using db = new Database(join(dataDir, 'tassis.db'), { readonly: true })
  return JSON.stringify(db.query('SELECT account_id, step, cursor, rows FROM account_deletions').get())
}

/** The step that waits for the ten minutes to pass. */
const LATE = '"step":2'
const MARK = 'vanish-for-good'
const EMAILS = 1500

// Proves: account-8, privacy-3
test('the operator deletes an account although the service is killed five times', async () => {
  using data = createDataFolder()
  {
    await using api = await createEmailApi({ dataDir: data.path, clock: systemClock })
    await createTestAccount(api.app)
    api.app.db.run(`UPDATE accounts SET name = '${MARK}' WHERE id = ?`, [api.actor.accountId])
    for (let i = 0; i < EMAILS; i += 50)
      await api.api('POST', '/v1/emails/batch', {
        emails: Array.from({ length: 50 }, (_, n) => ({
          from: 'ada@sender.test',
          to: `${MARK}-${i + n}@receiver.test`,
          subject: MARK,
          text_body: `${MARK} ${i + n}`,
        })),
      })
  }
  const refused = await runTassis(['accounts', 'delete', MARK, '--confirm', 'yes'], data.settings)
  expect([refused.exitCode, refused.stderr]).toEqual([
    1,
    `tassis: --confirm must be the name of the account, "${MARK}", because deletion cannot be undone. Nothing was deleted.\n`,
  ])
  const deleted = await runTassis(['accounts', 'delete', MARK, '--confirm', MARK], data.settings)
  expect([deleted.exitCode, deleted.stderr]).toEqual([0, ''])
  expect(await runTassisList(['accounts', 'list'], data.settings)).toHaveLength(1)

  const steps = new Set<string>()
  for (let death = 0; death < 5; death++) {
    await using service = await startServing(data.settings)
    const before = readDeletion(data.path)
    expect(before).toContain('"account_id":1')
    // Kill the service as soon as it has made progress, in the middle of the next work.
    steps.add(before)
    if (!before.includes(LATE)) await eventually(() => readDeletion(data.path) !== before)
    steps.add(readDeletion(data.path))
    expect(service.url).toContain('127.0.0.1')
  }
  // Each run of the service continued where the previous one ended.
  expect(steps.size).toBeGreaterThan(1)
  const left = await runTassisList(['accounts', 'deletions'], data.settings)
  expect(left).toEqual([expect.objectContaining({ account_number: 1 })])
  // Consistency covers the remaining accounts, the audit log all accounts.
  const checked = await runTassis(['check'], data.settings)
  expect([checked.exitCode, checked.stderr]).toEqual([0, ''])

  const clock = new ManualClock(Date.now() + minutes(30))
  await using later = await createTestApp({ dataDir: data.path, clock })
  const background = startBackground(later.app)
  await eventually(() => {
    clock.advance(minutes(1))
    later.app.removalDue.emit()
    return listOpenDeletions(later.app.db).length === 0
  })
  await background.stop()
  expect(grepData(data.path, [MARK])).toEqual([])
  const { exitCode } = await runTassis(['audit', 'verify'], data.settings)
  expect(exitCode).toBe(0)
})
