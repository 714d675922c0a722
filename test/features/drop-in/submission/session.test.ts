/** @module Sessions with the submission listener: login, limits, and what a hostile or careless client sends. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { eventually } from '#test/support/app.ts'
import { VERIFIED } from '#test/support/email-api.ts'
import { connectSmtp, type RawSmtp } from '#test/support/smtp-client.ts'
import {
  createMessage,
  encode,
  encodePlain,
  greetTls,
  idOf,
  type SubmissionFixture,
  sendMessage,
  startSubmissionFixture,
} from './fixture.ts'

let service: SubmissionFixture

beforeAll(async () => {
  service = await startSubmissionFixture({ settings: { TASSIS_MAX_BODY_BYTES: '1MiB' } })
})
afterAll(() => service[Symbol.asyncDispose]())

const codeOf = (reply: string): string | undefined => /^\d{3}(?: \d\.\d{1,3}\.\d{1,3})?/.exec(reply)?.[0]

async function dialogue(client: RawSmtp, lines: readonly string[]): Promise<(string | undefined)[]> {
  const codes: (string | undefined)[] = []
  for (const line of lines) codes.push(codeOf(await client.say(line)))
  return codes
}

const FROM = `MAIL FROM:<ada@${VERIFIED}>`
const TO = 'RCPT TO:<bob@receiver.test>'

describe('a session', () => {
  test('offers AUTH only under TLS', async () => {
    await using client = await connectSmtp(service.port)
    await client.reply()
    const inClear = await client.say('EHLO client.test')
    await client.startTls()
    const secured = await client.say('EHLO client.test')
    const extensions = 'PIPELINING\n250-8BITMIME\n250-SMTPUTF8\n250-ENHANCEDSTATUSCODES\n'
    expect({ inClear, secured }).toEqual({
      inClear: `250-mail.tassis.test\n250-${extensions}250-STARTTLS\n250-CHUNKING\n250 SIZE 1048576`,
      secured: `250-mail.tassis.test\n250-${extensions}250-CHUNKING\n250-AUTH PLAIN LOGIN\n250 SIZE 1048576`,
    })
  })

  test('begins with TLS on the other port', async () => {
    expect(await greetTls(service.tlsPort)).toBe('220 mail.tassis.test ESMTP\r\n')
  })

  test.each([
    ['AUTH and MAIL need TLS', ['EHLO c.test', 'AUTH PLAIN AGEAYg==', FROM], ['250', '538 5.7.11', '530 5.7.0']],
    ['MAIL needs EHLO', [FROM], ['503 5.5.1']],
  ])('in clear: %s', async (_, lines, expected) => {
    await using client = await connectSmtp(service.port)
    await client.reply()
    expect(await dialogue(client, lines)).toEqual(expected)
  })

  test.each([
    ['MAIL needs a login', [FROM, TO, 'DATA'], ['530 5.7.0', '503 5.5.1', '503 5.5.1']],
    [
      'AUTH has a syntax',
      ['AUTH', 'AUTH PLAIN a b', 'AUTH CRAM-MD5', 'AUTH PLAIN !', 'AUTH PLAIN AGE='],
      ['501 5.5.4', '501 5.5.4', '504 5.5.4', '501 5.5.2', '501 5.5.2'],
    ],
    [
      'AUTH can be aborted',
      ['AUTH PLAIN', '*', 'AUTH LOGIN', 'QQ==', '*'],
      ['334', '501 5.7.0', '334', '334', '501 5.7.0'],
    ],
    ['an empty initial response is no login', ['AUTH PLAIN ='], ['501 5.5.2']],
  ])('secured: %s', async (_, lines, expected) => {
    await using client = await service.connectSecure()
    expect(await dialogue(client, lines)).toEqual(expected)
  })

  test.each([
    ['any user name, with an initial response', (key: string) => [`AUTH PLAIN ${encodePlain('resend', key)}`]],
    ['the key as both', (key: string) => [`AUTH PLAIN ${encodePlain(key, key)}`]],
    ['PLAIN after a challenge', (key: string) => ['AUTH PLAIN', encodePlain('apikey', key)]],
    ['LOGIN', (key: string) => ['auth login', encode('apikey'), encode(key)]],
    ['LOGIN with the user name in the command', (key: string) => [`AUTH LOGIN ${encode('apikey')}`, encode(key)]],
  ])('logs in with %s', async (_, createLines) => {
    await using client = await service.connectSecure()
    const codes = await dialogue(client, [...createLines(service.key), 'AUTH PLAIN AGEAYg==', FROM])
    expect(codes.slice(-3)).toEqual(['235 2.7.0', '503 5.5.1', '250 2.1.0'])
  })

  test('rejects a key without the scope, and says so', async () => {
    const key = await service.newKey(['emails:read'])
    await using client = await service.connectSecure()
    expect(await client.say(`AUTH PLAIN ${encodePlain('a', key)}`)).toBe(
      '535 5.7.8 This API key may not send; use one with the scope emails:send',
    )
  })

  test.each([
    ['no password', '', /^535 5\.7\.8 Authentication failed: there is no password; it must be an API key/],
    ['a wrong one', 'tassis_live_wrong', /^535 5\.7\.8 Authentication failed: the password is no valid API key/],
  ])('says whether there is %s', async (_, password, reply) => {
    await using client = await service.connectSecure()
    expect(await client.say(`AUTH PLAIN ${encodePlain('a', password)}`)).toMatch(reply)
  })

  test('is ended by the third failed login', async () => {
    await using client = await service.connectSecure()
    const line = `AUTH PLAIN ${encodePlain('a', 'tassis_live_wrong')}`
    expect(await dialogue(client, [line, line])).toEqual(['535 5.7.8', '535 5.7.8'])
    await client.write(`${line}\r\n`)
    expect(await client.closed()).toMatch(/^535 5\.7\.8 .*\r\n421 4\.7\.0 Too many failed logins in one session\r\n$/)
  })

  test('sends nothing with a key that was deleted after the login', async () => {
    const key = await service.newKey(['emails:send'])
    await using client = await service.connectLoggedIn(key)
    const { body } = await service.api('GET', '/v1/api-keys')
    const [newest] = (body as { data: { id: string }[] }).data
    await service.api('DELETE', `/v1/api-keys/${newest?.id}`)
    expect(codeOf(await sendMessage(client, createMessage()))).toBe('535 5.7.8')
  })

  test('gives a wrong key and a wrong network a limit, which do not hold for others', async () => {
    await using own = await startSubmissionFixture()
    const attempt = async (localAddress: string, password: string): Promise<string | undefined> => {
      await using client = await own.connectSecure({ localAddress })
      return codeOf(await client.say(`AUTH PLAIN ${encodePlain('a', password)}`))
    }
    const ofKey: (string | undefined)[] = []
    for (let i = 0; i < 11; i++) ofKey.push(await attempt(`127.0.1.${i + 1}`, 'tassis_live_deleted'))
    const ofNetwork: (string | undefined)[] = []
    for (let i = 0; i < 21; i++) ofNetwork.push(await attempt('127.0.2.1', `tassis_live_guess_${i}`))
    const rightAfterwards = [await attempt('127.0.2.1', own.key), await attempt('127.0.2.2', own.key)]
    expect({ ofKey, ofNetwork, rightAfterwards }).toEqual({
      ofKey: [...Array(10).fill('535 5.7.8'), '454 4.7.0'],
      ofNetwork: [...Array(20).fill('535 5.7.8'), '454 4.7.0'],
      rightAfterwards: ['454 4.7.0', '235 2.7.0'],
    })
  })
})

// Proves: submission-2
test('a message goes to its other recipients, however many cannot be sent to', async () => {
  await using client = await service.connectLoggedIn()
  await client.say(FROM)
  const invalid = await client.say('RCPT TO:<admin@intranet>')
  for (let i = 0; i < 60; i++) expect(codeOf(await client.say(`RCPT TO:<user${i}@intranet>`))).toBe('553 5.1.3')
  expect([invalid, codeOf(await client.say(TO)), codeOf(await client.say('DATA'))]).toEqual([
    '553 5.1.3 The domain "intranet" has no dot.',
    '250 2.1.5',
    '354',
  ])
  await client.write(createMessage(['Cc: admin@intranet']))
  expect(await service.detail(idOf(await client.say('.')))).toMatchObject({ to: 'bob@receiver.test', cc: [], bcc: [] })
})

test('a client may send a good message in the session in which others were rejected, however many', async () => {
  await using client = await service.connectLoggedIn()
  const foreign = createMessage().replace(VERIFIED, 'other.test')
  for (let i = 0; i < 12; i++) expect(codeOf(await sendMessage(client, foreign))).toBe('550 5.7.1')
  expect(codeOf(await sendMessage(client, createMessage()))).toBe('250 2.0.0')
})

describe('a transaction', () => {
  // Proves: inbound-40, submission-2
  test.each([
    [
      'is told at MAIL that the message is too large',
      [`${FROM} SIZE=1048577`, `${FROM} SIZE=1048576`],
      ['552 5.3.4', '250 2.1.0'],
    ],
    [
      'needs a recipient',
      [FROM, 'DATA', 'RCPT TO:<>', 'RCPT TO:<a b@c.test>'],
      ['250 2.1.0', '554 5.5.1', '501 5.1.3', '501 5.1.3'],
    ],
    [
      'takes no address to which nothing can be sent',
      [FROM, 'RCPT TO:<root>', 'RCPT TO:<admin@intranet>', 'RCPT TO:<bob@[127.0.0.1]>', 'RCPT TO:<Postmaster>', 'DATA'],
      ['250 2.1.0', '553 5.1.3', '553 5.1.3', '553 5.1.3', '553 5.1.3', '554 5.5.1'],
    ],
    ['takes a local sender', ['MAIL FROM:<www-data> SIZE=100', TO], ['250 2.1.0', '250 2.1.5']],
    [
      'takes a name of the client with blanks',
      ['EHLO My Office PC', FROM, TO, 'HELO my  pc', FROM, TO],
      ['250', '250 2.1.0', '250 2.1.5', '250', '250 2.1.0', '250 2.1.5'],
    ],
    ['cannot be nested, nor hold AUTH', [FROM, FROM, 'AUTH PLAIN AGEAYg=='], ['250 2.1.0', '503 5.5.1', '503 5.5.1']],
    ['rejects unknown parameters', [`${FROM} RET=FULL`, `${FROM} BODY=BINARYMIME`], ['555 5.5.4', '501 5.5.4']],
    ['takes the null reverse-path', ['MAIL FROM:<>', TO], ['250 2.1.0', '250 2.1.5']],
    [
      'takes addresses in UTF-8 with SMTPUTF8',
      [`${FROM} SMTPUTF8`, 'RCPT TO:<jürgen@receiver.test>'],
      ['250 2.1.0', '250 2.1.5'],
    ],
  ])('%s', async (_, lines, expected) => {
    await using client = await service.connectLoggedIn()
    expect(await dialogue(client, lines)).toEqual(expected)
  })

  test('takes 50 recipients, and rejects the 51st for now', async () => {
    await using client = await service.connectLoggedIn()
    const to = (i: number) => `RCPT TO:<r${i}@receiver.test>`
    const codes = await dialogue(client, [FROM, ...Array.from({ length: 51 }, (_, i) => to(i)), to(3), 'DATA'])
    expect(codes.slice(-4)).toEqual(['250 2.1.5', '452 4.5.3', '250 2.1.5', '354'])
    await client.write(createMessage())
    const detail = await service.detail(idOf(await client.say('.')))
    expect((detail['recipients'] as unknown[]).length).toBe(50)
  })

  test('runs in one write (PIPELINING), and the next one in the same session', async () => {
    await using client = await service.connectLoggedIn()
    const transaction = `${FROM}\r\n${TO}\r\nDATA\r\n`
    await client.write(transaction)
    expect([await client.reply(), await client.reply(), await client.reply()].map(codeOf)).toEqual([
      '250 2.1.0',
      '250 2.1.5',
      '354',
    ])
    await client.write(`${createMessage()}.\r\n${transaction}`)
    expect(
      [await client.reply(), await client.reply(), await client.reply(), await client.reply()].map(codeOf),
    ).toEqual(['250 2.0.0', '250 2.1.0', '250 2.1.5', '354'])
  })
})

describe('BDAT', () => {
  const [start, rest] = [createMessage().slice(0, 40), createMessage().slice(40)]

  test('takes a message in chunks, in one write with their commands', async () => {
    await using client = await service.connectLoggedIn()
    await client.write(
      `${FROM}\r\n${TO}\r\nBDAT ${start.length}\r\n${start}BDAT ${rest.length}\r\n${rest}BDAT 0 LAST\r\nNOOP\r\n`,
    )
    const replies: string[] = []
    for (let i = 0; i < 6; i++) replies.push(await client.reply())
    expect(replies.map(codeOf)).toEqual(['250 2.1.0', '250 2.1.5', '250 2.0.0', '250 2.0.0', '250 2.0.0', '250 2.0.0'])
    expect(replies[2]).toBe('250 2.0.0 40 octets received')
    expect(await service.detail(idOf(replies[4] ?? ''))).toMatchObject({ subject: 'Hello', text_body: 'Hello.\n' })
  })

  test('leaves dots as they are, and makes CRLF of LF', async () => {
    await using client = await service.connectLoggedIn()
    await dialogue(client, [FROM, TO])
    const message = createMessage([], '..a\r\n.\r\n.b\nc').replaceAll('Hello\r\n', 'Hello\n')
    await client.write(`BDAT ${message.length} LAST\r\n${message}`)
    expect(await service.detail(idOf(await client.reply()))).toMatchObject({ text_body: '..a\n.\n.b\nc\n' })
  })

  test('takes a large message whose chunks come octets at a time', async () => {
    await using client = await service.connectLoggedIn()
    await dialogue(client, [FROM, TO])
    const message = createMessage([], `${'0123456789abcdef'.repeat(40_000)}`.replaceAll(/.{70}/g, '$&\r\n'))
    for (let at = 0; at < message.length; at += 100_000) {
      const chunk = message.slice(at, at + 100_000)
      await client.write(`BDAT ${chunk.length}${at + 100_000 >= message.length ? ' LAST' : ''}\r\n`)
      await client.write(chunk.slice(0, 7))
      await client.write(chunk.slice(7))
      expect(codeOf(await client.reply())).toBe('250 2.0.0')
    }
  })

  test.each([
    [
      'without a transaction, its octets are discarded',
      [
        ['BDAT 5 LAST\r\nQUIT\n', '503 5.5.1'],
        ['NOOP\r\n', '250 2.0.0'],
      ],
    ],
    [
      'nothing else may come between chunks, until RSET',
      [
        [`${FROM}\r\n`, '250 2.1.0'],
        [`${TO}\r\n`, '250 2.1.5'],
        ['BDAT 2\r\nab', '250 2.0.0'],
        ['DATA\r\n', '503 5.5.1'],
        [`${TO}\r\n`, '503 5.5.1'],
        [`${FROM}\r\n`, '503 5.5.1'],
        ['RSET\r\n', '250 2.0.0'],
        [`${FROM}\r\n`, '250 2.1.0'],
      ],
    ],
    [
      'octets above the announced size are commands, and no message',
      [
        [`${FROM}\r\n`, '250 2.1.0'],
        [`${TO}\r\n`, '250 2.1.5'],
        ['BDAT 2\r\nabSubject: more\r\n', '250 2.0.0'],
        ['', '500 5.5.2'],
        ['BDAT 0 LAST\r\n', '250 2.0.0'],
      ],
    ],
    ['a size that is none ends the session', [['BDAT x LAST\r\n', '501 5.5.4']]],
    ['so does one far above the limit', [['BDAT 999999999999\r\n', '552 5.3.4']]],
    [
      'chunks above the limit together are rejected at the last',
      [
        [`${FROM}\r\n`, '250 2.1.0'],
        [`${TO}\r\n`, '250 2.1.5'],
        [`BDAT 700000\r\n${'a'.repeat(700_000)}`, '250 2.0.0'],
        [`BDAT 700000 LAST\r\n${'a'.repeat(700_000)}`, '552 5.3.4'],
        [`${FROM}\r\n`, '250 2.1.0'],
      ],
    ],
  ])('%s', async (_, steps) => {
    await using client = await service.connectLoggedIn()
    const codes: (string | undefined)[] = []
    for (const [text = ''] of steps) {
      await client.write(text)
      codes.push(codeOf(await client.reply()))
    }
    expect(codes).toEqual(steps.map(([, code]) => code))
  })

  test('a chunk that never comes leaves nothing behind', async () => {
    const before = service.stored()
    const client = await service.connectLoggedIn()
    await dialogue(client, [FROM, TO])
    await client.write('BDAT 1000 LAST\r\nSubject: lost\r\n')
    client.destroy()
    await using other = await service.connectLoggedIn()
    await eventually(async () => (await other.say('NOOP')).startsWith('250'))
    expect(service.stored()).toEqual(before)
  })
})
