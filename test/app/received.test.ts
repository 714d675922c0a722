/** @module Tests of `tassis mail`, `reports`, `inbound` and `complaints`: what was received for the operator. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { applyComplaint } from '#features/receiving/complaints/apply.ts'
import { storeDomainReport } from '#features/receiving/domain-reports/store.ts'
import { listOperatorMail, type NewOperatorMail, storeOperatorMail } from '#features/receiving/postmaster/store.ts'
import { finishRecipient } from '#features/sending/queue/attempt-transitions.ts'
import { formatUuid } from '#platform/ids.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'
import type { FeedbackReport } from '#protocols/arf/parse.ts'
import { dmarcXml, tlsJson } from '#test/protocols/aggregate-reports/samples.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { claimDueTo } from '#test/support/lanes.ts'
import {
  createDataFolder,
  runTassis,
  runTassisJson,
  runTassisList,
  type Settings,
  setUpAccount,
  startServing,
  withApp,
} from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const RECEIVED = Date.UTC(2026, 2, 15, 12, 30)
const UNKNOWN = '0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000'

/** Stores a message as if it had been received and returns its id. */
const receive = (
  settings: Settings,
  raw: string | Uint8Array,
  change: Partial<NewOperatorMail> = {},
): Promise<string> =>
  withApp(settings, async (app) => {
    const bytes = Buffer.from(raw)
    const [rawRef = 0] = await app.rawMail.put([bytes], app.clock.now())
    const envelope = {
      mailFrom: 'bob@receiver.test',
      sourceIp: '198.51.100.7',
      helo: 'mx.receiver.test',
      tls: null,
      receivedAt: RECEIVED,
      rawRef,
      sizeBytes: bytes.length,
    }
    await app.commit.write((tx) =>
      storeOperatorMail(app, tx, {
        kind: 'abuse',
        envelope,
        rcptTo: ['abuse@mail.tassis.test', 'postmaster@mail.tassis.test'],
        from: 'Bob <bob@receiver.test>',
        subject: 'Spam',
        reason: 'The message is addressed to the operator.',
        ...change,
      }),
    )
    const [newest] = listOperatorMail(app.db, { limit: 1 }).mail
    return newest ? formatUuid(newest.uuid) : ''
  })

const HOSTILE = '\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\u2028'
const MESSAGE = [
  'From: Bob <bob@receiver.test>',
  `Subject: Spam${HOSTILE}`,
  'Content-Type: text/plain; charset=utf-8',
  '',
  'First line, für dich.',
  `Second ${HOSTILE}line.`,
  '',
].join('\r\n')

// C0 except line ends, DEL, C1, line separators and bidirectional controls.
const OBEYED = /[\0-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/

// Proves: inbound-34
test('operator mail can be listed, shown and deleted, without control characters on the terminal', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const run = async (...args: string[]) => {
    const { exitCode, stdout, stderr } = await runTassis(['mail', ...args], data.settings)
    return { exitCode, out: stdout.trimEnd(), stderr }
  }
  expect(await run('list')).toEqual({ exitCode: 0, out: 'There is none.', stderr: '' })
  const id = await receive(data.settings, MESSAGE, {
    subject: `Spam${HOSTILE}`,
    from: `${HOSTILE} <bob@receiver.test>`,
  })
  const bounce = await receive(data.settings, 'From: x\r\n\r\nhi', { kind: 'bounce', subject: 'Returned' })

  const list = await run('list')
  const to = 'abuse@mail.tassis.test, postmaster@mail.tassis.test'
  expect(list.out.split('\n').map((line) => line.slice(0, 119).trimEnd())).toEqual([
    'ID                                    RECEIVED AT           KIND    RCPT TO',
    `${bounce}  2026-03-15 12:30:00Z  bounce  ${to}`,
    `${id}  2026-03-15 12:30:00Z  abuse   ${to}`,
  ])
  expect((await run('list', '--kind', 'abuse', '--limit', '1')).out.split('\n')).toHaveLength(2)
  expect((await run('list', '--limit', '1')).out).toEndWith('\n… and more (--limit)')

  const shown = await run('show', id)
  expect(shown.out.split('\n')).toEqual([
    `ID:          ${id}`,
    'Kind:        abuse',
    'Reason:      The message is addressed to the operator.',
    'Mail from:   bob@receiver.test',
    'Rcpt to:     abuse@mail.tassis.test, postmaster@mail.tassis.test',
    'From:         ]0;owned [2J 31m gnp.exe  <bob@receiver.test>',
    'Subject:     Spam ]0;owned [2J 31m gnp.exe ',
    'Source IP:   198.51.100.7',
    `Size:        ${Buffer.byteLength(MESSAGE)} B`,
    'Received at: 2026-03-15 12:30:00Z',
    '',
    'First line, für dich.',
    expect.stringMatching(/^Second .*line\.$/),
  ])
  const raw = await run('show', id, '--raw')
  expect(raw.out).toStartWith('From: Bob <bob@receiver.test>\nSubject: Spam ]0;owned [2J 31m gnp.exe \n')
  for (const { out, exitCode, stderr } of [list, shown, raw])
    expect({ exitCode, stderr, obeyed: OBEYED.exec(out)?.[0] }).toEqual({ exitCode: 0, stderr: '', obeyed: undefined })

  expect(await run('delete', id)).toEqual({ exitCode: 0, out: 'Deleted.', stderr: '' })
  for (const args of [
    ['delete', id],
    ['show', id],
    ['show', UNKNOWN, '--raw'],
    ['show', 'nonsense'],
  ])
    expect(await run(...args)).toEqual({
      exitCode: 1,
      out: '',
      stderr: 'tassis: Message not found; `tassis mail list` lists all messages.\n',
    })
  expect((await run('list', '--kind', 'nothing')).exitCode).toBe(2)
  expect((await run('list')).out).toContain(bounce)
})

