/** @module Tests that each benchmark runs and prints its figures, and that the emails it stores are consistent. */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkConsistency, checkContent } from '#app/cli/check.ts'
import { createMailPatterns, createRequestBuilder, HTML_BYTES, TEXT_BYTES } from '#bench/mails.ts'
import { createDataDirectory, loadBenchConfig } from '#bench/measure.ts'
import { checkBalances, readBalances } from '#features/sending/queue/consistency.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { isOpenDkimAvailable } from '#test/support/opendkim.ts'
import { isPostfixAvailable } from '#test/support/postfix.ts'
import { storeEmails } from '../../scripts/bench/stored-emails.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const TASSIS = 'src/main.ts'
const SCRIPTS = 'scripts/bench/index.ts'

/** Runs a program to its end; returns what it printed. */
async function run(args: readonly string[]): Promise<string> {
  const child = Bun.spawn([process.execPath, ...args], {
    cwd: join(import.meta.dir, '../..'),
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  if (exitCode !== 0) throw new Error(`${args.join(' ')} ended with ${exitCode}: ${stderr}${stdout}`)
  return stdout
}

interface Printed {
  readonly results: Readonly<Record<string, readonly { readonly medians: Readonly<Record<string, number | null>> }[]>>
}

/** Returns the medians of each column by benchmark. JSON has null for a number that is not finite. */
async function readMedians(...args: string[]): Promise<Record<string, Readonly<Record<string, number | null>>[]>> {
  const { results } = JSON.parse(await run([...args, '--json'])) as Printed
  return Object.fromEntries(Object.entries(results).map(([name, columns]) => [name, columns.map((c) => c.medians)]))
}

/** Expects each figure to be a number that is not negative, and most not to be 0. */
function expectFigures(columns: readonly Readonly<Record<string, number | null>>[] | undefined, count: number): void {
  expect(columns).toHaveLength(count)
  for (const [name, value] of columns?.flatMap((medians) => Object.entries(medians)) ?? []) {
    expect({ name, value }).toEqual({ name, value: expect.any(Number) })
    if (!/cpu|grown/.test(name)) expect({ name, isPositive: Number(value) > 0 }).toEqual({ name, isPositive: true })
  }
}

test('tassis bench measures sending', async () => {
  const medians = await readMedians(TASSIS, 'bench', '--emails', '20', '--runs', '1')
  expect(Object.keys(medians)).toEqual(['sending'])
  expectFigures(medians['sending'], 1)
})

test('bun scripts/bench templates measures, and prints a row for each figure', async () => {
  const table = await run([SCRIPTS, 'templates', '--renders', '20', '--runs', '2'])
  for (const title of [
    'ms per render, one after another',
    'ms per render, 16 in flight',
    '  CPU ms per render, all threads',
  ])
    expect(table).toMatch(new RegExp(`^${title} +\\d+\\.\\d+ +\\d+\\.\\d+\\.\\.\\d+\\.\\d+$`, 'm'))
})

test.each([
  ['sending', ['--stored', '0,30', '--emails', '20'], 2],
  ['submission', ['--messages', '20'], 1],
  ['webhooks', ['--events', '50'], 1],
  ['receiving', ['--messages', '10'], 1],
  ['lists', ['--emails', '40'], 1],
  ['analytics', ['--events', '500'], 1],
  ['imports', ['--contacts', '200'], 1],
  ['dashboards', ['--open', '12', '--emails', '20'], 2],
])('bun scripts/bench %s measures', async (name, options, columns) => {
  const medians = await readMedians(SCRIPTS, name, ...options, '--runs', '1')
  expectFigures(medians[name], columns)
})

describe.skipIf(!isPostfixAvailable() || !isOpenDkimAvailable())('with Postfix and OpenDKIM', () => {
  test('bun scripts/bench peers measures both, and Tassis beside a queue', async () => {
    const counts = ['--messages', '20', '--warm-up', '5', '--queued', '30']
    const medians = await readMedians(SCRIPTS, 'peers', ...counts, '--runs', '1')
    for (const name of ['peers', 'peers_tls', 'queued']) expectFigures(medians[name], 2)
  })
})

test('bun scripts/bench soak prints the growth of each value', async () => {
  const printed = await run([SCRIPTS, 'soak', '--minutes', '0.1', '--rate', '5'])
  for (const title of ['RSS MiB', 'open descriptors', 'WAL MiB', 'data directory MiB'])
    expect(printed).toMatch(new RegExp(`^${title} +\\d+\\.\\d +\\d+\\.\\d +\\d+\\.\\d +too short$`, 'm'))
  expect(printed).toMatch(/^(\d+) sent, \1 delivered, \d+ received, \d+ webhook requests, 0 refused$/m)
})

test('stored emails have every row and statistic that the service would have written', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-seed-'))
  try {
    await createDataDirectory(loadBenchConfig(dataDir), storeEmails({ emails: 5000, days: 366, domains: 1000 }))
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
