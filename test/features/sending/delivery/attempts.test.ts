/** @module The attempts of an email over the API, from real sessions with a receiving server. */
import { describe, expect, test } from 'bun:test'
import type { Attempt } from '#features/sending/delivery/control/attempt-routes.ts'
import { deleteEmail, findOldEmail } from '#features/sending/queue/retire.ts'
import { minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import type { EmailApi } from '#test/support/email-api.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { RETRY_MS, startSending } from './flows.ts'

const attemptsOf = async ({ api }: EmailApi, id: string): Promise<Attempt[]> =>
  at((await api('GET', `/v1/emails/${id}/attempts`)).body, 'data') as Attempt[]

/** Sends an email and returns its id once it has an attempt. */
async function sendOnce(emails: EmailApi, request: Record<string, unknown> = {}): Promise<string> {
  const { id } = await emails.accepted({ to: 'bob@receiver.test', ...request })
  await eventually(async () => (await attemptsOf(emails, id)).length > 0)
  return id
}

/** The attempts of an email that was just sent, once there is one. */
const firstAttempts = async (emails: EmailApi, request?: Record<string, unknown>): Promise<Attempt[]> =>
  attemptsOf(emails, await sendOnce(emails, request))

/** Makes the next attempt due, and waits until it is the newest. */
async function retry(emails: EmailApi, id: string, number: number): Promise<void> {
  emails.clock.advance(RETRY_MS)
  await eventually(async () => (await attemptsOf(emails, id))[0]?.attempt === number)
}

const linesOf = ({ dialogue }: Attempt, from: 'client' | 'server' | 'note'): string[] =>
  (dialogue ?? []).filter((line) => line.from === from).map(({ text }) => text)

// Proves: email-36
describe('an attempt shows server, session, timings, dialogue and who must act', () => {
  test('greylisting: nobody', async () => {
    const reply = '450 4.2.0 Greylisted, try again in 90 seconds'
    await using sending = await startSending({ rcpt: reply })
    const [attempt] = await firstAttempts(sending)
    expect(attempt).toMatchObject({
      recipient: 'bob@receiver.test',
      attempt: 1,
      outcome: 'deferred',
      source: '127.0.0.1',
      host: 'receiver.test',
      address: '127.0.0.1',
      tls: 'none: not offered',
      smtp_response: reply,
      who_must_act: 'nobody',
    })
    const waitMs = Date.parse(attempt?.next_attempt_at ?? '') - sending.clock.now()
    expect(waitMs).toBeGreaterThan(0)
    expect(waitMs).toBeLessThanOrEqual(RETRY_MS)
    expect(Object.keys(attempt?.timings ?? {})).toEqual(['connect', 'greeting', 'ehlo', 'mail', 'rcpt'])
    const client = linesOf(attempt as Attempt, 'client')
    expect(client[0]).toBe('EHLO mail.tassis.test')
    expect(client.slice(-2)).toEqual(['RCPT TO:<bob@receiver.test>', 'DATA'])
    expect(linesOf(attempt as Attempt, 'server')).toContain(reply)
    expect(linesOf(attempt as Attempt, 'note')).toEqual(['connecting to receiver.test [127.0.0.1]'])
  })

  test('an unknown user: the sender', async () => {
    await using sending = await startSending({ rcpt: '550 5.1.1 No such user here' })
    expect(await firstAttempts(sending)).toMatchObject([
      { outcome: 'bounced', category: 'invalid_recipient', who_must_act: 'sender', next_attempt_at: null },
    ])
  })

  test('a server that cannot be reached: nobody while it is retried', async () => {
    await using sending = await startSending({}, { TASSIS_SMTP_PORT: '9' })
    const [attempt] = await firstAttempts(sending)
    expect(attempt).toMatchObject({
      outcome: 'deferred',
      source: null,
      host: 'receiver.test',
      address: '127.0.0.1',
      category: 'connection_failure',
      who_must_act: 'nobody',
    })
    expect(Object.keys(attempt?.timings ?? {})).toEqual(['connect'])
    expect(linesOf(attempt as Attempt, 'note')).toHaveLength(2)
  })

  test('a connection that breaks after the message began: uncertain, the sender', async () => {
    await using sending = await startSending({ body: { drop: 'reset' } })
    const [attempt] = await firstAttempts(sending)
    expect(attempt).toMatchObject({ outcome: 'uncertain', who_must_act: 'sender' })
    expect(linesOf(attempt as Attempt, 'client').at(-1)).toMatch(/^\[message of \d+ bytes\]$/)
    expect(linesOf(attempt as Attempt, 'note')).toHaveLength(2)
  })

  test('a failed handshake is followed by a session in clear, and both are in the dialogue', async () => {
    await using sending = await startSending({
      extensions: ['STARTTLS'],
      handshake: 'garbage',
      rcpt: '450 4.2.0 Later',
    })
    const [attempt] = await firstAttempts(sending)
    expect(linesOf(attempt as Attempt, 'client')).toContain('STARTTLS')
    expect(linesOf(attempt as Attempt, 'note')).toEqual([
      'connecting to receiver.test [127.0.0.1]',
      expect.stringMatching(/^the TLS handshake failed: /),
      'connecting to receiver.test [127.0.0.1]',
    ])
    expect(attempt?.tls).toStartWith('none: handshake failed: ')
  })
})

// Proves: email-39
test.each([
  ['direct', 'bounced', 'sender', /the mailbox accepts no mail any more/, false],
  ['capture', 'captured', 'operator', /captured, not sent/, true],
] as const)('with delivery mode %s, the email and its row are %s, and the detail says why', async (...expected) => {
  const [delivery, state, who, why, isCaptured] = expected
  await using sending = await startSending({ rcpt: '550 5.2.1 Mailbox disabled' }, { TASSIS_DELIVERY: delivery })
  const id = await sendOnce(sending)
  const { body } = await sending.api('GET', `/v1/emails/${id}`)
  const sentence = expect.stringMatching(why)
  expect(at(body, 'data')).toMatchObject({
    state,
    sentence,
    explanations: [{ address: 'bob@receiver.test', state, sentence, who_must_act: who, next_at: null }],
  })
  const payloads = (at(body, 'data', 'events') as { readonly raw_payload: Record<string, unknown> | null }[]).map(
    (event) => event.raw_payload?.['captured'] === true,
  )
  expect(payloads.includes(true)).toBe(isCaptured)
  expect(at((await sending.api('GET', '/v1/emails')).body, 'data')).toMatchObject([{ id, state }])
})

test('an accepted message has its session, timings and, for a while, its dialogue', async () => {
  // The time that a session stays open without mail is real, and only has to be longer than the second send takes.
  const settings = siteLimits({ idle_seconds: 300 })
  await using sending = await startSending({ extensions: ['STARTTLS', 'PIPELINING'] }, settings)
  const first = await sendOnce(sending)
  const second = await sendOnce(sending)
  const [opened] = await attemptsOf(sending, first)
  expect(opened).toMatchObject({
    outcome: 'delivered',
    attempt: 1,
    tls: expect.stringMatching(/^TLSv1\.[23] /),
    who_must_act: 'nobody',
    next_attempt_at: null,
  })
  const phases = ['connect', 'greeting', 'ehlo', 'tls', 'mail', 'rcpt', 'data', 'begin', 'body']
  expect(Object.keys(opened?.timings ?? {})).toEqual(phases)
  expect(linesOf(opened as Attempt, 'server').at(-1)).toBe('250 2.0.0 Queued as 1')
  // The second message came over the same session.
  const [reused] = await attemptsOf(sending, second)
  expect(sending.server.sessions).toHaveLength(1)
  expect(Object.keys(reused?.timings ?? {})).toEqual(['mail', 'rcpt', 'data', 'begin', 'body'])
  expect(linesOf(reused as Attempt, 'note')).toEqual(['reusing the session with receiver.test [127.0.0.1]'])
  expect(linesOf(reused as Attempt, 'client')[0]).toStartWith('MAIL FROM:')
  // Only in memory, for an hour.
  sending.clock.advance(minutes(61))
  expect((await attemptsOf(sending, first))[0]?.dialogue).toBeNull()
})

test('the dialogue has neither the password of a smarthost nor the message', async () => {
  await using server = await startScriptedSmtp({
    extensions: ['STARTTLS', 'AUTH PLAIN'],
    body: '450 4.2.0 Later',
  })
  await using sending = await startSending(
    {},
    {
      TASSIS_DELIVERY: 'relay',
      TASSIS_RELAY_TLS: 'opportunistic',
      TASSIS_RELAY_URL: `smtp://relayuser:relaypassword@127.0.0.1:${server.port}`,
    },
  )
  const [attempt] = await firstAttempts(sending, { text_body: 'secret-body' })
  expect(linesOf(attempt as Attempt, 'client')).toContain('AUTH PLAIN [credentials]')
  const credentials = Buffer.from('\0relayuser\0relaypassword').toString('base64')
  expect(server.session.commands).toContain(`AUTH PLAIN ${credentials}`)
  for (const secret of ['secret-body', 'relaypassword', credentials])
    expect(JSON.stringify(attempt)).not.toContain(secret)
})

describe('what a server sends is bounded', () => {
  test('a reply of 100 kB ends the session, and is not in the dialogue', async () => {
    await using sending = await startSending({ rcpt: `450 ${'x'.repeat(100_000)}` })
    const [attempt] = await firstAttempts(sending)
    expect(attempt?.outcome).toBe('deferred')
    expect(linesOf(attempt as Attempt, 'note').at(-1)).toContain('a reply of more than 65536 bytes')
    expect(JSON.stringify(attempt).length).toBeLessThan(8192)
  })

  test('of long and of many lines, the beginning and the end are stored', async () => {
    const many = Array.from({ length: 3000 }, (_, n) => `450-4.2.0 line ${n}`)
    await using sending = await startSending({
      greeting: `220 mx.example.test ${'y'.repeat(60_000)}`,
      rcpt: [...many, '450 4.2.0 the last line'].join('\r\n'),
    })
    const [attempt] = await firstAttempts(sending)
    const lines = attempt?.dialogue?.map(({ text }) => text) ?? []
    expect(Buffer.byteLength(JSON.stringify(attempt?.dialogue))).toBeLessThan(64 * 1024)
    expect(lines[1]).toMatch(/^220 mx\.example\.test y{900,} \[59\d{3} more characters\]$/)
    expect(lines).toContain('450 4.2.0 the last line')
    expect(lines.find((line) => line.endsWith('lines omitted here'))).toMatch(/^\d{4} lines omitted here$/)
    const stored = sending.app.db
      .query<{ n: number }, []>('SELECT length(CAST(dialogue AS BLOB)) AS n FROM attempts')
      .get()
    expect(stored?.n).toBeLessThanOrEqual(16 * 1024 + 100)
  })

  test('a recipient keeps ten attempts, the newest three with their dialogue', async () => {
    await using sending = await startSending({ rcpt: '450 4.2.0 Later' })
    const id = await sendOnce(sending)
    for (let n = 2; n <= 12; n++) await retry(sending, id, n)
    const found = await attemptsOf(sending, id)
    expect(found.map(({ attempt }) => attempt)).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3])
    expect(found.slice(0, 4).map(({ dialogue }) => dialogue !== null)).toEqual([true, true, true, false])
  })
})

