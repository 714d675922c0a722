import { describe, expect, test } from 'bun:test'
import { createPrivateKey, generateKeyPairSync } from 'node:crypto'
import { formatDkimRecord, generateDkimKey } from '#protocols/dkim/keys.ts'
import { OVERSIGNED_HEADER_NAMES, SIGNED_HEADER_NAMES, signMessage } from '#protocols/dkim/sign.ts'
import { composeToBuffer } from '#test/support/compose.ts'
import { createTrickyInput, seededRandom } from '../mime/sample.ts'
import { hasDkimpy, verifyWithDkimpy, verifyWithMailauth } from './verifiers.ts'

const key = await generateDkimKey()
const record = formatDkimRecord(key.publicKey)
const options = { domain: 'example.com', selector: 's1', privateKey: createPrivateKey(key.privateKeyPem) }

const HEADER = [
  'From: a@example.com',
  'To: b@example.net',
  'Subject: Hi',
  'Date: Fri, 02 Jan 2026 03:04:05 +0000',
  'Message-ID: <a@example.com>',
]
/** As octets: a character above 0xff would be lost, so `utf8` encodes UTF-8. */
const message = (body: string, header: readonly string[] = HEADER) =>
  Buffer.from(`${header.join('\r\n')}\r\n\r\n${body}`, 'latin1')
const utf8 = (text: string) => Buffer.from(text).toString('latin1')

const corpus: Record<string, Uint8Array> = {
  'a plain line': message('Hello\r\n'),
  'an empty body': message(''),
  'no body at all': Buffer.from(`${HEADER.join('\r\n')}\r\n`),
  'only line ends': message('\r\n\r\n\r\n'),
  'only spaces': message('   \r\n \t \r\n'),
  'no line end at the end': message('Hello'),
  'empty lines at the end': message('Hello\r\n\r\n\r\n\r\n'),
  'spaces at line ends': message('Hello \t \r\n-- \r\nx \r\n'),
  'runs of blanks': message(' a  b\t\tc \t d\r\n\tindented\r\n'),
  'NBSP and U+2028': message(utf8('a\u00a0\u00a0b \u00a0\r\n\u2028c\u2029\r\n\u00a0\r\n')),
  'form feed and vertical tab': message('a\f\r\n\v b\f \r\n\f\r\n'),
  'lines of dots': message('.\r\n..\r\n.a\r\n'),
  'a line of 998 octets': message(`${'x'.repeat(998)}\r\n${'y '.repeat(499)}\r\n`),
  'a line of 5,000 octets': message(`${'x'.repeat(5_000)}\r\n`),
  'latin-1 octets': message('caf\xe9 \xa0\xff\r\n\x85\xa0\r\n'),
  'control octets': message('\x01\x02\x1b[0m\x7f\r\n'),
  'folded fields': message('x\r\n', [
    'From: "A\r\n  B"\r\n\t<a@example.com>',
    'Subject: a\r\n b\r\n\t  c',
    ...HEADER.slice(3),
  ]),
  'tabs and blanks after the colon': message('x\r\n', [
    'From:\ta@example.com\t ',
    'SUBJECT:  x \t y  ',
    'to:b@example.net',
  ]),
  'an empty Subject': message('x\r\n', ['From: a@example.com', 'Subject:', 'To: ']),
  '8-bit fields': message('x\r\n', [utf8('From: Zoë\u00a0 <zoë@example.com>'), 'Subject: caf\xe9']),
  'duplicate fields': message('x\r\n', [
    ...HEADER,
    'X-Dup: 1',
    'x-dup: 2',
    'List-Id: <a>',
    'List-Id: <b>',
    'References: <1>',
    'References: <2>',
  ]),
  'every signed field': message(
    'x\r\n',
    [...SIGNED_HEADER_NAMES].reverse().map((name) => `${name}: value  of\r\n ${name}`),
  ),
  'a body like a header': message('From: x@example.org\r\n\r\nDKIM-Signature: v=1\r\n'),
}

