/** @module Tests that the data of the analytics benchmark is consistent, as if the service had written it. */
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkConsistency } from '#app/consistency-rules.ts'
import { loadConfig } from '#app/settings.ts'
import { prepareAnalytics } from '#bench/analytics.ts'
import { checkBalances, readBalances } from '#features/sending/queue/balance.ts'
import { openReadOnly } from '#platform/db/open.ts'

test('the seeded year of mail has every row and statistic that the service would have written', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-seed-'))
  try {
    const { config } = loadConfig({
      TASSIS_DATA_DIR: dataDir,
      TASSIS_HOSTNAME: 'mail.tassis.test',
      TASSIS_LOG_LEVEL: 'silent',
    })
    const { events } = await prepareAnalytics(config, 20_000)
    using db = openReadOnly(join(dataDir, 'tassis.db'))
    const findings = [...checkConsistency(db), checkBalances(readBalances(db))]
    expect(findings.filter(({ differences }) => differences.length > 0)).toEqual([])
    expect(events).toBeWithin(19_000, 21_000)
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
})
