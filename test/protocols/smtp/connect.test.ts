import { expect, test } from 'bun:test'
import { createServer } from 'node:net'
import { connectSmtp, type SmtpConnectOptions } from '#protocols/smtp/connect.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { type SmtpScript, startScriptedSmtp, testCertificate } from '#test/support/scripted-smtp.ts'
import { openSession, optionsFor, transaction, WatchedClock, waitOneTick } from './smtp-session.ts'

/** Returns the result of a connection attempt and what the server received. */
async function attempt(script: SmtpScript, changes: Partial<SmtpConnectOptions> = {}) {
  await using server = await startScriptedSmtp(script)
  const result = await connectSmtp(optionsFor(server, changes))
  if (result.kind === 'connected') await result.client.quit()
  await server.until(() => server.session.closed)
  return { result, session: server.session }
}

const STARTTLS = ['PIPELINING', 'STARTTLS']

test('a session opens with EHLO, parses the extensions, and ends with QUIT', async () => {
  await using server = await startScriptedSmtp({ extensions: ['PIPELINING', 'SIZE 1000'] })
  const client = await openSession(server)
  expect(client.extensions).toMatchObject({ pipelining: true, size: true, sizeBytes: 1000, startTls: false })
  expect(client).toMatchObject({
    remoteAddress: '127.0.0.1',
    localAddress: '127.0.0.1',
    transactionCount: 0,
    isUsable: true,
  })
  expect(client.tls).toBeUndefined()
  await client.quit()
  expect(client).toMatchObject({ isUsable: false, phase: 'closed' })
  expect(server.session.commands).toEqual(['EHLO out.sender.test', 'QUIT'])
})

test('the connection comes from the requested local address', async () => {
  await using server = await startScriptedSmtp()
  await using client = await openSession(server, { localAddress: '127.0.0.2' })
  expect(client.localAddress).toBe('127.0.0.2')
})

test('a port without a listener is refused', async () => {
  const server = await startScriptedSmtp()
  await server[Symbol.asyncDispose]()
  expect(await connectSmtp(optionsFor(server))).toMatchObject({
    kind: 'failed',
    phase: 'connect',
    failure: { kind: 'refused' },
  })
})

test('an ehloName with a line break throws before any connection', async () => {
  await using server = await startScriptedSmtp()
  await expect(connectSmtp(optionsFor(server, { ehloName: 'a\r\nMAIL' }))).rejects.toThrow('ehloName')
  expect(server.sessions).toEqual([])
})

test('a rejecting greeting is refused, and answered with QUIT', async () => {
  const { result, session } = await attempt({ greeting: '554 5.7.1 Go away' })
  expect(result).toMatchObject({ kind: 'refused', phase: 'greeting', reply: { code: 554, enhanced: '5.7.1' } })
  expect(session.commands).toEqual(['QUIT'])
})

test.each([
  ['not SMTP', 'SSH-2.0-OpenSSH_9.2'],
  ['another positive code', '250 hello'],
  ['an endless reply', `220-${'x'.repeat(70_000)}`],
])('a greeting that is %s is a protocol failure', async (_, greeting) => {
  const { result } = await attempt({ greeting })
  expect(result).toMatchObject({ kind: 'failed', phase: 'greeting', failure: { kind: 'protocol' } })
})

test.each([
  ['end', 'closed'],
  ['reset', 'reset'],
] as const)('a connection that ends before the greeting (%s) is %s', async (drop, kind) => {
  const { result } = await attempt({ greeting: { drop } })
  expect(result).toMatchObject({ kind: 'failed', phase: 'greeting', failure: { kind } })
})

test('a second greeting is an unsolicited reply', async () => {
  const { result } = await attempt({ greeting: '220 one\r\n220 two' })
  expect(result).toMatchObject({ kind: 'failed', phase: 'ehlo', failure: { kind: 'protocol' } })
})

test('EHLO rejected with 5xx is followed by HELO, without extensions', async () => {
  await using server = await startScriptedSmtp({ ehlo: '502 5.5.1 What?' })
  await using client = await openSession(server, { tls: 'opportunistic' })
  expect(client.extensions).toMatchObject({ pipelining: false, size: false, auth: [] })
  expect(server.session.commands).toEqual(['EHLO out.sender.test', 'HELO out.sender.test'])
})

