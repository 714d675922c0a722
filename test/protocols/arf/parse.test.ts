import { describe, expect, test } from 'bun:test'
import { type FeedbackReport, parseFeedbackReport } from '#protocols/arf/parse.ts'
import { parseMessage } from '#protocols/mime/parse.ts'
import { listShapeNames, readShape, type ShapeValues } from './shapes.ts'

const VERP = 'b-aaaaaaaaaaabcdefghijklmnopqrstuv'
const UNSUBSCRIBE = 'u-aaaaaaaaaaabcdefghijklmnopqrstuv'
const VALUES: ShapeValues = {
  return_path: `${VERP}@send.sender.test`,
  recipient: 'bob@provider.test',
  other_recipient: 'carl@provider.test',
  to: 'Bob <bob@provider.test>, erin@elsewhere.test',
  message_id: '<0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000@sender.test>',
  unsubscribe: 'https://mail.tassis.test/u/c2VhbGVk',
  unsubscribe_address: `${UNSUBSCRIBE}@send.sender.test`,
}

const BOB = [VALUES.recipient]
/** Fields of a report that returns the whole header. */
const RETURNED = {
  originalMessageId: VALUES.message_id,
  originalListUnsubscribe: `<${VALUES.unsubscribe}>, <mailto:${VALUES.unsubscribe_address}?subject=unsubscribe>`,
  ownLocalParts: [VERP, UNSUBSCRIBE],
}
/** Expected fields of a report that contains no details. */
const NOTHING: FeedbackReport = {
  feedbackType: 'abuse',
  userAgent: null,
  reportingMta: null,
  originalRcptTo: [],
  originalMessageId: null,
  originalListUnsubscribe: null,
  ownLocalParts: [],
}

/** The differences of each shape from NOTHING; undefined: not a complaint. */
const SHAPES: Readonly<Record<string, Partial<FeedbackReport> | undefined>> = {
  standard: { ...RETURNED, userAgent: 'ProviderFBL/1.4', reportingMta: 'mx.provider.test', originalRcptTo: BOB },
  'headers-only': { ...RETURNED, userAgent: 'HeaderLoop/2' },
  'nothing-returned': {
    userAgent: 'Terse/1.0',
    ownLocalParts: [VERP],
  },
  yahoo: { ...RETURNED, userAgent: 'Yahoo!-Mail-Feedback/2.0', originalRcptTo: BOB },
  'gmail-like': { userAgent: 'WebmailFBL/3', originalMessageId: VALUES.message_id },
  comcast: {
    userAgent: 'ReturnPathFBL/1.0',
    originalMessageId: VALUES.message_id,
    originalListUnsubscribe: '<redacted>',
  },
  fastmail: {
    userAgent: 'Fastmail-Feedback/1.0',
    originalRcptTo: ['9b1c8f0e7a6d5c4b3a29@provider.test'],
    originalMessageId: VALUES.message_id,
  },
  'mail-ru': { ...RETURNED, userAgent: 'mail.ru/1.0', originalRcptTo: BOB },
  'signal-spam': {
    userAgent: 'SignalSpam/2.0',
    originalRcptTo: BOB,
    originalMessageId: VALUES.message_id,
  },
  aol: { ...RETURNED, userAgent: 'AOL SComp' },
  'microsoft-jmrp': { originalRcptTo: BOB, originalMessageId: VALUES.message_id },
  'microsoft-spf': {
    originalRcptTo: ['someone@forwarded.test'],

    ownLocalParts: [VERP],
  },
  'unsubscribe-link-only': { userAgent: 'Redactor/5', originalListUnsubscribe: `<${VALUES.unsubscribe}>` },
  'several-recipients': {
    userAgent: 'ListLoop/1',
    originalRcptTo: [VALUES.recipient, VALUES.other_recipient],

    originalMessageId: VALUES.message_id,
  },
  fraud: { ...RETURNED, feedbackType: 'fraud', userAgent: 'PhishDesk/1', originalRcptTo: BOB },
  virus: { ...RETURNED, feedbackType: 'virus', userAgent: 'Scanner/9', originalRcptTo: BOB },
  'not-spam': { ...RETURNED, feedbackType: 'not-spam', userAgent: 'ProviderFBL/1.4', originalRcptTo: BOB },
  'opt-out': { ...RETURNED, feedbackType: 'other', userAgent: 'ProviderFBL/1.4', originalRcptTo: BOB },
  'blank-lines': { ...RETURNED, userAgent: 'OddLoop/0.1', originalRcptTo: BOB },
  'fields-as-text': { ...RETURNED, userAgent: 'PlainLoop/1', originalRcptTo: BOB },
  'login-attack': undefined,
  'auth-failure': undefined,
  'forwarded-by-a-person': undefined,
}