test('a recipient whose dead letter is retried again and again keeps ten attempts, too', async () => {
  await using sending = await startSending({ body: { drop: 'end' } })
  const id = await sendOnce(sending)
  for (let retries = 1; retries <= 11; retries++) {
    const [letter] = at((await sending.api('GET', '/v1/dead-letters')).body, 'data') as { id: string }[]
    await sending.api('POST', `/v1/dead-letters/${letter?.id}/retry`)
    await eventually(() => sending.server.sessions.length > retries)
    await eventually(async () => {
      const [next] = at((await sending.api('GET', '/v1/dead-letters')).body, 'data') as { id: string }[]
      return next !== undefined && next.id !== letter?.id
    })
  }
  const found = await attemptsOf(sending, id)
  expect(found.map(({ attempt }) => attempt)).toEqual(Array(10).fill(1))
  expect(found.filter(({ dialogue }) => dialogue !== null)).toHaveLength(3)
})

test('pages show the newest attempts first, with the total of all', async () => {
  await using sending = await startSending({ rcpt: '450 4.2.0 Later' })
  const id = await sendOnce(sending)
  for (const n of [2, 3]) await retry(sending, id, n)
  const page = await sending.api('GET', `/v1/emails/${id}/attempts?per_page=2`)
  expect(at(page.body, 'pagination')).toMatchObject({ page: 1, per_page: 2, total: 3, total_pages: 2 })
  const next = await sending.api('GET', `/v1/emails/${id}/attempts?per_page=2&page=2`)
  expect((at(next.body, 'data') as Attempt[]).map(({ attempt }) => attempt)).toEqual([1])
})

