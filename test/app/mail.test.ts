/** @module Tests of `tassis mail` and `tassis complaints`. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import type { App } from '#features/core/app/app.ts'
import { applyComplaint } from '#features/receiving/complaints/apply.ts'
import { listOperatorMail, type NewOperatorMail, storeOperatorMail } from '#features/receiving/postmaster/store.ts'
import { finishRecipient } from '#features/sending/queue/attempt-transitions.ts'
import { formatUuid } from '#platform/ids.ts'
import type { FeedbackReport } from '#protocols/arf/report.ts'
import { claimDueTo } from '#test/support/lanes.ts'
import { createDataFolder, runTassis, runTassisJson, type Settings, setUpAccount, startServing } from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const RECEIVED = Date.UTC(2026, 2, 15, 12, 30)
const UNKNOWN = '0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000'

/** Calls `use` with the data of a stopped service. */
async function withApp<T>(settings: Settings, use: (app: App) => Promise<T>): Promise<T> {
  const opened = openApp(loadConfig({ ...settings }).config)
  try {
    return await use(opened.app)
  } finally {
    await opened.close()
  }
}

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
  expect(await run('list')).toEqual({ exitCode: 0, out: 'There is no mail for the operator.', stderr: '' })
  const id = await receive(data.settings, MESSAGE, {
    subject: `Spam${HOSTILE}`,
    from: `${HOSTILE} <bob@receiver.test>`,
  })
  const bounce = await receive(data.settings, 'From: x\r\n\r\nhi', { kind: 'bounce', subject: 'Returned' })

  const list = await run('list')
  const to = 'abuse@mail.tassis.test, postmaster@mail.tassis.test'
  expect(list.out.split('\n').map((line) => line.slice(0, 122).trimEnd())).toEqual([
    `ID                                    RECEIVED              KIND    ${'TO'.padEnd(to.length)}  FROM`.slice(0, 122),
    `${bounce}  2026-03-15 12:30:00Z  bounce  ${to}  B`,
    `${id}  2026-03-15 12:30:00Z  abuse   ${to}`,
  ])
  expect((await run('list', '--kind', 'abuse', '--limit', '1')).out.split('\n')).toHaveLength(2)
  expect((await run('list', '--limit', '1')).out).toEndWith('\n… and 1 more (--limit)')

  const shown = await run('show', id)
  expect(shown.out.split('\n')).toEqual([
    `Received: 2026-03-15 12:30:00Z from 198.51.100.7, ${Buffer.byteLength(MESSAGE)} bytes`,
    'Kind:     abuse',
    'Why here: The message is addressed to the operator.',
    'Envelope: bob@receiver.test to abuse@mail.tassis.test, postmaster@mail.tassis.test',
    'From:      ]0;owned [2J 31m gnp.exe  <bob@receiver.test>',
    'Subject:  Spam ]0;owned [2J 31m gnp.exe ',
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
  expect(listed).toMatchObject({ total: 1, data: [{ id }] })
  const { raw_base64: base64, ...rest } = await runTassisJson<Record<string, unknown>>(
    ['mail', 'show', id, '--raw'],
    data.settings,
  )
  expect(rest).toEqual({ ...head, text: expect.any(String), source: expect.any(String) })
  expect(Buffer.from(String(base64), 'base64').equals(large)).toBe(true)
  const shown = await runTassisJson<{ text: string }>(['mail', 'show', id], data.settings)
  expect([shown.text.length, shown.text.startsWith('First line, für dich.')]).toEqual([128 * 1024, true])
  expect(await runTassisJson(['mail', 'delete', id], data.settings)).toEqual({ deleted: id })
  expect(await runTassisJson(['mail', 'list'], data.settings)).toEqual({ total: 0, data: [], has_more: false })
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
  const noText = { last: '(It has no text to show; --raw shows the whole message.)', stderr: '', exitCode: 0 }
  expect(await show(html)).toEqual(noText)
  expect(await show(broken)).toEqual(noText)
  rmSync(join(data.path, 'raw-mail'), { recursive: true, force: true })
  const gone = 'The message is no longer stored; only its entry in `tassis mail list` is left.'
  expect(await show(html)).toMatchObject({ last: `(${gone})`, exitCode: 0 })
  expect(await show(html, '--raw')).toMatchObject({ last: '', stderr: expect.stringContaining(gone), exitCode: 1 })
})

const REPORT: FeedbackReport = {
  feedbackType: 'abuse',
  userAgent: `ProviderFBL/1.4 ${HOSTILE}`,
  reportingMta: null,
  sourceIp: null,
  originalMailFrom: null,
  originalRcptTo: [],
  originalTo: [],
  originalMessageId: null,
  originalListUnsubscribe: null,
  ownLocalParts: [],
}

// Proves: notify-40
test('complaints are shown by account with their rate over 30 days, newest first', async () => {
  using data = createDataFolder()
  const { accountId } = await setUpAccount(data.settings, { verified: true })
  const run = async (...args: string[]) => (await runTassis(['complaints', ...args], data.settings)).stdout.trimEnd()
  expect(await run()).toBe(
    [
      'The last 30 days, without sandbox mail:',
      'ACCOUNT  DELIVERED  COMPLAINTS  RATE',
      'Acme     0          0           -',
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
    'WHEN ACCOUNT COMPLAINER TYPE LOOP REPORTED BY EMAIL',
    expect.stringMatching(
      new RegExp(
        `^\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\dZ Acme bob@receiver\\.test abuse \\(unproven\\) ProviderFBL/1\\.4 .* ${emailId}$`,
      ),
    ),
  ])
  expect(OBEYED.exec(result)).toBeNull()
  expect(await runTassisJson(['complaints'], data.settings)).toEqual({
    days: 30,
    accounts: [{ account_id: accountId, account: 'Acme', delivered: 4, complaints: 1, rate: 0.25 }],
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