const parseRaw = async (raw: Uint8Array) => parseFeedbackReport(await parseMessage(raw, { mailFrom: '' }))

test('the table lists every report of the corpus', () => {
  expect(Object.keys(SHAPES).sort()).toEqual(listShapeNames())
})

describe.each([
  ['CRLF', '\r\n'],
  ['LF', '\n'],
])('with %s as line ends', (_, lineEnd) => {
  test.each(Object.entries(SHAPES))('a report in the shape %s is parsed', async (name, said) => {
    expect(await parseRaw(readShape(name, VALUES, lineEnd))).toEqual(said && { ...NOTHING, ...said })
  })
})

const FIELDS = 'Feedback-Type: abuse\r\nUser-Agent: A/1\r\nVersion: 1'

/** Builds a report with these fields that returns a message with this header. */
function createReport(fields: string, header = 'Subject: x', type = 'message/feedback-report'): Uint8Array {
  return Buffer.from(
    [
      'From: fbl@provider.test',
      'Content-Type: multipart/report; report-type=feedback-report; boundary=b',
      '',
      '--b',
      `Content-Type: ${type}`,
      '',
      fields,
      '--b',
      'Content-Type: message/rfc822',
      '',
      header,
      '',
      'body',
      '--b--',
      '',
    ].join('\r\n'),
  )
}

describe('redacted values are left out:', () => {
  const words = ['redacted', 'REDACTED', 'removed', 'hidden', 'anonymous', 'x', 'xxxxxx', '***']
  test.each(words)('the recipient %s@provider.test', async (word) => {
    const fields = `${FIELDS}\r\nOriginal-Rcpt-To: ${word}@provider.test`
    expect(await parseRaw(createReport(fields, `To: ${word}@provider.test`))).toEqual({ ...NOTHING, userAgent: 'A/1' })
  })

  test.each(['', '<>', '@', 'bob', 'bob@', '@provider.test', 'a@b@c'])('the recipient %j', async (word) => {
    expect(await parseRaw(createReport(`${FIELDS}\r\nOriginal-Rcpt-To: ${word}`))).toEqual({
      ...NOTHING,
      userAgent: 'A/1',
    })
  })
})

test.each([
  ["'bob@provider.test'", 'bob@provider.test'],
  ["bob.o'neil@provider.test", "bob.o'neil@provider.test"],
  ['rfc822;bob+shop@provider.test', 'bob+shop@provider.test'],
  ['"Bob, at work" <BOB@Provider.test> (home)', 'BOB@Provider.test'],
  ['bob@b\u00fccher.test', 'bob@b\u00fccher.test'],
])('of the recipient %j the address is %s', async (value, address) => {
  const report = await parseRaw(createReport(`${FIELDS}\r\nOriginal-Rcpt-To: ${value}`))
  expect(report?.originalRcptTo).toEqual([address])
})

// Proves: notify-27
test.each([
  ['abuse', 'abuse'],
  ['ABUSE', 'abuse'],
  ['abuse;', 'abuse'],
  ['spam', 'abuse'],
  ['fraud', 'fraud'],
  ['phishing', 'fraud'],
  ['virus', 'virus'],
  ['malware (test)', 'virus'],
  ['not-spam', 'not-spam'],
  ['other', 'other'],
  ['miscategorized', 'other'],
  ['opt-out-list', 'other'],
  ['', 'other'],
  ['constructor', 'other'],
  ['__proto__', 'other'],
] as const)('the Feedback-Type %j is %s', async (given, type) => {
  expect(await parseRaw(createReport(`Feedback-Type: ${given}\r\nVersion: 1`))).toEqual({
    ...NOTHING,
    feedbackType: type,
  })
})