test('--json returns the exact bytes of a message of any size from a running service', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const large = Buffer.concat([
    Buffer.from(MESSAGE),
    Buffer.alloc(20 * 1024 * 1024, 'line\r\n'),
    Buffer.from([0, 0xff]),
  ])
  const id = await receive(data.settings, large, { from: null, rcptTo: ['abuse@mail.tassis.test'] })
  await using _service = await startServing(data.settings)
  const head = {
    id,
    kind: 'abuse',
    reason: 'The message is addressed to the operator.',
    mail_from: 'bob@receiver.test',
    rcpt_to: ['abuse@mail.tassis.test'],
    from: null,
    subject: 'Spam',
    source_ip: '198.51.100.7',
    size_bytes: large.length,
    received_at: '2026-03-15T12:30:00.000Z',
  }
  const listed = await runTassisJson(['mail', 'list'], data.settings)
  expect(listed).toMatchObject({ pagination: { total: 1 }, data: [{ id }] })
  const shown = await runTassisJson<{ text: string }>(['mail', 'show', id], data.settings)
  expect(shown).toEqual({ ...head, text: expect.any(String), source: expect.any(String) } as never)
  expect([shown.text.length, shown.text.startsWith('First line, für dich.')]).toEqual([128 * 1024, true])
  expect(await runTassisJson(['mail', 'delete', id], data.settings)).toEqual({ id })
  expect(await runTassisJson(['mail', 'list'], data.settings)).toMatchObject({ pagination: { total: 0 }, data: [] })
})

test('show prints what is available of a message without text, an unparseable one and a deleted one', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const show = async (id: string, ...more: string[]) => {
    const { stdout, stderr, exitCode } = await runTassis(['mail', 'show', id, ...more], data.settings)
    return { last: stdout.trimEnd().split('\n').at(-1), stderr, exitCode }
  }
  const html = await receive(data.settings, 'Content-Type: text/html\r\n\r\n<script>alert(1)</script>')
  const broken = await receive(data.settings, `X: ${'a'.repeat(2_000_000)}`)
  const noText = { last: 'It has no text to show; --raw shows the whole message.', stderr: '', exitCode: 0 }
  expect(await show(html)).toEqual(noText)
  expect(await show(broken)).toEqual(noText)
  rmSync(join(data.path, 'raw-mail'), { recursive: true, force: true })
  const gone = 'The message is no longer stored; only its entry in `tassis mail list` is left.'
  expect(await show(html)).toMatchObject({ last: gone, exitCode: 0 })
  expect(await show(html, '--raw')).toMatchObject({ last: '', stderr: expect.stringContaining(gone), exitCode: 1 })
})

const REPORT: FeedbackReport = {
  feedbackType: 'abuse',
  userAgent: `ProviderFBL/1.4 ${HOSTILE}`,
  reportingMta: null,
  originalRcptTo: [],
  originalMessageId: null,
  originalListUnsubscribe: null,
  ownLocalParts: [],
}