/** Random bodies of the octets that canonicalisations treat differently; a message cannot contain bare CR and LF. */
function randomMessages(seed: number, count: number): Uint8Array[] {
  const random = seededRandom(seed)
  const pieces = [' ', '\t', '\r\n', '\r\n', 'a', '.', '\xa0', '\f', '\v', utf8('é'), '\x85', '=20']
  return Array.from({ length: count }, () =>
    message(Array.from({ length: random(40) }, () => pieces[random(pieces.length)]).join('')),
  )
}

/**
 * The message as a receiver gets it: SMTP ends the last line. dkimpy keeps white space in a last line without CRLF,
 * which cannot be received.
 */
function arrived(signed: Uint8Array): Uint8Array {
  const bytes = Buffer.from(signed)
  return bytes.subarray(-2).equals(Buffer.from('\r\n')) ? bytes : Buffer.concat([bytes, Buffer.from('\r\n')])
}

const composed = await Promise.all(
  Array.from({ length: 20 }, (_, number) => composeToBuffer(createTrickyInput(number))),
)

describe('signatures verify with mailauth', () => {
  // Proves: delivery-11
  test.each(Object.entries(corpus))('%s', async (_, unsigned) => {
    expect(await verifyWithMailauth(arrived(signMessage(unsigned, options)), record)).toBe('pass')
  })

  test('composed messages and random bodies', async () => {
    for (const unsigned of [...composed, ...randomMessages(3, 60)])
      expect(await verifyWithMailauth(arrived(signMessage(unsigned, options)), record)).toBe('pass')
  })
})

const ADDED_FIELDS = {
  from: 'From: evil@example.org',
  to: 'To: evil@example.org',
  cc: 'Cc: evil@example.org',
  subject: 'Subject: Evil',
  date: 'Date: Thu, 01 Jan 2026 03:04:05 +0000',
  'reply-to': 'Reply-To: evil@example.org',
  'mime-version': 'MIME-Version: 1.0',
  'content-type': 'Content-Type: text/html',
  'list-unsubscribe': 'List-Unsubscribe: <https://evil.example.org/>',
  'list-unsubscribe-post': 'List-Unsubscribe-Post: List-Unsubscribe=One-Click',
}

// Skipped where Python has no dkimpy (Debian: python3-dkim).
describe('signatures verify with dkimpy', () => {
  // Proves: delivery-11
  test.skipIf(!hasDkimpy)('the whole corpus, composed messages and random bodies', () => {
    // dkimpy rejects a header without a blank line after it.
    const { 'no body at all': _, ...complete } = corpus
    const names = [
      ...Object.keys(complete),
      ...composed.map((_, i) => `composed ${i}`),
      ...Array.from({ length: 60 }, (_, i) => `random ${i}`),
    ]
    const unsigned = [...Object.values(complete), ...composed, ...randomMessages(3, 60)]
    const verdicts = verifyWithDkimpy(
      unsigned.map((each) => arrived(signMessage(each, options))),
      record,
    )
    expect(verdicts).toHaveLength(names.length)
    expect(names.filter((_, i) => !verdicts[i])).toEqual([])
  })

  test.skipIf(!hasDkimpy)('not when an oversigned field is added or the body is changed', () => {
    const signed = Buffer.from(signMessage(message('Hello\r\n'), options)).toString('latin1')
    const changed = [
      ...Object.values(ADDED_FIELDS).map((field) => `${field}\r\n${signed}`),
      signed.replace('Hello', 'Hullo'),
      `Sender: list@example.org\r\n${signed}`,
    ]
    expect(
      verifyWithDkimpy(
        changed.map((text) => Buffer.from(text, 'latin1')),
        record,
      ),
    ).toEqual([...changed.slice(1).map(() => false), true])
  })
})

test.each([
  ['another From before it', 'fail', (signed: string) => `From: evil@example.org\r\n${signed}`],
  ['another From after it', 'fail', (signed: string) => signed.replace('\r\nTo:', '\r\nFrom: evil@example.org\r\nTo:')],
  ['another Subject', 'fail', (signed: string) => signed.replace('Subject: Hi', 'Subject: Ho')],
  ['another body', 'neutral', (signed: string) => signed.replace('Hello', 'Hullo')],
])('a signature does not pass after %s', async (_, verdict, change) => {
  const signed = Buffer.from(signMessage(message('Hello\r\n'), options)).toString('latin1')
  expect(change(signed)).not.toBe(signed)
  expect(await verifyWithMailauth(Buffer.from(change(signed), 'latin1'), record)).toBe(verdict)
})