test("an address of ours is found in any field of the returned header, also inside a forwarder's address", async () => {
  const header = [
    `Received-SPF: pass (provider.test: domain of ${VERP}@send.sender.test designates 192.0.2.25)`,
    `X-Forwarded-By: SRS0=a1b2=cd=send.sender.test=${VERP.toUpperCase().replace('V', 'W')}@forwarder.test`,
    `X-Not-Ours: x${VERP}@a.test b-${'a'.repeat(33)}@a.test b-short@a.test`,
  ].join('\r\n')
  expect((await parseRaw(createReport(FIELDS, header)))?.ownLocalParts).toEqual([
    VERP,
    VERP.toUpperCase().replace('V', 'W').toLowerCase(),
  ])
})

test('mail without feedback fields is not a report, whatever it returns', async () => {
  const mail = createReport(FIELDS, `Return-Path: <${VALUES.return_path}>`, 'text/plain')
  const other = Buffer.from(Buffer.from(mail).toString().replace('feedback-report;', 'delivery-status;'))
  expect(await parseRaw(mail)).toMatchObject({ feedbackType: 'abuse' })
  expect(await parseRaw(other)).toBeUndefined()
})

test('a truncated or garbled report never causes an error', async () => {
  const ownForm = /^[bu]-[a-z2-7]{32}$/
  for (const name of listShapeNames()) {
    const raw = readShape(name, VALUES)
    for (let at = 0; at < raw.length; at += 61) {
      const garbled = Uint8Array.from(raw)
      garbled.set([0, 0x0a, 0xff, 0x3b].slice(at % 4), at)
      for (const bytes of [raw.subarray(0, at), garbled]) {
        const report = await parseRaw(bytes)
        expect(report?.ownLocalParts.every((local) => ownForm.test(local)) ?? true).toBe(true)
        expect(report?.originalRcptTo.every((address) => address.split('@').length === 2) ?? true).toBe(true)
      }
    }
  }
})

describe('limits apply to received', () => {
  test('fields, values, addresses and local parts', async () => {
    const many = Array.from({ length: 5000 }, (_, i) => `Original-Rcpt-To: u${i}@provider.test`).join('\r\n')
    const long = `${'a'.repeat(300)}@provider.test`
    const fields = `Feedback-Type: abuse\r\nUser-Agent: ${'A'.repeat(9000)}\r\nOriginal-Rcpt-To: ${long}\r\n${many}`
    const header = Array.from({ length: 500 }, (_, i) => {
      const letters = [i % 26, Math.floor(i / 26)].map((n) => String.fromCharCode(97 + n)).join('')
      return `X-${i}: b-${letters.padEnd(32, 'a')}@send.sender.test`
    })
    header.push(`List-Unsubscribe: <https://${'x'.repeat(9000)}>`)
    const report = await parseRaw(createReport(fields, header.join('\r\n')))
    expect({
      userAgent: report?.userAgent?.length,
      recipients: report?.originalRcptTo,
      listUnsubscribe: report?.originalListUnsubscribe?.length,
      local: report?.ownLocalParts.length,
    }).toEqual({
      userAgent: 254,
      recipients: Array.from({ length: 19 }, (_, i) => `u${i}@provider.test`),
      listUnsubscribe: 2000,
      local: 50,
    })
  })

  test.each([
    ['endless spaces', `${FIELDS}\r\nX: ${' '.repeat(1_000_000)}`],
    ['a million blank lines', `${'\r\n'.repeat(1_000_000)}${FIELDS}`],
    ['a million addresses without a domain', `${FIELDS}\r\nOriginal-Rcpt-To: ${'a@'.repeat(1_000_000)}`],
    ['an endless value', `${FIELDS}\r\nOriginal-Rcpt-To: ${'b-'.repeat(1_000_000)}`],
    ['octets that are not text', `${FIELDS}\r\nOriginal-Rcpt-To: \0\x01\x80\xff@\0`],
  ])('%s', async (_, fields) => {
    const report = await parseRaw(createReport(fields, fields))
    expect(report?.originalRcptTo ?? []).toEqual([])
  })
})