test('EHLO rejected with 4xx, or HELO rejected too, is refused', async () => {
  const busy = await attempt({ ehlo: '451 4.3.0 later' })
  expect(busy.result).toMatchObject({ kind: 'refused', phase: 'ehlo', reply: { code: 451 } })
  const never = await attempt({ ehlo: '500 no', helo: '550 never' })
  expect(never.result).toMatchObject({ kind: 'refused', phase: 'ehlo', reply: { code: 550 } })
})

test('STARTTLS starts TLS with SNI, repeats EHLO and uses only the second reply', async () => {
  await using server = await startScriptedSmtp({
    ehlo: ['250-mx.example.test\r\n250-STARTTLS\r\n250 X-CLEAR', '250-mx.example.test\r\n250 PIPELINING'],
  })
  await using client = await openSession(server, { tls: 'required', verifyCertificate: true, ca: testCertificate.cert })
  expect(client.tls).toEqual({ protocol: 'TLSv1.3', cipher: expect.stringMatching(/^TLS_/), authorized: true })
  expect(client.extensions).toMatchObject({ startTls: false, pipelining: true })
  expect(server.session).toMatchObject({ secure: true, serverName: 'mx.example.test' })
  expect(server.session.commands).toEqual(['EHLO out.sender.test', 'STARTTLS', 'EHLO out.sender.test'])
})

test('an IP address is looked for in the certificate but not sent as SNI', async () => {
  await using server = await startScriptedSmtp({ extensions: STARTTLS })
  const options = { host: '127.0.0.1', tls: 'required', verifyCertificate: true, ca: testCertificate.cert } as const
  await using client = await openSession(server, options)
  expect(client.tls).toMatchObject({ authorized: true })
  expect(server.session.serverName).toBeUndefined()
})