// Proves: notify-40, operator-62
test('complaints are shown by account with their rate over 30 days, newest first', async () => {
  using data = createDataFolder()
  const { accountId } = await setUpAccount(data.settings, { verified: true })
  const run = async (...args: string[]) => (await runTassis(['complaints', ...args], data.settings)).stdout.trimEnd()
  expect(await run()).toBe(
    [
      'The last 30 days, without sandbox mail:',
      'ACCOUNT  DELIVERED  COMPLAINTS  RATE',
      'Acme     0          0',
      '',
      'No complaints.',
    ].join('\n'),
  )
  for (const to of ['bob@receiver.test', 'carl@receiver.test', 'dora@receiver.test', 'erin@receiver.test'])
    await runTassis(['send', '--from', 'ada@sender.test', '--to', to, '--no-follow'], data.settings)
  const emailId = await withApp(data.settings, (app) =>
    app.commit.write((tx) => {
      const now = app.eventTime()
      const due = { now: app.clock.now(), eventTime: now, limit: 10, retryAt: () => now }
      for (const claimed of claimDueTo(tx, 'receiver.test', due))
        finishRecipient(tx, { ...claimed, now }, { status: 'sent', deliveryStartedAt: now })
      applyComplaint(app, tx, REPORT, { recipientId: 1, rawRef: 1, now })
      const row = tx.db.query<{ uuid: Uint8Array }, []>('SELECT uuid FROM emails WHERE id = 1').get()
      return row ? formatUuid(row.uuid) : ''
    }),
  )
  const result = await run('--account', 'acme')
  expect(result.split('\n').map((line) => line.replace(/ +/g, ' '))).toEqual([
    'The last 30 days, without sandbox mail:',
    'ACCOUNT DELIVERED COMPLAINTS RATE',
    'Acme 4 1 25.000 %',
    '',
    'CREATED AT ACCOUNT COMPLAINER FEEDBACK TYPE FEEDBACK LOOP REPORTER EMAIL ID',
    expect.stringMatching(
      new RegExp(
        `^\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\dZ Acme bob@receiver\\.test abuse ProviderFBL/1\\.4 .* ${emailId}$`,
      ),
    ),
  ])
  expect(OBEYED.exec(result)).toBeNull()
  expect(await runTassisJson(['complaints'], data.settings)).toMatchObject({
    rates: [{ account_id: accountId, account: 'Acme', delivered: 4, complaints: 1, rate: 0.25 }],
    data: [
      {
        id: '1',
        account_id: accountId,
        account: 'Acme',
        email_id: emailId,
        complainer: 'bob@receiver.test',
        feedback_type: 'abuse',
        feedback_loop: null,
        reporter: REPORT.userAgent,
        created_at: expect.stringMatching(/Z$/),
      },
    ],
    has_more: false,
  })
})

// Proves: inbound-26
test('retry processes a message again, or when the service starts if none is running', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const id = await receive(data.settings, 'From: bob@receiver.test\r\n\r\nHello.\r\n')
  expect(await runTassis(['mail', 'retry', id], data.settings)).toEqual({
    exitCode: 0,
    stdout: 'The message is being processed again; if it cannot be parsed, it returns to `tassis mail list`.\n',
    stderr: '',
  })
  const [waiting, entries] = await withApp(data.settings, async ({ db }) => [
    db.query('SELECT mail_from FROM inbound_receipts').all(),
    db.query("SELECT actor_id, resource_id FROM audit_logs WHERE action = 'operator_mail.retried'").all(),
  ])
  expect(waiting).toEqual([{ mail_from: 'bob@receiver.test' }])
  expect(entries).toEqual([{ actor_id: 'cli', resource_id: id }])
  expect(await runTassis(['mail', 'retry', id], data.settings)).toMatchObject({ exitCode: 1, stdout: '' })
})

const BEGIN = Date.UTC(2025, 10, 20)
const REPORTED = Date.UTC(2025, 10, 21, 6, 7, 8)
const END = Date.UTC(2025, 10, 20, 23, 59, 59)

/** Stores reports as if they had been received. */
const storeReports = (settings: Settings): Promise<void> =>
  withApp(settings, async (app) => {
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
      REPORTED,
    )
    await app.commit.write((tx) => {
      for (const [index, report] of reports.entries())
        storeDomainReport(app, tx, { ...report, contentRef: refs[index] ?? 0 }, REPORTED + index)
    })
  })

