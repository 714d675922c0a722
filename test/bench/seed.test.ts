/** @module Tests that the stored emails of the benchmark are consistent, as if the service had written them. */
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkContent } from '#app/cli/content-check.ts'
import { checkConsistency } from '#app/consistency-rules.ts'
import { createMailPatterns, createRequestBuilder, HTML_BYTES, TEXT_BYTES } from '#bench/mails.ts'
import { loadBenchConfig } from '#bench/measure.ts'
import { seedDataDirectory } from '#bench/seed.ts'
import { checkBalances, readBalances } from '#features/sending/queue/consistency.ts'
import { openReadOnly } from '#platform/db/open.ts'

test('stored emails have every row and statistic that the service would have written', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-seed-'))
  try {
    await seedDataDirectory(loadBenchConfig(dataDir), { emails: 5000, days: 366, domains: 1000 })
    using db = openReadOnly(join(dataDir, 'tassis.db'))
    const balances = readBalances(db)
    const findings = [...checkConsistency(db), ...checkContent(db, join(dataDir, 'content')), checkBalances(balances)]
    expect(findings.filter(({ differences }) => differences.length > 0)).toEqual([])
    expect(balances.map(({ accepted, sent, open }) => ({ accepted, sent, open }))).toEqual([
      { accepted: 5000, sent: 4900, open: 0 },
    ])
    expect(db.query('SELECT count(*) AS n FROM email_search_docsize').get()).toEqual({ n: 5000 })
    expect(db.query('SELECT count(DISTINCT address) AS n FROM recipients').get()).toEqual({ n: 500 })
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
})

test('a benchmark email has exactly 2 KiB of text and 8 KiB of HTML, and a unique body', () => {
  const request = createRequestBuilder('key')
  const bodies = Array.from({ length: 200 }, (_, number) => {
    const [head = '', body = ''] = request(number).split('\r\n\r\n')
    expect(head).toContain(`Content-Length: ${Buffer.byteLength(body)}`)
    return JSON.parse(body) as { text_body: string; html_body: string; to: string }
  })
  expect(new Set(bodies.map(({ text_body, html_body }) => `${text_body.length} ${html_body.length}`))).toEqual(
    new Set([`${TEXT_BYTES} ${HTML_BYTES}`]),
  )
  expect(new Set(bodies.flatMap(({ text_body, html_body, to }) => [text_body, html_body, to])).size).toBe(600)
  expect(createMailPatterns()).toHaveLength(64)
})