test('the attempts of an erased person are deleted, and those of a removed email', async () => {
  await using sending = await startSending({ rcpt: '450 4.2.0 <bob@receiver.test>: Later' })
  const { app } = sending
  const id = await sendOnce(sending)
  const other = await sendOnce(sending, { to: 'carol@receiver.test' })
  await sending.api('DELETE', '/v1/gdpr/erase?email=bob@receiver.test')
  const stored = () => app.db.query<{ dialogue: string }, []>('SELECT dialogue FROM attempts').all()
  await eventually(() => stored().length === 1)
  expect(stored()[0]?.dialogue).toContain('RCPT TO:<carol@receiver.test>')
  expect(await attemptsOf(sending, id)).toEqual([])
  expect(await attemptsOf(sending, other)).toHaveLength(1)
  const email = findOldEmail(app.db, 2)
  if (!email) throw new Error('there is no email')
  await app.commit.write((tx) => deleteEmail(app, tx, email))
  expect(stored()).toEqual([])
})

test('hostile text of a server is data: no control characters, nothing else is changed', async () => {
  const hostile = '<script>alert(1)</script> \u001b[2J\u0007 "quoted" \u0000 end'
  await using sending = await startSending({ rcpt: `450 4.2.0 ${hostile}` })
  const [attempt] = await firstAttempts(sending)
  expect(attempt?.dialogue?.map(({ text }) => text).join('')).not.toMatch(/[\u0000-\u001f]/)
  expect(attempt?.smtp_response).toContain('<script>alert(1)</script>')
  expect(linesOf(attempt as Attempt, 'server').join()).toContain('"quoted"')
})
