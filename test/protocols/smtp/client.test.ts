import { expect, test } from 'bun:test'
import type { SmtpTransaction } from '#protocols/smtp/client.ts'
import { type ScriptedSession, type SmtpScript, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { deferred, helloMessage, openSession, transaction, WatchedClock, waitOneTick } from './smtp-session.ts'

const ONE_BY_ONE = ['SIZE 1000', '8BITMIME']
const EHLO = 'EHLO out.sender.test'
const MAIL = `MAIL FROM:<bounce@sender.test> SIZE=${helloMessage.length}`
const RCPT = 'RCPT TO:<user@example.test>'

/** Returns the result of one transaction, the state of the session after it, and what the server received. */
async function sendOne(script: SmtpScript, changes: Partial<SmtpTransaction> = {}) {
  await using server = await startScriptedSmtp(script)
  await using client = await openSession(server)
  let begun = false
  const result = await client.send(
    transaction({
      beforeBody: async () => {
        begun = true
      },
      ...changes,
    }),
  )
  return { result, usable: client.isUsable, begun, session: server.session }
}

/** A reaction that resets the connection regardless of the order of commands. */
const dropNow = (how: 'end' | 'reset') => (_: string, session: ScriptedSession) => {
  session.say({ drop: how })
  return ''
}

test('with PIPELINING the envelope is one write, and the message follows the 354', async () => {
  const { result, usable, begun, session } = await sendOne({ extensions: ['PIPELINING', 'SIZE'] })
  expect(result).toEqual({
    kind: 'accepted',
    reply: { code: 250, enhanced: '2.0.0', lines: ['2.0.0 Queued as 1'], text: '250 2.0.0 Queued as 1' },
  })
  expect({ usable, begun }).toEqual({ usable: true, begun: true })
  expect(session.segments.slice(1)).toEqual([`${MAIL}\r\n${RCPT}\r\nDATA\r\n`, 'QUIT\r\n'])
  expect(session.messages).toEqual([helloMessage])
})

test('without PIPELINING each command waits for the reply to the previous one', async () => {
  const { result, session } = await sendOne({ extensions: ONE_BY_ONE })
  expect(result.kind).toBe('accepted')
  expect(session.segments).toEqual([`${EHLO}\r\n`, `${MAIL}\r\n`, `${RCPT}\r\n`, 'DATA\r\n', 'QUIT\r\n'])
})

test('without PIPELINING a rejected command is the last', async () => {
  const mail = await sendOne({ extensions: ONE_BY_ONE, mail: '550 5.7.1 no' })
  expect(mail.session.commands).toEqual([EHLO, MAIL, 'QUIT'])
  const rcpt = await sendOne({ extensions: ONE_BY_ONE, rcpt: '550 5.1.1 no' })
  expect(rcpt.session.commands).toEqual([EHLO, MAIL, RCPT, 'QUIT'])
})

for (const [name, extensions] of [
  ['pipelined', ['PIPELINING']],
  ['one by one', ONE_BY_ONE],
] as const) {
  test.each([
    ['mail', { mail: '451 4.7.1 later', rcpt: '503 no MAIL', data: '503 no RCPT' }, 451, true],
    ['mail', { mail: '550 5.7.1 no', rcpt: '250 ok', data: '554 no RCPT' }, 550, true],
    ['rcpt', { rcpt: '550 5.1.1 unknown', data: '554 no RCPT' }, 550, true],
    ['rcpt', { rcpt: '452 4.2.2 full', data: '503 no RCPT' }, 452, true],
    ['data', { data: '451 4.3.0 later' }, 451, true],
    ['body', { body: '554 5.6.0 spam' }, 554, true],
    ['body', { body: '451 4.7.1 greylisted' }, 451, true],
    ['mail', { mail: '421 4.3.2 bye' }, 421, false],
    ['rcpt', { rcpt: '421 4.3.2 bye' }, 421, false],
    ['data', { data: '421 4.3.2 bye' }, 421, false],
    ['body', { body: '421 4.3.2 bye' }, 421, false],
    ['mail', { mail: { say: '421 4.3.2 bye', drop: 'end' } }, 421, false],
    ['mail', { mail: { say: '550 5.7.1 no', drop: 'reset' } }, 550, false],
    ['rcpt', { rcpt: { say: '550 5.1.1 unknown', drop: 'end' } }, 550, false],
    ['data', { data: { say: '554 5.3.0 no', drop: 'reset' } }, 554, false],
    ['body', { body: { say: '554 5.6.0 spam', drop: 'reset' } }, 554, false],
  ] as const)(`${name}: phase %s with %j is refused with %d`, async (phase, script, code, usable) => {
    const { result, begun, ...rest } = await sendOne({ extensions, ...script })
    expect(result).toMatchObject({ kind: 'refused', phase, reply: { code } })
    expect(begun).toBe(phase === 'body')
    // A close after the reply may be noticed with it or after it.
    if (usable || code === 421) expect(rest.usable).toBe(usable)
  })

  test.each([
    ['mail', { mail: { drop: 'end' } }, 'closed'],
    ['mail', { mail: { drop: 'reset' } }, 'reset'],
    ['rcpt', { rcpt: { drop: 'end' } }, 'closed'],
    ['rcpt', { rcpt: { drop: 'reset' } }, 'reset'],
    ['data', { data: { drop: 'end' } }, 'closed'],
    ['data', { data: { drop: 'reset' } }, 'reset'],
    ['mail', { mail: '354 what' }, 'protocol'],
    ['rcpt', { rcpt: '334 what' }, 'protocol'],
    ['data', { data: '250 what' }, 'protocol'],
    ['mail', { mail: 'nonsense' }, 'protocol'],
    ['data', { data: `354-${'x'.repeat(70_000)}` }, 'protocol'],
  ] as const)(`${name}: phase %s with %j is lost`, async (phase, script, kind) => {
    const { result, usable, begun } = await sendOne({ extensions, ...script })
    expect(result).toMatchObject({ kind: 'lost', phase, failure: { kind } })
    expect({ usable, begun }).toEqual({ usable: false, begun: false })
  })

  test.each([
    ['mail', 300_000, 2],
    ['rcpt', 300_000, 3],
    ['data', 120_000, 4],
  ] as const)(`${name}: silence in phase %s is lost after %d ms`, async (phase, timeoutMs, commands) => {
    const clock = new WatchedClock()
    await using server = await startScriptedSmtp({ extensions, [phase]: () => new Promise(() => {}) })
    const client = await openSession(server, { clock })
    const sending = client.send(transaction())
    await server.until(() => server.session.commands.length >= commands)
    while (client.phase !== phase || clock.waitsMs[0] !== timeoutMs) await waitOneTick()
    clock.advance(timeoutMs - 1)
    expect(client.phase).toBe(phase)
    clock.advance(1)
    expect(await sending).toMatchObject({ kind: 'lost', phase, failure: { kind: 'timeout' } })
  })
}

test.each([
  ['mail', { mail: '550 no', rcpt: '250 ok' }],
  ['rcpt', { rcpt: '550 no' }],
] as const)('a 354 after a rejected %s closes the connection: no empty message is sent', async (phase, script) => {
  const { result, usable, begun, session } = await sendOne({ ...script, data: '354 go' })
  expect(result).toMatchObject({ kind: 'refused', phase, reply: { code: 550 } })
  expect({ usable, begun, raw: session.rawMessages }).toEqual({ usable: false, begun: false, raw: [] })
})

test('a 421 among the replies after a rejection makes the session unusable, and the rejection is the result', async () => {
  const { result, usable } = await sendOne({ mail: '550 no', rcpt: '421 bye', data: '' })
  expect(result).toMatchObject({ kind: 'refused', phase: 'mail', reply: { code: 550 } })
  expect(usable).toBe(false)
})

test('pipelined replies are matched in order, however they are split and delayed', async () => {
  const gate = deferred()
  await using server = await startScriptedSmtp({
    mail: Buffer.from('250-one\r\n250 ok\r\n25'),
    rcpt: Buffer.from('0 ok\r'),
    data: async (_, session) => {
      await gate.promise
      session.say(Buffer.from('\n'))
      return '354 go'
    },
  })
  await using client = await openSession(server)
  const sending = client.send(transaction())
  while (client.phase !== 'rcpt') await waitOneTick()
  gate.resolve()
  expect((await sending).kind).toBe('accepted')
})

test('more replies than commands end the session, whatever the earlier result', async () => {
  const after = await sendOne({ body: '250 ok\r\n250 ok again' })
  expect(after.result.kind).toBe('accepted')
  expect(after.usable).toBe(false)
  const between = await sendOne({ mail: '250 ok\r\n250 ok' })
  expect(between.result).toMatchObject({ kind: 'lost', phase: 'data', failure: { kind: 'protocol' } })
  const behind354 = await sendOne({ data: '250 ok\r\n354 go' })
  expect(behind354.result).toMatchObject({ kind: 'lost', phase: 'data', failure: { kind: 'protocol' } })
})

test('a session is reused without RSET after an accepted message', async () => {
  await using server = await startScriptedSmtp({ extensions: ['PIPELINING', 'SIZE'] })
  await using client = await openSession(server)
  for (let i = 0; i < 3; i++) expect((await client.send(transaction())).kind).toBe('accepted')
  expect(client.transactionCount).toBe(3)
  expect(server.session.commands).toEqual([EHLO, ...Array(3).fill([MAIL, RCPT, 'DATA']).flat()])
  expect(server.session.messages).toEqual([helloMessage, helloMessage, helloMessage])
})

test.each([
  ['pipelined', ['PIPELINING', 'SIZE'], [`RSET\r\n${MAIL}\r\n${RCPT}\r\nDATA\r\n`]],
  ['one by one', ['SIZE'], ['RSET\r\n', `${MAIL}\r\n`, `${RCPT}\r\n`, 'DATA\r\n']],
])('%s: a session is reused after a rejection, with RSET before the next MAIL', async (_, extensions, segments) => {
  await using server = await startScriptedSmtp({ extensions, rcpt: ['550 5.1.1 no'], data: ['503 no RCPT'] })
  await using client = await openSession(server)
  expect((await client.send(transaction())).kind).toBe('refused')
  expect(server.session.commands).not.toContain('RSET')
  const before = server.session.segments.length
  // The first reaction of `data` is used up only if DATA was pipelined.
  const second = await client.send(transaction())
  expect(second.kind).toBe(extensions.includes('PIPELINING') ? 'accepted' : 'refused')
  expect(server.session.segments.slice(before)).toEqual(segments)
})

test('a rejected RSET ends the session: the old recipient could get the new message', async () => {
  await using server = await startScriptedSmtp({ data: ['451 later'], rset: '500 what' })
  await using client = await openSession(server)
  expect((await client.send(transaction())).kind).toBe('refused')
  expect(await client.send(transaction())).toMatchObject({ kind: 'lost', phase: 'mail', failure: { kind: 'protocol' } })
  expect({ usable: client.isUsable, raw: server.session.rawMessages }).toEqual({ usable: false, raw: [] })
})

test('a RSET answered with 421 refuses the transaction in phase mail', async () => {
  await using server = await startScriptedSmtp({ data: ['451 later'], rset: '421 bye' })
  await using client = await openSession(server)
  await client.send(transaction())
  expect(await client.send(transaction())).toMatchObject({ kind: 'refused', phase: 'mail', reply: { code: 421 } })
  expect(client.isUsable).toBe(false)
})

test.each([
  ['a 421', '421 4.4.2 idle', 'closed'],
  ['any reply', '250 hello', 'protocol'],
  ['a close', { drop: 'end' }, 'closed'],
  ['a reset', { drop: 'reset' }, 'reset'],
] as const)(
  '%s between transactions makes the session unusable, and the next transaction lost',
  async (_, reaction, kind) => {
    await using server = await startScriptedSmtp()
    await using client = await openSession(server)
    expect((await client.send(transaction())).kind).toBe('accepted')
    server.session.say(reaction)
    while (client.isUsable) await waitOneTick()
    expect(await client.send(transaction())).toMatchObject({ kind: 'lost', phase: 'mail', failure: { kind } })
    expect(client.transactionCount).toBe(1)
  },
)

test('half a reply between transactions ends the session at the next command', async () => {
  // The reply to MAIL would complete it, and every later reply would be matched to the wrong command.
  const body = '250 ok\r\n250-half'
  const { result, ...rest } = await sendOne({ body })
  expect({ result, usable: rest.usable }).toMatchObject({ result: { kind: 'accepted' }, usable: true })
  await using server = await startScriptedSmtp({ body })
  await using client = await openSession(server)
  await client.send(transaction())
  expect(await client.send(transaction())).toMatchObject({ kind: 'lost', phase: 'mail', failure: { kind: 'protocol' } })
})

test('a message that the server cannot accept is refused in phase mail without a command', async () => {
  const tooLarge = await sendOne({ extensions: ['PIPELINING', 'SIZE 10'] })
  expect(tooLarge.result).toMatchObject({ kind: 'refused', phase: 'mail', reply: { code: 552, enhanced: '5.3.4' } })
  const utf8 = await sendOne({ extensions: [] }, { smtpUtf8: true, rcptTo: 'grüße@example.test' })
  expect(utf8.result).toMatchObject({ kind: 'refused', phase: 'mail', reply: { code: 553, enhanced: '5.6.7' } })
  for (const { session, usable } of [tooLarge, utf8]) {
    expect({ commands: session.commands, usable }).toEqual({ commands: [EHLO, 'QUIT'], usable: true })
  }
})

test('SIZE, BODY=8BITMIME and SMTPUTF8 are sent if the server offers them and the message needs them', async () => {
  const { session } = await sendOne({}, { smtpUtf8: true, eightBit: true, rcptTo: 'grüße@example.test', sizeBytes: 77 })
  expect(session.commands.slice(1, 3)).toEqual([
    'MAIL FROM:<bounce@sender.test> SIZE=77 BODY=8BITMIME SMTPUTF8',
    'RCPT TO:<grüße@example.test>',
  ])
})

test('an address with a line break throws, and the session continues', async () => {
  await using server = await startScriptedSmtp()
  await using client = await openSession(server)
  await expect(client.send(transaction({ rcptTo: 'a@b.test>\r\nDATA' }))).rejects.toThrow('rcptTo')
  await expect(client.send(transaction({ mailFrom: 'a\n@b.test' }))).rejects.toThrow('mailFrom')
  expect(client.isUsable).toBe(true)
  expect((await client.send(transaction())).kind).toBe('accepted')
})

test('a second transaction during the first throws without side effects', async () => {
  await using server = await startScriptedSmtp()
  await using client = await openSession(server)
  const first = client.send(transaction())
  expect(client.isUsable).toBe(false)
  await expect(client.send(transaction())).rejects.toThrow('during phase mail')
  expect((await first).kind).toBe('accepted')
})

test('destroy during the envelope is lost', async () => {
  await using server = await startScriptedSmtp({ mail: dropNow('end') })
  const client = await openSession(server)
  const sending = client.send(transaction())
  client.destroy()
  expect(await sending).toMatchObject({ kind: 'lost', phase: 'mail', failure: { kind: 'closed' } })
  expect(await client.send(transaction())).toMatchObject({ kind: 'lost', phase: 'mail' })
})
