/** @module The attempts of an email over the API, from real sessions with a receiving server. */
import { describe, expect, test } from 'bun:test'
import type { Attempt } from '#features/sending/delivery/control/attempt-routes.ts'
import { deleteEmail, findOldEmail } from '#features/sending/queue/retire.ts'
import { minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { type ScriptedSmtp, type SmtpScript, startScriptedSmtp } from '#test/support/scripted-smtp.ts'

interface Sending extends EmailApi {
  readonly server: ScriptedSmtp
  /** Sends an email and returns its id once it has this many attempts. */
  sent(count?: number, request?: Record<string, unknown>): Promise<string>
  attempts(id: string): Promise<Attempt[]>
  /** Makes the next attempt due; returns all attempts once it has ended. */
  retried(id: string): Promise<Attempt[]>
}

async function startSending(
  script: SmtpScript,
  settings: Readonly<Record<string, string>> = siteLimits({ idle_seconds: 0 }),
): Promise<Sending> {
  const server = await startScriptedSmtp(script)
  const dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  const emails = await createEmailApi({
    delivers: true,
    runsTasks: true,
    settings: { TASSIS_DNS_SERVERS: dns.address, TASSIS_SMTP_PORT: String(server.port), ...settings },
  })
  const attempts: Sending['attempts'] = async (id) =>
    at((await emails.api('GET', `/v1/emails/${id}/attempts`)).body, 'data') as Attempt[]
  const untilCount = (id: string, count: number) =>
    eventually(async () => {
      const found = await attempts(id)
      return found.length >= count ? found : undefined
    })
  return {
    ...emails,
    server,
    attempts,
    async sent(count = 1, request = {}) {
      const { id } = await emails.accepted({ to: 'bob@receiver.test', ...request })
      await untilCount(id, count)
      return id
    },
    async retried(id) {
      const { length } = await attempts(id)
      emails.clock.advance(minutes(9 * 60))
      return untilCount(id, length + 1)
    },
    async [Symbol.asyncDispose]() {
      await emails[Symbol.asyncDispose]()
      await dns.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

const linesOf = ({ dialogue }: Attempt, from: 'client' | 'server' | 'note'): string[] =>
  (dialogue ?? []).filter((line) => line.from === from).map(({ text }) => text)

// Proves: email-36
describe('an attempt shows server, session, timings, dialogue and who must act', () => {
  test('greylisting: nobody', async () => {
    await using sending = await startSending({ rcpt: '450 4.2.0 Greylisted, try again' })
    const [attempt] = await sending.attempts(await sending.sent())
    expect(attempt).toMatchObject({
      recipient: 'bob@receiver.test',
      attempt: 1,
      outcome: 'deferred',
      source: '127.0.0.1',
      host: 'receiver.test',
      address: '127.0.0.1',
      tls: 'none: not offered',
      smtp_response: '450 4.2.0 Greylisted, try again',
      who_must_act: 'nobody',
      next_attempt_at: expect.any(String),
    })
    expect(Object.keys(attempt?.timings ?? {})).toEqual(['connect', 'greeting', 'ehlo', 'mail', 'rcpt'])
    const client = linesOf(attempt as Attempt, 'client')
    expect(client[0]).toBe('EHLO mail.tassis.test')
    expect(client.slice(-2)).toEqual(['RCPT TO:<bob@receiver.test>', 'DATA'])
    expect(linesOf(attempt as Attempt, 'server')).toContain('450 4.2.0 Greylisted, try again')
    expect(linesOf(attempt as Attempt, 'note')).toEqual(['connecting to receiver.test [127.0.0.1]'])
  })

  test('an unknown user: the sender', async () => {
    await using sending = await startSending({ rcpt: '550 5.1.1 No such user here' })
    expect(await sending.attempts(await sending.sent())).toMatchObject([
      { outcome: 'bounced', category: 'invalid_recipient', who_must_act: 'sender', next_attempt_at: null },
    ])
  })

  test('a server that cannot be reached: nobody while it is retried', async () => {
    await using sending = await startSending({}, { TASSIS_SMTP_PORT: '9' })
    const [attempt] = await sending.attempts(await sending.sent())
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
    const [attempt] = await sending.attempts(await sending.sent())
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
    const [attempt] = await sending.attempts(await sending.sent())
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
  const id = await sending.sent()
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
  const first = await sending.sent()
  const second = await sending.sent()
  const [opened] = await sending.attempts(first)
  expect(opened).toMatchObject({
    outcome: 'delivered',
    attempt: 1,
    tls: expect.stringMatching(/^TLSv1\.[23] /),
    who_must_act: 'nobody',
    next_attempt_at: null,
  })
  expect(Object.keys(opened?.timings ?? {})).toEqual([
    'connect',
    'greeting',
    'ehlo',
    'tls',
    'mail',
    'rcpt',
    'data',
    'begin',
    'body',
  ])
  expect(linesOf(opened as Attempt, 'server').at(-1)).toBe('250 2.0.0 Queued as 1')
  // The second message came over the same session.
  const [reused] = await sending.attempts(second)
  expect(sending.server.sessions).toHaveLength(1)
  expect(Object.keys(reused?.timings ?? {})).toEqual(['mail', 'rcpt', 'data', 'begin', 'body'])
  expect(linesOf(reused as Attempt, 'note')).toEqual(['reusing the session with receiver.test [127.0.0.1]'])
  expect(linesOf(reused as Attempt, 'client')[0]).toStartWith('MAIL FROM:')
  // Only in memory, for an hour.
  sending.clock.advance(minutes(61))
  expect((await sending.attempts(first))[0]?.dialogue).toBeNull()
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
  const [attempt] = await sending.attempts(await sending.sent(1, { text_body: 'secret-body' }))
  expect(linesOf(attempt as Attempt, 'client')).toContain('AUTH PLAIN [credentials]')
  const credentials = Buffer.from('\0relayuser\0relaypassword').toString('base64')
  expect(server.session.commands).toContain(`AUTH PLAIN ${credentials}`)
  for (const secret of ['secret-body', 'relaypassword', credentials])
    expect(JSON.stringify(attempt)).not.toContain(secret)
})

describe('what a server sends is bounded', () => {
  test('a reply of 100 kB ends the session, and is not in the dialogue', async () => {
    await using sending = await startSending({ rcpt: `450 ${'x'.repeat(100_000)}` })
    const [attempt] = await sending.attempts(await sending.sent())
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
    const [attempt] = await sending.attempts(await sending.sent())
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
    const id = await sending.sent()
    const lastOf = (found: readonly Attempt[]) => found[0]?.attempt
    for (let n = 2; n <= 12; n++) {
      sending.clock.advance(minutes(9 * 60))
      await eventually(async () => lastOf(await sending.attempts(id)) === n)
    }
    const found = await sending.attempts(id)
    expect(found.map(({ attempt }) => attempt)).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3])
    expect(found.slice(0, 4).map(({ dialogue }) => dialogue !== null)).toEqual([true, true, true, false])
  })
})

test('a recipient whose dead letter is retried again and again keeps ten attempts, too', async () => {
  await using sending = await startSending({ body: { drop: 'end' } })
  const id = await sending.sent()
  for (let retries = 1; retries <= 11; retries++) {
    const [letter] = at((await sending.api('GET', '/v1/dead-letters')).body, 'data') as { id: string }[]
    await sending.api('POST', `/v1/dead-letters/${letter?.id}/retry`)
    await eventually(() => sending.server.sessions.length > retries)
    await eventually(async () => {
      const [next] = at((await sending.api('GET', '/v1/dead-letters')).body, 'data') as { id: string }[]
      return next !== undefined && next.id !== letter?.id
    })
  }
  const found = await sending.attempts(id)
  expect(found.map(({ attempt }) => attempt)).toEqual(Array(10).fill(1))
  expect(found.filter(({ dialogue }) => dialogue !== null)).toHaveLength(3)
})

test('pages show the newest attempts first, with the total of all', async () => {
  await using sending = await startSending({ rcpt: '450 4.2.0 Later' })
  const id = await sending.sent()
  await sending.retried(id)
  await sending.retried(id)
  const page = await sending.api('GET', `/v1/emails/${id}/attempts?per_page=2`)
  expect(at(page.body, 'pagination')).toMatchObject({ page: 1, per_page: 2, total: 3, total_pages: 2 })
  const next = await sending.api('GET', `/v1/emails/${id}/attempts?per_page=2&page=2`)
  expect((at(next.body, 'data') as Attempt[]).map(({ attempt }) => attempt)).toEqual([1])
})

test('the attempts of an erased person are deleted, and those of a removed email', async () => {
  await using sending = await startSending({ rcpt: '450 4.2.0 <bob@receiver.test>: Later' })
  const { app } = sending
  const id = await sending.sent()
  const other = await sending.sent(1, { to: 'carol@receiver.test' })
  await sending.api('DELETE', '/v1/gdpr/erase?email=bob@receiver.test')
  const stored = () => app.db.query<{ dialogue: string }, []>('SELECT dialogue FROM attempts').all()
  await eventually(() => stored().length === 1)
  expect(stored()[0]?.dialogue).toContain('RCPT TO:<carol@receiver.test>')
  expect(await sending.attempts(id)).toEqual([])
  expect(await sending.attempts(other)).toHaveLength(1)
  const email = findOldEmail(app.db, 2)
  if (!email) throw new Error('there is no email')
  await app.commit.write((tx) => deleteEmail(app, tx, email))
  expect(stored()).toEqual([])
})

test('hostile text of a server is data: no control characters, nothing else is changed', async () => {
  const hostile = '<script>alert(1)</script> \u001b[2J\u0007 "quoted" \u0000 end'
  await using sending = await startSending({ rcpt: `450 4.2.0 ${hostile}` })
  const [attempt] = await sending.attempts(await sending.sent())
  expect(attempt?.dialogue?.map(({ text }) => text).join('')).not.toMatch(/[\u0000-\u001f]/)
  expect(attempt?.smtp_response).toContain('<script>alert(1)</script>')
  expect(linesOf(attempt as Attempt, 'server').join()).toContain('"quoted"')
})