// Proves: inbound-33
test('reports can be listed and shown, without control characters', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings, { verified: true })
  const run = async (...args: string[]) => {
    const { exitCode, stdout, stderr } = await runTassis(['reports', ...args], data.settings)
    return { exitCode, out: stdout.trimEnd(), stderr }
  }
  const none = await run('list')
  expect([none.exitCode, none.stderr]).toEqual([0, ''])
  expect(none.out).toStartWith('No reports yet. The first come a day or two after mail')
  await storeReports(data.settings)
  const found = await runTassisList<{ id: string }>(['reports', 'list'], data.settings)
  const [tls, dmarc] = found.map(({ id }) => id)
  expect(found[1]).toEqual({
    id: dmarc,
    kind: 'dmarc',
    account: 'Acme',
    domain: 'sender.test',
    organisation: 'receiver\u001b[2J.example',
    reporter: null,
    report_id: 'r\u202e1',
    period_start: '2025-11-20T00:00:00.000Z',
    period_end: '2025-11-20T23:59:59.000Z',
    size_bytes: Buffer.byteLength(dmarcXml({ domain: 'sender.test' })) + 16,
    received_at: '2025-11-21T06:07:08.000Z',
    counted: null,
    uncounted: 'The message that brought it fails DMARC or is not authenticated, so anybody may have written it.',
  } as never)
  expect((await run('list')).out.split('\n').map((line) => line.replace(/ {2,}/g, '|'))).toEqual([
    'ID|RECEIVED AT|KIND|DOMAIN|ORGANISATION|PERIOD START|PERIOD END|ACCOUNT|COUNTED',
    `${tls}|2025-11-21 06:07:08Z|tls|mail.tassis.test|Receiver Inc.|2025-11-20 00:00:00Z|2025-11-21 23:59:59Z`,
    `${dmarc}|2025-11-21 06:07:08Z|dmarc|sender.test|receiver [2J.example|2025-11-20 00:00:00Z|2025-11-20 23:59:59Z|Acme`,
  ])
  expect((await run('list', '--limit', '1', '--domain', 'Mail.Tassis.Test')).out).toMatch(
    /^ID .*\n\S+ .* mail\.tassis\.test [^\n]*$/,
  )
  expect((await run('list', '--limit', '1')).out).toMatch(/\n… and more \(--limit\)$/)
  const shown = await run('show', dmarc ?? '')
  expect(shown.out).toMatch(/^Organisation: receiver \[2J\.example$/m)
  expect(shown.out).toEndWith(`\n\n${dmarcXml({ domain: 'sender.test' })}\t<!--  [31m -->`)
  expect(await runTassisJson(['reports', 'show', tls ?? ''], data.settings)).toMatchObject({
    id: tls,
    content: tlsJson({ domain: 'mail.tassis.test' }),
  })
})

// Proves: inbound-25
test('unparsed mail is listed and can be parsed again; mail that still cannot be parsed stays listed', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const problem = 'The parser crashed on it.\u001b[2J'
  const [good, bad] = await withApp(data.settings, async (app) => {
    const domain = app.db
      .query<{ accountId: number; domainId: number }, []>('SELECT account_id AS accountId, id AS domainId FROM domains')
      .get() ?? { accountId: 0, domainId: 0 }
    const store = (raw: string) => storeTestInbound(app, domain, { raw, problem })
    return [
      await store('From: a@b.test\r\nSubject: Hello\r\n\r\nHello.\r\n'),
      await store(`Content-Type: multipart/mixed; boundary=x\r\n\r\n${'\r'.repeat(2000)}`),
    ] as const
  })
  const listed = async () => {
    const messages = await runTassisList<{ id: string; kind: string }>(['inbound', 'list'], data.settings)
    return messages.map(({ id, kind }) => [id, kind])
  }
  expect(await listed()).toEqual([
    [good, 'inbound'],
    [bad, 'inbound'],
  ])
  expect((await runTassis(['inbound', 'list'], data.settings)).stdout).not.toContain('\u001b')
  expect(await runTassis(['inbound', 'retry'], data.settings)).toEqual({
    exitCode: 2,
    stdout: '',
    stderr: 'tassis: Give the ID of a message, or --all.\n',
  })
  expect(await runTassis(['inbound', 'retry', good], data.settings)).toEqual({
    exitCode: 0,
    stdout: '1 message parsed.\n',
    stderr: '',
  })
  expect(await runTassis(['inbound', 'retry', '--all'], data.settings)).toEqual({
    exitCode: 1,
    stdout: `0 messages parsed.\n${bad} still cannot be parsed: The message has more than 1,000 carriage returns in a row.\n`,
    stderr: '',
  })
  expect(await listed()).toEqual([[bad, 'inbound']])
  const entries = await withApp(data.settings, ({ db }) =>
    db
      .query("SELECT actor_id, resource_id FROM audit_logs WHERE action = 'operator.message_retried' ORDER BY id")
      .all(),
  )
  expect(entries).toEqual([
    { actor_id: 'cli', resource_id: good },
    { actor_id: 'cli', resource_id: bad },
  ])
})