test.each([
  ['a certificate of an unknown issuer', {}, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
  [
    'a certificate for another name',
    { host: 'mx.other.test', ca: testCertificate.cert },
    'ERR_TLS_CERT_ALTNAME_INVALID',
  ],
])('%s fails when verified, and is accepted and recorded otherwise', async (_, changes, error) => {
  const strict = await attempt({ extensions: STARTTLS }, { ...changes, tls: 'opportunistic', verifyCertificate: true })
  expect(strict.result).toMatchObject({ kind: 'failed', phase: 'tls', failure: { kind: 'tls' } })
  await using server = await startScriptedSmtp({ extensions: STARTTLS })
  await using client = await openSession(server, { ...changes, tls: 'required' })
  expect(client.tls).toMatchObject({ authorized: false, authorizationError: error })
})

test.each([
  ['garbage', 'tls'],
  ['drop', 'closed'],
] as const)('a handshake that meets %s fails in phase tls', async (handshake, kind) => {
  const { result } = await attempt({ extensions: STARTTLS, handshake }, { tls: 'opportunistic' })
  expect(result).toMatchObject({ kind: 'failed', phase: 'tls', failure: { kind } })
})

test('an invalid PEM as certificate authority fails in phase tls', async () => {
  const { result } = await attempt(
    { extensions: STARTTLS },
    { tls: 'required', ca: 'no certificate', verifyCertificate: true },
  )
  expect(result).toMatchObject({ kind: 'failed', phase: 'tls', failure: { kind: 'tls' } })
})

test.each([
  ['a complete reply', '220 go\r\n250 injected'],
  ['half a reply', Buffer.from('220 go\r\n250 inj')],
])('%s in plaintext after the 220 to STARTTLS ends the session before the handshake', async (_, starttls) => {
  const { result, session } = await attempt({ extensions: STARTTLS, starttls }, { tls: 'opportunistic' })
  expect(result).toMatchObject({ kind: 'failed', phase: 'starttls', failure: { kind: 'protocol' } })
  expect(session.secure).toBe(false)
})

test('STARTTLS offered and rejected: required fails, opportunistic continues in plaintext, 421 ends either', async () => {
  const script = { extensions: STARTTLS, starttls: '454 4.7.0 TLS not available' }
  const required = await attempt(script, { tls: 'required' })
  expect(required.result).toMatchObject({ kind: 'refused', phase: 'starttls', reply: { code: 454 } })
  const opportunistic = await attempt(script, { tls: 'opportunistic' })
  expect(opportunistic.result).toMatchObject({ kind: 'connected', client: { tls: undefined } })
  const ended = await attempt({ ...script, starttls: '421 4.7.0 bye' }, { tls: 'opportunistic' })
  expect(ended.result).toMatchObject({ kind: 'refused', phase: 'starttls', reply: { code: 421 } })
})

test('STARTTLS not offered: required fails, opportunistic continues, never does not use it', async () => {
  const required = await attempt({}, { tls: 'required' })
  expect(required.result).toMatchObject({ kind: 'failed', phase: 'starttls', failure: { kind: 'tls' } })
  expect((await attempt({}, { tls: 'opportunistic' })).result.kind).toBe('connected')
  const never = await attempt({ extensions: STARTTLS }, { tls: 'never' })
  expect(never.session.commands).toEqual(['EHLO out.sender.test', 'QUIT'])
})

test('implicit TLS completes the handshake before the greeting', async () => {
  await using server = await startScriptedSmtp({ implicitTls: true })
  await using client = await openSession(server, { tls: 'implicit', verifyCertificate: true, ca: testCertificate.cert })
  expect(client.tls).toMatchObject({ authorized: true })
  expect(server.session.commands).toEqual(['EHLO out.sender.test'])
})

test('implicit TLS to a plaintext server fails in phase tls', async () => {
  const { result } = await attempt({}, { tls: 'implicit' })
  expect(result).toMatchObject({ kind: 'failed', phase: 'tls', failure: { kind: 'tls' } })
})

test.each([
  ['connect', 30_000, 0, {}, 'never'],
  ['greeting', 300_000, 0, { greeting: '' }, 'never'],
  ['ehlo', 300_000, 1, { ehlo: '' }, 'never'],
  ['ehlo', 300_000, 1, { ehlo: '250-half a reply' }, 'never'],
  ['starttls', 300_000, 2, { extensions: STARTTLS, starttls: '' }, 'required'],
  ['tls', 60_000, 2, { extensions: STARTTLS, handshake: 'silence' }, 'required'],
  ['auth', 180_000, 2, { extensions: ['AUTH PLAIN'], auth: '' }, 'never'],
] as const)(
  'phase %s times out after %d ms of silence and not before',
  async (phase, timeoutMs, commands, script, tls) => {
    const clock = new WatchedClock()
    await using server = await startScriptedSmtp(script)
    const auth = { user: 'u', password: 'p' }
    const options = optionsFor(server, { clock, tls, allowPlaintextAuth: true, ...(phase === 'auth' && { auth }) })
    const connecting = connectSmtp(options)
    while ((server.sessions[0]?.commands.length ?? 0) < commands || clock.waitsMs[0] !== timeoutMs) await waitOneTick()
    clock.advance(timeoutMs - 1)
    expect(clock.waitsMs).toEqual([timeoutMs])
    clock.advance(1)
    expect(await connecting).toMatchObject({ kind: 'failed', phase, failure: { kind: 'timeout' } })
  },
)

test('AUTH PLAIN is one line, and no password is in the transcript', async () => {
  const transcript: string[] = []
  const { result, session } = await attempt(
    { extensions: ['STARTTLS', 'AUTH LOGIN PLAIN'] },
    {
      tls: 'required',
      auth: { user: 'usér', password: 'sécret' },
      transcript: (direction, line) => transcript.push(`${direction === 'client' ? 'C' : 'S'}: ${line}`),
    },
  )
  expect(result.kind).toBe('connected')
  const line = Buffer.from('\0usér\0sécret').toString('base64')
  expect(session.commands).toContain(`AUTH PLAIN ${line}`)
  expect(transcript).toEqual([
    'S: 220 mx.example.test ESMTP',
    'C: EHLO out.sender.test',
    'S: 250-mx.example.test',
    'S: 250-STARTTLS',
    'S: 250 AUTH LOGIN PLAIN',
    'C: STARTTLS',
    'S: 220 2.0.0 Go ahead',
    'C: EHLO out.sender.test',
    'S: 250-mx.example.test',
    'S: 250-STARTTLS',
    'S: 250 AUTH LOGIN PLAIN',
    'C: AUTH PLAIN [credentials]',
    'S: 235 2.7.0 Accepted',
    'C: QUIT',
    'S: 221 2.0.0 Bye',
  ])
})

test('AUTH LOGIN is used where PLAIN is not offered, and no password is in the transcript', async () => {
  const transcript: string[] = []
  const { result, session } = await attempt(
    { extensions: ['AUTH LOGIN'], auth: '334 VXNlcm5hbWU6', authLine: ['334 UGFzc3dvcmQ6'] },
    {
      auth: { user: 'user', password: 'secret' },
      allowPlaintextAuth: true,
      transcript: (_, line) => transcript.push(line),
    },
  )
  expect(result.kind).toBe('connected')
  expect(session.commands.slice(1, 4)).toEqual(['AUTH LOGIN', btoa('user'), btoa('secret')])
  expect(transcript.slice(5, 10)).toEqual([
    '334 VXNlcm5hbWU6',
    '[user]',
    '334 UGFzc3dvcmQ6',
    '[password]',
    '235 2.7.0 Accepted',
  ])
})

test('a password that the server rejects is refused, at any step', async () => {
  const auth = { user: 'user', password: 'wrong' }
  const refused = { kind: 'refused', phase: 'auth', reply: { code: 535, enhanced: '5.7.8' } }
  const plain = await attempt({ extensions: ['AUTH PLAIN'], auth: '535 5.7.8 no' }, { auth, allowPlaintextAuth: true })
  expect(plain.result).toMatchObject(refused)
  const script = { extensions: ['AUTH LOGIN'], auth: '334 ', authLine: ['334 ', '535 5.7.8 no'] }
  const login = await attempt(script, { auth, allowPlaintextAuth: true })
  expect(login.result).toMatchObject(refused)
})

test('a password is not sent in plaintext, nor with an unsupported mechanism', async () => {
  const auth = { user: 'user', password: 'secret' }
  const clear = await attempt({ extensions: ['AUTH PLAIN'] }, { auth, tls: 'opportunistic' })
  expect(clear.result).toMatchObject({ kind: 'failed', phase: 'auth', failure: { kind: 'tls' } })
  expect(clear.session.commands).toEqual(['EHLO out.sender.test'])
  const odd = await attempt({ extensions: ['AUTH CRAM-MD5'] }, { auth, allowPlaintextAuth: true })
  expect(odd.result).toMatchObject({ kind: 'failed', phase: 'auth', failure: { kind: 'other' } })
  expect(odd.session.commands).toEqual(['EHLO out.sender.test'])
})

test('an unexpected reply to AUTH is a protocol failure', async () => {
  const auth = { user: 'user', password: 'secret' }
  const { result } = await attempt({ extensions: ['AUTH PLAIN'], auth: '250 ok' }, { auth, allowPlaintextAuth: true })
  expect(result).toMatchObject({ kind: 'failed', phase: 'auth', failure: { kind: 'protocol' } })
})

test('quit does not wait for a silent server', async () => {
  const clock = new ManualClock()
  await using server = await startScriptedSmtp({ quit: '' })
  const client = await openSession(server, { clock })
  const quitting = client.quit()
  await server.until(() => server.session.commands.includes('QUIT'))
  clock.advance(5000)
  await quitting
  await server.until(() => server.session.closed)
})

test('a failed connection leaves no socket behind', async () => {
  let open = 0
  const server = createServer((socket) => {
    open++
    socket.on('close', () => open--)
    socket.on('error', () => {})
    socket.resume()
    socket.end('554 no\r\n')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('No address')
  for (let i = 0; i < 20; i++) await connectSmtp(optionsFor(address))
  while (open > 0) await waitOneTick()
  await new Promise((resolve) => server.close(resolve))
})

const ABORTED = { kind: 'timeout', message: 'It took too long' } as const

test('aborting an attempt while the server is silent ends it with the given failure', async () => {
  const abort = new AbortController()
  await using server = await startScriptedSmtp({ ehlo: () => new Promise(() => undefined) })
  const connecting = connectSmtp(optionsFor(server, { abort: { signal: abort.signal, failure: ABORTED } }))
  await server.until(() => server.sessions[0]?.commands.length === 1)
  abort.abort()
  expect(await connecting).toEqual({ kind: 'failed', phase: 'ehlo', failure: ABORTED })
  await server.until(() => server.session.closed)
})

test('an attempt that was aborted before it began leaves no connection', async () => {
  await using server = await startScriptedSmtp()
  const abort = { signal: AbortSignal.abort(), failure: ABORTED }
  expect(await connectSmtp(optionsFor(server, { abort }))).toMatchObject({ kind: 'failed', failure: ABORTED })
  await server.until(() => server.sessions.every(({ closed }) => closed))
})

test('an abort after the session has opened has no effect', async () => {
  const abort = new AbortController()
  await using server = await startScriptedSmtp()
  await using client = await openSession(server, { abort: { signal: abort.signal, failure: ABORTED } })
  abort.abort()
  expect((await client.send(transaction())).kind).toBe('accepted')
})