// Proves: delivery-11
test('the signature is one field before an unchanged message, with lines under 79 characters', () => {
  const unsigned = corpus['every signed field'] ?? message('')
  const signed = Buffer.from(signMessage(unsigned, options)).toString('latin1')
  const field = signed.slice(0, signed.length - unsigned.length)
  expect(signed.endsWith(Buffer.from(unsigned).toString('latin1'))).toBe(true)
  expect(field).toMatch(
    /^DKIM-Signature: v=1; a=rsa-sha256; c=relaxed\/relaxed; q=dns\/txt;\r\n d=example\.com; s=s1;\r\n bh=[^;]+;\r\n h=[^;]+;\r\n b=[^;]+\r\n$/,
  )
  expect(
    field
      .match(/h=([^;]+);/g)
      ?.at(-1)
      ?.replace(/\s/g, ''),
  ).toBe(`h=${SIGNED_HEADER_NAMES.join(':')}:${OVERSIGNED};`)
  expect(field.split('\r\n').filter((line) => line.length > 78)).toEqual([])
})

const OVERSIGNED = 'from:to:cc:subject:date:reply-to:mime-version:content-type:list-unsubscribe:list-unsubscribe-post'

test('oversigned fields are listed once more than they occur, even when they do not occur; others only as they occur', () => {
  const listed = (...fields: string[]) =>
    Buffer.from(signMessage(message('x', [...HEADER, ...fields]), options))
      .toString()
      .match(/ h=([^;]+);/)?.[1]
      ?.replace(/\s/g, '')
  expect(listed('X-A: 1')).toBe(`from:to:subject:date:message-id:${OVERSIGNED}`)
  expect(listed('Cc: c@example.net', 'List-Id: <a>', 'Cc: d@example.net')).toBe(
    `from:to:cc:cc:subject:date:message-id:list-id:${OVERSIGNED}`,
  )
})

describe('a field added in transit', () => {
  const wholes = [message('Hello\r\n'), composed[0] ?? message('')].map((each) =>
    Buffer.from(signMessage(each, options)).toString('latin1'),
  )
  const withField = (signed: string, field: string, isFirst: boolean): Buffer =>
    Buffer.from(isFirst ? `${field}\r\n${signed}` : signed.replace('\r\n\r\n', `\r\n${field}\r\n\r\n`), 'latin1')

  test('is tested for every oversigned name', () => {
    expect(Object.keys(ADDED_FIELDS).toSorted()).toEqual(OVERSIGNED_HEADER_NAMES.toSorted())
  })

  // Proves: delivery-11
  test.each(Object.values(ADDED_FIELDS))('breaks the signature: %s', async (field) => {
    for (const whole of wholes)
      for (const isFirst of [true, false])
        expect(await verifyWithMailauth(withField(whole, field, isFirst), record)).toBe('fail')
  })

  // Proves: delivery-11
  test.each(['Received: by mx', 'Sender: list@example.org', 'X-Spam: no', 'Authentication-Results: mx; dkim=pass'])(
    'leaves the signature valid when relays add it: %s',
    async (field) => {
      for (const whole of wholes)
        for (const isFirst of [true, false])
          expect(await verifyWithMailauth(withField(whole, field, isFirst), record)).toBe('pass')
    },
  )
})

test('the same message and key give the same bytes', () => {
  expect(signMessage(message('x'), options)).toEqual(signMessage(message('x'), options))
})

test('a missing From, a key of another type, or a tag that could end its value throws', () => {
  expect(() => signMessage(message('x', ['To: a@example.com']), options)).toThrow('without From')
  expect(() => signMessage(message('x'), { ...options, domain: 'example.com; s=x' })).toThrow('domain')
  expect(() => signMessage(message('x'), { ...options, selector: 's\r\n' })).toThrow('selector')
  expect(() => signMessage(message('x'), { ...options, privateKey: generateKeyPairSync('x25519').privateKey })).toThrow(
    'RSA',
  )
})
