import { expect, setDefaultTimeout, test } from 'bun:test'
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import { storeDomainReport } from '#features/receiving/domain-reports/store.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'
import { dmarcXml, tlsJson } from '#test/protocols/aggregate-reports/samples.ts'
import { createDataFolder, runTassis, runTassisJson, type Settings, setUpAccount, startServing } from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const BEGIN = Date.UTC(2025, 10, 20)
const RECEIVED = Date.UTC(2025, 10, 21, 6, 7, 8)
const END = Date.UTC(2025, 10, 20, 23, 59, 59)

interface Shown {
  readonly id: string
  readonly kind: string
}

/** Stores reports as if they had been received; the content of `gone` is no longer stored. */
async function withReports(settings: Settings): Promise<void> {
  const opened = openApp(loadConfig({ ...settings }).config)
  try {
    const { app } = opened
    const base = { beginMs: BEGIN, endMs: END }
    const reports: AggregateReport[] = [
      {
        ...base,
        kind: 'dmarc',
        domain: 'sender.test',
        organisation: 'receiver\u001b[2J.example',
        reportId: 'r\u202e1',
        content: Buffer.from(`${dmarcXml({ domain: 'sender.test' })}\t<!-- \u001b[31m -->\n`),
      },
      {
        ...base,
        kind: 'tls',
        domain: 'mail.tassis.test',
        organisation: 'Receiver Inc.',
        reportId: '2',
        endMs: END + 86_400_000,
        content: Buffer.from(tlsJson({ domain: 'mail.tassis.test' })),
      },
    ]
    const refs = await app.content.put(
      reports.map(({ content }) => content),
      RECEIVED,
    )
    await app.commit.write((tx) => {
      for (const [index, report] of reports.entries())
        storeDomainReport(app, tx, { ...report, contentRef: refs[index] ?? 0 }, RECEIVED + index)
      const gone = { ...base, kind: 'tls', domain: 'tassis.test', organisation: 'x', reportId: '3' } as const
      storeDomainReport(app, tx, { ...gone, content: Buffer.from('x'), contentRef: 2 ** 40 }, RECEIVED + 2)
    })
  } finally {
    await opened.close()
  }
}

// Proves: inbound-33
test('reports can be listed and shown with and without a service, without control characters', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings, { verified: true })
  const run = async (...args: string[]) => {
    const { exitCode, stdout, stderr } = await runTassis(['reports', ...args], data.settings)
    return { exitCode, out: stdout.trimEnd(), stderr }
  }
  expect(await run('list')).toEqual({ exitCode: 0, out: 'There are no reports.', stderr: '' })
  await withReports(data.settings)
  const found = await runTassisJson<{ data: Shown[] }>(['reports', 'list'], data.settings)
  const id = (index: number) => found.data[index]?.id ?? ''
  expect(found).toEqual({
    has_more: false,
    data: [
      {
        id: expect.any(String),
        kind: 'tls',
        account: null,
        domain: 'tassis.test',
        organisation: 'x',
        report_id: '3',
        period_start: '2025-11-20T00:00:00.000Z',
        period_end: '2025-11-20T23:59:59.000Z',
        size_bytes: 1,
        received_at: '2025-11-21T06:07:08.002Z',
      },
      expect.objectContaining({ kind: 'tls', domain: 'mail.tassis.test' }),
      expect.objectContaining({
        kind: 'dmarc',
        domain: 'sender.test',
        account: 'Acme',
        organisation: 'receiver\u001b[2J.example',
      }),
    ],
  } as never)
  await using service = await startServing(data.settings)
  expect(service.url).toMatch(/^http:/)
  expect((await run('list')).out.split('\n').map((line) => line.replace(/ {2,}/g, '|'))).toEqual([
    'ID|RECEIVED|KIND|DOMAIN|FROM|PERIOD|ACCOUNT',
    `${id(0)}|2025-11-21 06:07:08Z|tls|tassis.test|x|2025-11-20`,
    `${id(1)}|2025-11-21 06:07:08Z|tls|mail.tassis.test|Receiver Inc.|2025-11-20 to 2025-11-21`,
    `${id(2)}|2025-11-21 06:07:08Z|dmarc|sender.test|receiver [2J.example|2025-11-20|Acme`,
  ])
  expect((await run('list', '--limit', '1', '--domain', 'Mail.Tassis.Test')).out).toMatch(
    /^ID .*\n\S+ .* mail\.tassis\.test [^\n]*$/,
  )
  expect((await run('list', '--limit', '2')).out).toMatch(/\n… and more \(--limit\)$/)
  const shown = await run('show', id(2))
  expect(shown.out).toBe(
    `Received: 2025-11-21 06:07:08Z, ${Buffer.byteLength(dmarcXml({ domain: 'sender.test' })) + 16} bytes unpacked
Kind:     DMARC aggregate
Domain:   sender.test (account Acme)
From:     receiver [2J.example
Id:       r 1
Period:   2025-11-20

${dmarcXml({ domain: 'sender.test' })}\t<!--  [31m -->`,
  )
  expect(await runTassisJson(['reports', 'show', id(1)], data.settings)).toMatchObject({
    id: id(1),
    content: tlsJson({ domain: 'mail.tassis.test' }),
  })
})
