import { describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import type { CompleteMessage } from '#features/receiving/received/message.ts'
import { AppError } from '#platform/errors.ts'
import { GiB, KiB, MiB } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { beginMessage, sendMessage, shareTestListener, startTestListener } from './listener-fixture.ts'

const fixture = shareTestListener()

const MESSAGE = 'Subject: Hello\r\n\r\nHello.\r\n'

/** Runs a session: lines sent, and expected replies. */
async function dialogue(
  fixture: Awaited<ReturnType<typeof startTestListener>>,
  lines: readonly string[],
): Promise<string[]> {
  await using client = await fixture.connectGreeted()
  const replies: string[] = []
  for (const line of lines) replies.push(await client.say(line))
  return replies
}

describe('a session', () => {
  test('is greeted, gets the supported extensions, and STARTTLS only without TLS', async () => {
    await using fixture = await startTestListener({ traffic: { maxMessageBytes: MiB } })
    await using client = await fixture.connect()
    const greeting = await client.reply()
    const inClear = await client.say('EHLO client.test')
    await client.startTls()
    const secured = await client.say('EHLO client.test')
    const extensions = ['PIPELINING', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES']
    const lines = (...offered: string[]) =>
      ['mx.tassis.test', ...extensions, ...offered]
        .map((text, index, all) => `250${index < all.length - 1 ? '-' : ' '}${text}`)
        .join('\n')
    expect({ greeting, inClear, secured }).toEqual({
      greeting: '220 mx.tassis.test ESMTP',
      inClear: lines('STARTTLS', 'SIZE 1048576'),
      secured: lines('SIZE 1048576'),
    })
  })

  // Proves: inbound-40
  test.each([
    ['AUTH is unknown', ['AUTH PLAIN AGEAYg=='], ['500 5.5.2']],
    ['VRFY reveals nothing', ['VRFY nobody@x.test', 'VRFY postmaster@x.test'], ['252 2.1.5', '252 2.1.5']],
    [
      'EXPN, BDAT and commands of other servers are unknown',
      ['EXPN a', 'BDAT 3 LAST', 'WIZ a', 'SHELL', 'KILL', 'XCLIENT ADDR=1.2.3.4'],
      Array(6).fill('500 5.5.2'),
    ],
    ['MAIL is accepted after an invalid EHLO', ['EHLO', 'MAIL FROM:<a@b.test>'], ['501', '250 2.1.0']],
    [
      'a name with blanks is accepted',
      ['EHLO My Office PC', 'HELO my pc', 'MAIL FROM:<a@b.test>'],
      ['250', '250', '250 2.1.0'],
    ],
    ['RCPT needs MAIL', ['RCPT TO:<a@b.test>'], ['503 5.5.1']],
    ['DATA needs MAIL', ['DATA'], ['503 5.5.1']],
    [
      'DATA needs an accepted recipient',
      ['MAIL FROM:<>', 'RCPT TO:<nobody@b.test>', 'DATA'],
      ['250 2.1.0', '550 5.1.1', '554 5.5.1'],
    ],
    [
      'RSET resets the transaction',
      ['MAIL FROM:<>', 'RCPT TO:<a@b.test>', 'RSET', 'DATA'],
      ['250 2.1.0', '250 2.1.5', '250 2.0.0', '503 5.5.1'],
    ],
    ['postmaster has no domain', ['MAIL FROM:<>', 'RCPT TO:<postmaster>'], ['250 2.1.0', '250 2.1.5']],
    [
      'a declared size over the limit is rejected at MAIL',
      ['MAIL FROM:<> SIZE=2097153', 'MAIL FROM:<> SIZE=2097152'],
      ['552 5.3.4', '250 2.1.0'],
    ],
    [
      'too many recipients are rejected',
      ['MAIL FROM:<>', 'RCPT TO:<a@b.test>', 'RCPT TO:<b@b.test>', 'RCPT TO:<c@b.test>', 'RCPT TO:<d@b.test>'],
      ['250 2.1.0', '250 2.1.5', '250 2.1.5', '250 2.1.5', '452 4.5.3'],
    ],
    [
      'an address in UTF-8 needs SMTPUTF8',
      ['MAIL FROM:<jürgen@b.test>', 'MAIL FROM:<> SMTPUTF8', 'RCPT TO:<jürgen@b.test>'],
      ['553 5.6.7', '250 2.1.0', '250 2.1.5'],
    ],
    ['a recipient in UTF-8 needs SMTPUTF8', ['MAIL FROM:<>', 'RCPT TO:<jürgen@b.test>'], ['250 2.1.0', '553 5.6.7']],
    [
      'unknown parameters are rejected (RFC 5321 §4.1.1.11)',
      ['MAIL FROM:<> RET=HDRS', 'MAIL FROM:<> BODY=BINARYMIME', 'MAIL FROM:<>', 'RCPT TO:<a@b.test> NOTIFY=NEVER'],
      ['555 5.5.4', '501 5.5.4', '250 2.1.0', '555 5.5.4'],
    ],
    [
      'invalid addresses are rejected',
      ['MAIL FROM:a@b.test', 'MAIL FROM:<a b@c.test>', 'MAIL FROM:<>', 'RCPT TO:<>'],
      ['501 5.1.7', '501 5.1.7', '250 2.1.0', '501 5.1.3'],
    ],
  ])('%s', async (_, lines, expected) => {
    const replies = await dialogue(fixture, lines)
    expect(replies.map((reply) => reply.match(/^\d{3}(?: \d\.\d\.\d)?/)?.[0])).toEqual(expected)
  })
})

describe('a message', () => {
  test('is passed on with its envelope, with TLS and without', async () => {
    await using client = await fixture.connectGreeted()
    const replies = [
      await client.say('MAIL FROM:<"a b"@Sender.Test> BODY=8BITMIME'),
      await client.say('RCPT TO:<Bob@X.test>'),
      await client.say('RCPT TO:<nobody@x.test>'),
      await client.say('RCPT TO:<bob@x.test>'),
      await client.say('RCPT TO:<postmaster>'),
      await client.say('DATA'),
      await client.say('Subject: Grüße\r\n\r\n..\n.\r\n.'),
    ]
    await client.startTls()
    await client.say('HELO Other.Test')
    await client.say('MAIL FROM:<>')
    await client.say('RCPT TO:<bob@x.test>')
    await client.say('DATA')
    replies.push(await client.say(`${MESSAGE}.`))
    const [first, second] = fixture.received
    expect({ replies, first, second: { ...second, tls: second?.tls?.startsWith('TLSv1.3 TLS_') } }).toEqual({
      replies: [
        '250 2.1.0 Accepted',
        '250 2.1.5 Accepted',
        '550 5.1.1 User unknown',
        '250 2.1.5 Accepted',
        '250 2.1.5 Accepted',
        '354 End data with <CR><LF>.<CR><LF>',
        '250 2.6.0 Message accepted',
        '250 2.6.0 Message accepted',
      ],
      first: {
        mailFrom: '"a b"@sender.test',
        // A repeated address is one recipient.
        destinations: [
          { kind: 'host', address: 'bob@x.test' },
          { kind: 'host', address: 'postmaster' },
        ],
        sourceIp: '127.0.0.1',
        helo: 'client.test',
        tls: null,
        sizeBytes: 26,
        kind: 'bytes',
        text: Buffer.from('Subject: Grüße\r\n\r\n.\r\n.\r\n').toString('latin1'),
      },
      second: {
        mailFrom: '',
        destinations: [{ kind: 'host', address: 'bob@x.test' }],
        sourceIp: '127.0.0.1',
        helo: 'other.test',
        tls: true,
        sizeBytes: MESSAGE.length,
        kind: 'bytes',
        text: MESSAGE,
      },
    })
  })

  // Proves: inbound-21
  test('gets no reply before it is on disk, while other sessions continue', async () => {
    const arrived = Promise.withResolvers<void>()
    const onDisk = Promise.withResolvers<void>()
    await using fixture = await startTestListener({
      receive() {
        arrived.resolve()
        return onDisk.promise
      },
    })
    await using client = await fixture.connectGreeted()
    await beginMessage(client)
    await client.write(`${MESSAGE}.\r\n`)
    let reply: string | undefined
    const replied = client.reply().then((text) => {
      reply = text
    })
    await arrived.promise
    await using other = await fixture.connectGreeted()
    const meanwhile = [await other.say('NOOP'), await beginMessage(other), reply]
    onDisk.resolve()
    await replied
    expect({ meanwhile, reply }).toEqual({
      meanwhile: ['250 2.0.0 OK', '354 End data with <CR><LF>.<CR><LF>', undefined],
      reply: '250 2.6.0 Message accepted',
    })
  })

  // Proves: inbound-21
  test.each([
    ['full storage', () => new AppError(507, 'insufficient_storage', 'Full'), '452 4.3.1'],
    ['a locked database', () => Object.assign(new Error('database is locked'), { code: 'SQLITE_BUSY' }), '452 4.3.1'],
    ['a bug', () => new TypeError('undefined is not a function'), '451 4.3.0'],
    ['an error meant for a client of the API', () => new AppError(422, 'validation_failed', 'No'), '451 4.3.0'],
  ])('gets a temporary rejection on a local failure (%s)', async (_, error, expected) => {
    let calls = 0
    await using fixture = await startTestListener({
      async receive() {
        if (++calls === 1) throw error()
      },
    })
    await using client = await fixture.connectGreeted()
    const replies = [await sendMessage(client, MESSAGE), await sendMessage(client, MESSAGE)]
    expect({ replies: replies.map((reply) => reply.slice(0, 9)), taken: fixture.received.length }).toEqual({
      replies: [expected, '250 2.6.0'],
      taken: 1,
    })
  })

  // Proves: inbound-21
  test.each([
    ['a low disk', { isDiskLow: async () => true }, '452 4.3.1 Insufficient system storage; try again later'],
    [
      'a failed decision',
      {
        decide: (): never => {
          throw new Error('database is locked')
        },
      },
      '451 4.3.0 Local error in processing; try again later',
    ],
    [
      'a rejection by the decision',
      { decide: () => ({ code: 450, text: '4.2.1 Not\r\n250 now' }) },
      '450 4.2.1 Not  250 now',
    ],
  ])('is rejected at RCPT: %s', async (_, options, expected) => {
    await using fixture = await startTestListener(options)
    const [, reply] = await dialogue(fixture, ['MAIL FROM:<>', 'RCPT TO:<a@b.test>'])
    expect(reply).toBe(expected)
  })

  test.each([
    ['is passed in memory up to 256 KiB', 256 * KiB, 'bytes'],
    ['is passed in a file above 256 KiB', 256 * KiB + 1, 'file'],
    ['is passed in a file of many blocks', 2 * MiB, 'file'],
  ])('%s, and no file remains', async (_, sizeBytes, kind) => {
    let hash: string | undefined
    await using fixture = await startTestListener({
      async receive({ content }: CompleteMessage) {
        if (content.kind === 'file') hash = Buffer.from(content.hash).toString('hex')
      },
    })
    await using client = await fixture.connectGreeted()
    // One long line of incompressible octets of every value except those of line ends.
    const octets = randomBytes(sizeBytes - 2).map((octet) => (octet === 10 || octet === 13 ? 0 : octet))
    const message = Buffer.concat([Buffer.from('x'), octets.subarray(1), Buffer.from('\r\n')])
    const reply = await sendMessage(client, message)
    const expectedHash = new Bun.CryptoHasher('sha256').update(message).digest('hex').slice(0, 32)
    const [taken] = fixture.received
    expect({
      reply,
      kind: taken?.kind,
      sizeBytes: taken?.sizeBytes,
      isWhole: taken?.text === message.toString('latin1'),
      hash,
      spooled: fixture.listSpooled(),
    }).toEqual({
      reply: '250 2.6.0 Message accepted',
      kind,
      sizeBytes,
      isWhole: true,
      hash: kind === 'file' ? expectedHash : undefined,
      spooled: [],
    })
  })

  test('above the size limit is rejected after its dot and not stored, and the next one is accepted', async () => {
    await using fixture = await startTestListener({ traffic: { maxMessageBytes: MiB } })
    await using client = await fixture.connectGreeted()
    const line = `${'x'.repeat(1022)}\r\n`
    const replies = [
      await sendMessage(client, line.repeat(1024)),
      await sendMessage(client, `${line.repeat(1024)}x\r\n`),
      await sendMessage(client, MESSAGE),
    ]
    expect({
      replies,
      sizes: fixture.received.map(({ sizeBytes }) => sizeBytes),
      spooled: fixture.listSpooled(),
    }).toEqual({
      replies: [
        '250 2.6.0 Message accepted',
        '552 5.3.4 Error: message exceeds fixed maximum message size 1048576',
        '250 2.6.0 Message accepted',
      ],
      sizes: [MiB, MESSAGE.length],
      spooled: [],
    })
  })

  test('of twice the size limit is not read to its end', async () => {
    await using fixture = await startTestListener({ traffic: { maxMessageBytes: MiB } })
    await using client = await fixture.connectGreeted()
    await beginMessage(client)
    const line = `${'x'.repeat(1022)}\r\n`.repeat(64)
    for (let i = 0; i < 33; i++) void client.write(line)
    expect([await client.reply(), await client.closed(), fixture.received]).toEqual([
      '552 5.3.4 Message size exceeds limit',
      '',
      [],
    ])
  })

  test('whose client disconnects early is dropped, with its file', async () => {
    const client = await fixture.connectGreeted()
    await beginMessage(client)
    await client.write(`${'x'.repeat(1022)}\r\n`.repeat(512))
    client.destroy()
    await using next = await fixture.connectGreeted()
    await sendMessage(next, MESSAGE)
    // The Worker may learn of the end of that connection later.
    await eventually(() => fixture.listSpooled().length === 0)
    expect(fixture.received).toHaveLength(1)
  })

  test('whose client disconnects while it is stored is stored', async () => {
    const arrived = Promise.withResolvers<void>()
    const onDisk = Promise.withResolvers<void>()
    await using fixture = await startTestListener({
      receive() {
        arrived.resolve()
        return onDisk.promise
      },
    })
    const client = await fixture.connectGreeted()
    await beginMessage(client)
    await client.write(`${MESSAGE}.\r\n`)
    await arrived.promise
    client.destroy()
    onDisk.resolve()
    await using next = await fixture.connectGreeted()
    const reply = await sendMessage(next, MESSAGE)
    expect({ reply, taken: fixture.received.length }).toEqual({ reply: '250 2.6.0 Message accepted', taken: 2 })
  })

  test('goes to a file when the memory for arriving messages is full, however small', async () => {
    await using fixture = await startTestListener({ limits: { bufferBytes: 40 } })
    await using first = await fixture.connectGreeted()
    await using second = await fixture.connectGreeted()
    await beginMessage(first)
    await first.write('a')
    await beginMessage(second)
    const replies = [await second.say(`${MESSAGE}${MESSAGE}.`), await first.say(`${MESSAGE}.`)]
    const kinds = fixture.received.map(({ kind }) => kind)
    expect([...replies.map((reply) => reply.slice(0, 3)), ...kinds]).toEqual(['250', '250', 'file', 'bytes'])
  })

  // Proves: inbound-19
  test('is rejected temporarily when its network has used its share of the spool, which is freed again', async () => {
    await using fixture = await startTestListener({ limits: { spoolBytes: 6 * MiB } })
    await using client = await fixture.connectGreeted()
    await using other = await fixture.connectGreeted({ localAddress: '127.0.1.2' })
    const large = (sizeBytes: number) => `${'x'.repeat(sizeBytes)}\r\n`
    await beginMessage(client)
    await client.write(large(MiB))
    await using second = await fixture.connectGreeted()
    const replies = [
      await sendMessage(second, large(MiB)),
      await sendMessage(other, large(MiB)),
      await client.say('.'),
      await sendMessage(second, large(MiB)),
    ]
    expect({ replies, spooled: fixture.listSpooled() }).toEqual({
      replies: [
        '452 4.3.1 Insufficient system storage; try again later',
        '250 2.6.0 Message accepted',
        '250 2.6.0 Message accepted',
        '250 2.6.0 Message accepted',
      ],
      spooled: [],
    })
  })

  test('in progress cannot use the disk reserve', async () => {
    await using fixture = await startTestListener({ config: { minFreeDisk: 1024 * 1024 * GiB } })
    await using client = await fixture.connectGreeted()
    const large = randomBytes(MiB).toString('base64').slice(0, MiB)
    const replies = [await sendMessage(client, `${large}\r\n`), await sendMessage(client, MESSAGE)]
    expect({ replies, spooled: fixture.listSpooled() }).toEqual({
      replies: ['452 4.3.1 Insufficient system storage; try again later', '250 2.6.0 Message accepted'],
      spooled: [],
    })
  })

  // Proves: inbound-19
  test('of a newcomer has space, however many networks have filled their share of the spool', async () => {
    await using fixture = await startTestListener({ limits: { spoolBytes: 6 * MiB } })
    await using open = new AsyncDisposableStack()
    for (let n = 1; n <= 8; n++) {
      const client = open.use(await fixture.connectGreeted({ localAddress: `127.0.1.${n}` }))
      await beginMessage(client)
      await client.write(`${'x'.repeat(0.9 * MiB)}\r\n`)
    }
    await using newcomer = await fixture.connectGreeted({ localAddress: '127.0.2.1' })
    expect(await sendMessage(newcomer, `${'x'.repeat(0.7 * MiB)}\r\n`)).toBe('250 2.6.0 Message accepted')
  })

  test('from swaks is accepted, with STARTTLS and pipelining', async () => {
    const swaks = Bun.spawn(
      [
        'swaks',
        ...['--server', '127.0.0.1', '--port', String(fixture.port), '--tls', '--pipeline', '--helo', 'swaks.test'],
        ...['--from', 'ada@sender.test', '--to', 'bob@x.test,eve@x.test', '--data', 'Subject: Swaks\\n\\n.dot\\n'],
      ],
      { stdout: 'pipe', stderr: 'pipe' },
    )
    const output = await new Response(swaks.stdout).text()
    const [taken] = fixture.received
    expect({
      code: await swaks.exited,
      said: output.includes('250 2.6.0 Message accepted'),
      destinations: taken?.destinations.map(({ address }) => address),
      text: taken?.text,
    }).toEqual({
      code: 0,
      said: true,
      destinations: ['bob@x.test', 'eve@x.test'],
      // swaks appends a line to every message.
      text: 'Subject: Swaks\r\n\r\n.dot\r\n\r\n',
    })
  })
})
