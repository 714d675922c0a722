/** @module Tests that the data of the list benchmark is consistent, apart from the events and statistics that it leaves out. */
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkConsistency } from '#app/consistency-rules.ts'
import { loadConfig } from '#app/settings.ts'
import { prepareList } from '#bench/list.ts'
import { openReadOnly } from '#platform/db/open.ts'

test('the stored emails are counted, indexed and addressed as the service would have stored them', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-seed-'))
  try {
    const { config } = loadConfig({
      TASSIS_DATA_DIR: dataDir,
      TASSIS_HOSTNAME: 'mail.tassis.test',
      TASSIS_LOG_LEVEL: 'silent',
    })
    const { addresses } = await prepareList(config, 3000)
    expect(addresses.every((address) => /^user-\d+@d\d+\.example$/.test(address))).toBe(true)
    expect(new Set(addresses).size).toBeGreaterThan(100)
    using db = openReadOnly(join(dataDir, 'tassis.db'))
    const findings = checkConsistency(db).filter(({ differences }) => differences.length > 0)
    expect(findings.map(({ rule }) => rule)).toEqual([
      'hourly stream stats equal a recount',
      'each final recipient has an event of its final status',
      'analytics by day and domain equal a recount',
    ])
    expect(db.query('SELECT count(*) AS n FROM email_search_docsize').get()).toEqual({ n: 3000 })
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
})
