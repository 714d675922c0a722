import { heapStats } from 'bun:jsc'
import { expect, test } from 'bun:test'
import { systemClock } from '#platform/time/clock.ts'
import type { SmtpConnectOptions } from '#protocols/smtp/connect.ts'
import { type SmtpScript, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { deferred, helloMessage, openSession, transaction, WatchedClock, waitOneTick } from './smtp-session.ts'

/** Exceeds the buffers of two sockets, so one write cannot send it all. */
const largeMessage = Buffer.alloc(72 * 350_000, `${'x'.repeat(70)}\r\n`)

async function sendOne(script: SmtpScript, message: Uint8Array = helloMessage) {
  await using server = await startScriptedSmtp(script)
  await using client = await openSession(server)
  const result = await client.send(transaction({ message: [message] }))
  return { result, usable: client.isUsable, session: server.session }
}

/** Starts a transaction whose beforeBody has been called and is pending. */
async function startPendingBody(script: SmtpScript = {}) {
  const server = await startScriptedSmtp(script)
  const client = await openSession(server)
  const commit = deferred()
  const sending = client.send(transaction({ beforeBody: () => commit.promise }))
  while (client.phase !== 'before-body') await waitOneTick()
  return { server, client, commit, sending }
}

test('no octet of the message is sent before beforeBody resolves', async () => {
  const { server, client, commit, sending } = await startPendingBody()
  await using _server = server
  for (let i = 0; i < 20; i++) await waitOneTick()
  expect({ raw: server.session.rawMessages, phase: client.phase }).toEqual({ raw: [], phase: 'before-body' })
  commit.resolve()
  expect((await sending).kind).toBe('accepted')
  expect(server.session.messages).toEqual([helloMessage])
  await client.quit()
})

test('beforeBody is not called before the 354', async () => {
  const gate = deferred()
  await using server = await startScriptedSmtp({
    data: async () => {
      await gate.promise
      return '354 go'
    },
  })
  await using client = await openSession(server)
  let called = false
  const sending = client.send(
    transaction({
      beforeBody: async () => {
        called = true
      },
    }),
  )
  while (client.phase !== 'data') await waitOneTick()
  expect(called).toBe(false)
  gate.resolve()
  expect((await sending).kind).toBe('accepted')
  expect(called).toBe(true)
})

test.each([
  ['rejects', () => Promise.reject(new Error('disk full'))],
  [
    'throws',
    () => {
      throw new Error('disk full')
    },
  ],
])(
  'when beforeBody %s the transaction is aborted, nothing was sent, and the connection is closed',
  async (_, beforeBody) => {
    await using server = await startScriptedSmtp()
    await using client = await openSession(server)
    expect(await client.send(transaction({ beforeBody }))).toEqual({ kind: 'aborted', error: new Error('disk full') })
    await server.until(() => server.session.closed)
    expect({ raw: server.session.rawMessages, usable: client.isUsable }).toEqual({ raw: [], usable: false })
  },
)

test.each([
  ['a close', { drop: 'end' }, { kind: 'lost', phase: 'data', failure: { kind: 'closed' } }],
  ['a reset', { drop: 'reset' }, { kind: 'lost', phase: 'data', failure: { kind: 'reset' } }],
  ['a reply', '250 ok', { kind: 'lost', phase: 'data', failure: { kind: 'protocol' } }],
  ['nonsense', 'hello', { kind: 'lost', phase: 'data', failure: { kind: 'protocol' } }],
  ['a 421', '421 4.3.2 bye', { kind: 'refused', phase: 'data', reply: { code: 421 } }],
  ['a 421 and a close', { say: '421 bye', drop: 'end' }, { kind: 'refused', phase: 'data', reply: { code: 421 } }],
] as const)(
  '%s while beforeBody is pending: certainly not accepted, reported after beforeBody',
  async (_, reaction, expected) => {
    const { server, client, commit, sending } = await startPendingBody()
    await using _server = server
    let settled = false
    sending.finally(() => {
      settled = true
    })
    server.session.say(reaction)
    while (client.phase !== 'closed') await waitOneTick()
    expect(settled).toBe(false)
    commit.resolve()
    expect(await sending).toMatchObject(expected)
    expect(server.session.rawMessages).toEqual([])
  },
)

test('a 354 followed immediately by a close is lost', async () => {
  const { result } = await sendOne({ data: { say: '354 go', drop: 'end' } })
  // Timing decides whether the close is noticed before the first octet, but the result must be one of these two.
  expect(['lost', 'uncertain']).toContain(result.kind)
})

test('a rejected beforeBody is aborted even if the connection was lost before', async () => {
  const { server, client, commit, sending } = await startPendingBody()
  await using _server = server
  server.session.say({ drop: 'end' })
  while (client.phase !== 'closed') await waitOneTick()
  commit.reject(new Error('disk full'))
  expect(await sending).toEqual({ kind: 'aborted', error: new Error('disk full') })
})

test('destroy is lost while beforeBody is pending, and uncertain in the middle of the message', async () => {
  const pending = await startPendingBody()
  await using _server = pending.server
  pending.client.destroy()
  pending.commit.resolve()
  expect(await pending.sending).toMatchObject({ kind: 'lost', phase: 'data' })

  const sent = await startPendingBody({ body: '' })
  await using _second = sent.server
  sent.commit.resolve()
  await sent.server.until(() => sent.server.session.messages.length === 1)
  sent.client.destroy()
  expect(await sent.sending).toMatchObject({ kind: 'uncertain', failure: { kind: 'closed' } })
})

// A failure of TLS has a code, as a reply has.
test('a failure of TLS after the message is uncertain, and no reply', async () => {
  const { server, client, commit, sending } = await startPendingBody({ body: '' })
  await using _server = server
  commit.resolve()
  await server.until(() => server.session.messages.length === 1)
  const failure = { kind: 'tls', message: 'bad record mac', code: 'ERR_SSL_SSLV3_ALERT_BAD_RECORD_MAC' } as const
  client.destroy(failure)
  expect(await sending).toEqual({ kind: 'uncertain', failure })
})

// Proves: status-9
test.each([
  ['the connection closed', { drop: 'end' }, 'closed'],
  ['the connection reset', { drop: 'reset' }, 'reset'],
  ['half a reply and a close', { say: '250-ok', drop: 'end' }, 'closed'],
  ['nonsense', 'hello', 'protocol'],
  ['a 354', '354 again', 'protocol'],
  ['an overlong reply', `250 ${'x'.repeat(70_000)}`, 'protocol'],
] as const)('%s after the final dot is uncertain', async (_, body, kind) => {
  const { result, usable, session } = await sendOne({ body })
  expect(result).toMatchObject({ kind: 'uncertain', failure: { kind } })
  expect({ usable, messages: session.messages }).toEqual({ usable: false, messages: [helloMessage] })
})

test.each([
  ['a close', { drop: 'end' }, { kind: 'uncertain' }],
  ['a reset', { drop: 'reset' }, { kind: 'uncertain', failure: { kind: 'reset' } }],
  ['a positive reply', '250 ok', { kind: 'uncertain', failure: { kind: 'protocol' } }],
  ['nonsense', 'hello', { kind: 'uncertain', failure: { kind: 'protocol' } }],
  ['a rejection', '552 5.3.4 too large', { kind: 'refused', phase: 'body', reply: { code: 552 } }],
  [
    'a rejection and a reset',
    { say: '552 no', drop: 'reset' },
    { kind: 'refused', phase: 'body', reply: { code: 552 } },
  ],
  ['a 421', '421 4.3.2 bye', { kind: 'refused', phase: 'body', reply: { code: 421 } }],
] as const)('%s in the middle of the message ends it', async (_, reaction, expected) => {
  const { result, usable } = await sendOne({ midBody: { afterBytes: 100_000, reaction } }, largeMessage)
  expect(result).toMatchObject(expected)
  expect(usable).toBe(false)
})

test('silence after the final dot is uncertain after 10 minutes and not before', async () => {
  const clock = new WatchedClock()
  await using server = await startScriptedSmtp({ body: '' })
  await using client = await openSession(server, { clock })
  const sending = client.send(transaction())
  await server.until(() => server.session.messages.length === 1)
  while (clock.waitsMs[0] !== 600_000) await waitOneTick()
  clock.advance(599_999)
  expect({ phase: client.phase, waitsMs: clock.waitsMs }).toEqual({ phase: 'body', waitsMs: [600_000] })
  clock.advance(1)
  expect(await sending).toMatchObject({ kind: 'uncertain', failure: { kind: 'timeout' } })
})

test('a peer that accepts no more of the message for 3 minutes is uncertain', async () => {
  const clock = new WatchedClock()
  await using server = await startScriptedSmtp({ stopsReading: true })
  await using client = await openSession(server, { clock })
  let result: unknown
  client.send(transaction({ message: [largeMessage] })).then((value) => {
    result = value
  })
  // The wait for a block restarts with each block that the buffers still accept; only a full buffer ends the
  // transaction.
  while (result === undefined) {
    if (clock.waitsMs[0] === 180_000) clock.advance(60_000)
    await waitOneTick()
  }
  expect(result).toEqual({
    kind: 'uncertain',
    failure: { kind: 'timeout', message: 'The server accepted no more of the message within 180 s' },
  })
})

test('a rejection by a server that accepts no more of the message is read immediately', async () => {
  const clock = new WatchedClock()
  await using server = await startScriptedSmtp({ stopsReading: true })
  await using client = await openSession(server, { clock })
  const sending = client.send(transaction({ message: [largeMessage] }))
  while (clock.waitsMs[0] !== 180_000) await waitOneTick()
  server.session.say('552 5.3.4 too large')
  expect(await sending).toMatchObject({ kind: 'refused', phase: 'body', reply: { code: 552 } })
  expect(client.isUsable).toBe(false)
})

test.each([
  ['an empty message', '', ''],
  ['a body without a final newline', 'a: b\r\n\r\nend', 'a: b\r\n\r\nend\r\n'],
  ['lines of dots', '.\r\n..\r\n...\r\n.a\r\n', '.\r\n..\r\n...\r\n.a\r\n'],
  ['a line that could end the message', 'a\r\n.\r\nMAIL FROM:<x@y.test>\r\n', 'a\r\n.\r\nMAIL FROM:<x@y.test>\r\n'],
  ['dots at the seams of blocks', `${'x'.repeat(65_534)}\r\n.\r\n${'y'.repeat(65_529)}\r\n..\r\n`, undefined],
])('%s arrives unchanged', async (_, message, expected) => {
  const { result, usable, session } = await sendOne({}, Buffer.from(message))
  expect({ kind: result.kind, usable }).toEqual({ kind: 'accepted', usable: true })
  expect(session.messages.map(String)).toEqual([expected ?? message])
  expect(session.rawMessages[0]?.subarray(-3).toString()).toBe('.\r\n')
})

for (const tls of ['never', 'required'] as const) {
  test(`a message of 24 MiB arrives complete, and the session continues (tls ${tls})`, async () => {
    await using server = await startScriptedSmtp({ extensions: ['PIPELINING', 'STARTTLS'] })
    await using client = await openSession(server, { tls })
    expect((await client.send(transaction({ message: [largeMessage] }))).kind).toBe('accepted')
    expect(server.session.messages[0]?.equals(largeMessage)).toBe(true)
    expect((await client.send(transaction())).kind).toBe('accepted')
  })
}

test('the transcript has the session but not the message', async () => {
  const transcript: string[] = []
  const note: NonNullable<SmtpConnectOptions['transcript']> = (direction, line) =>
    transcript.push(`${direction} ${line}`)
  await using server = await startScriptedSmtp({
    extensions: ['PIPELINING'],
    rcpt: ['550-5.1.1 no\r\n550 5.1.1 such user'],
  })
  await using client = await openSession(server, { transcript: note })
  await client.send(transaction())
  expect(transcript.slice(-3)).toEqual([
    'server 550-5.1.1 no',
    'server 550 5.1.1 such user',
    'server 354 End with a dot',
  ])
  transcript.length = 0
  await using second = await startScriptedSmtp({ extensions: [] })
  await using other = await openSession(second, { transcript: note })
  await other.send(transaction())
  expect(transcript.slice(3)).toEqual([
    'client MAIL FROM:<bounce@sender.test>',
    'server 250 2.1.0 Sender ok',
    'client RCPT TO:<user@example.test>',
    'server 250 2.1.5 Recipient ok',
    'client DATA',
    'server 354 End with a dot',
    `client [message of ${helloMessage.length} bytes]`,
    'server 250 2.0.0 Queued as 1',
  ])
})

test('transactions leave neither timers nor objects behind', async () => {
  const waits = new Set<object>()
  const clock = {
    ...systemClock,
    after(delayMs: number, run: () => void) {
      const timer = systemClock.after(delayMs, run)
      waits.add(timer)
      return {
        cancel: () => {
          timer.cancel()
          waits.delete(timer)
        },
      }
    },
  }
  await using server = await startScriptedSmtp()
  await using client = await openSession(server, { clock })
  const run = async (count: number) => {
    for (let i = 0; i < count; i++) await client.send(transaction())
    server.session.messages.length = 0
    server.session.rawMessages.length = 0
    server.session.commands.length = 0
    server.session.segments.length = 0
    Bun.gc(true)
    const { Function: functions = 0, Promise: promises = 0, Timeout: timeouts = 0 } = heapStats().objectTypeCounts
    return functions + promises + timeouts
  }
  const before = await run(500)
  const after = await run(1500)
  expect(waits.size).toBe(0)
  expect(after - before).toBeLessThan(500)
})
