import { expect, test } from 'bun:test'
import {
  formatGreetingCommand,
  formatMailCommand,
  formatRcptCommand,
  rejectBeforeSending,
} from '#protocols/smtp/commands.ts'
import { toSmtpFailure } from '#protocols/smtp/failures.ts'
import { makeReply, NO_EXTENSIONS, parseExtensions } from '#protocols/smtp/replies.ts'
import { transaction } from './smtp-session.ts'

const offering = (...lines: string[]) => parseExtensions(makeReply(250, ['mx.example.test', ...lines]))

test('the reply to EHLO is parsed in any case, with the old form of AUTH', () => {
  expect(
    offering(
      'size 1000',
      'Pipelining',
      '8bitmime',
      'SMTPUTF8',
      'STARTTLS',
      'ENHANCEDSTATUSCODES',
      'AUTH plain',
      'AUTH=PLAIN LOGIN',
      'X-ODD',
    ),
  ).toEqual({
    sizeBytes: 1000,
    size: true,
    pipelining: true,
    eightBitMime: true,
    smtpUtf8: true,
    startTls: true,
    auth: ['PLAIN', 'LOGIN'],
  })
})

test('SIZE with zero, no number or an invalid one sets no limit', () => {
  for (const line of ['SIZE 0', 'SIZE', 'SIZE lots', 'SIZE 99999999999999999999']) {
    expect(offering(line)).toEqual({ ...NO_EXTENSIONS, size: true })
  }
})

test('a name in the first line of the reply to EHLO is no extension', () => {
  expect(parseExtensions(makeReply(250, ['PIPELINING']))).toEqual(NO_EXTENSIONS)
})

test('MAIL has only the parameters that are both offered and needed', () => {
  const envelope = transaction({ mailFrom: 'a@b.test', message: [Buffer.alloc(100), Buffer.alloc(23)] })
  const both = transaction({ ...envelope, smtpUtf8: true, eightBit: true })
  const all = offering('SIZE', '8BITMIME', 'SMTPUTF8')
  expect(formatMailCommand(both, all)).toBe('MAIL FROM:<a@b.test> SIZE=123 BODY=8BITMIME SMTPUTF8\r\n')
  expect(formatMailCommand(both, NO_EXTENSIONS)).toBe('MAIL FROM:<a@b.test>\r\n')
  expect(formatMailCommand(envelope, all)).toBe('MAIL FROM:<a@b.test> SIZE=123\r\n')
  expect(formatMailCommand({ ...envelope, sizeBytes: 99 }, offering('SIZE 1000'))).toBe(
    'MAIL FROM:<a@b.test> SIZE=99\r\n',
  )
  expect(formatMailCommand({ ...envelope, mailFrom: '' }, NO_EXTENSIONS)).toBe('MAIL FROM:<>\r\n')
})

test('quoted local parts, address literals and UTF-8 are used in a path unchanged', () => {
  for (const rcptTo of ['"a b\\"<>"@c.test', 'a@[IPv6:2001:db8::1]', 'grüße@例え.test', "o'neil+x=y@c.test"]) {
    expect(formatRcptCommand(transaction({ rcptTo, smtpUtf8: true }))).toBe(`RCPT TO:<${rcptTo}>\r\n`)
  }
})

test('an address or a name that could inject a command throws', () => {
  const bad = ['a@b\r\nDATA', 'a@b\n', 'a@b\r', 'a\0@b', 'a@b> SIZE=1', 'a@b <c', '"a\r\n"@b', '"a']
  for (const path of bad) {
    expect(() => formatMailCommand(transaction({ mailFrom: path }), NO_EXTENSIONS)).toThrow(
      'mailFrom must be an address',
    )
    expect(() => formatRcptCommand(transaction({ rcptTo: path }))).toThrow('rcptTo must be an address')
  }
  expect(() => formatRcptCommand(transaction({ rcptTo: '' }))).toThrow('rcptTo is empty')
  expect(() => formatRcptCommand(transaction({ rcptTo: 'ü@b.test' }))).toThrow('rcptTo needs SMTPUTF8')
  for (const name of ['', 'a b', 'a\r\nMAIL', 'ä.test'])
    expect(() => formatGreetingCommand('EHLO', name)).toThrow('ehloName')
  expect(formatGreetingCommand('EHLO', '[IPv6:::1]')).toBe('EHLO [IPv6:::1]\r\n')
})

test('a message above the SIZE limit, or SMTPUTF8 to a server without it, is rejected before sending', () => {
  const envelope = transaction({ message: [Buffer.alloc(101)] })
  expect(rejectBeforeSending(envelope, offering('SIZE 100'))).toEqual(
    makeReply(552, ['5.3.4 Not sent: the message has 101 bytes and the receiving server accepts at most 100']),
  )
  expect(rejectBeforeSending(envelope, offering('SIZE 101'))).toBeUndefined()
  expect(rejectBeforeSending(envelope, offering('SIZE 0'))).toBeUndefined()
  expect(rejectBeforeSending({ ...envelope, smtpUtf8: true }, NO_EXTENSIONS)).toMatchObject({
    code: 553,
    enhanced: '5.6.7',
  })
  expect(rejectBeforeSending({ ...envelope, smtpUtf8: true }, offering('SMTPUTF8'))).toBeUndefined()
})

test('socket errors are mapped to kinds of failures', () => {
  const kindOf = (code: string, securing = false) =>
    toSmtpFailure(Object.assign(new Error('x'), { code }), securing).kind
  expect(kindOf('ECONNREFUSED')).toBe('refused')
  for (const code of ['EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND']) expect(kindOf(code)).toBe('unreachable')
  expect(kindOf('ETIMEDOUT')).toBe('timeout')
  for (const code of ['ECONNRESET', 'EPIPE', 'ECONNABORTED']) expect(kindOf(code, true)).toBe('reset')
  for (const code of ['EADDRNOTAVAIL', 'EMFILE']) expect(kindOf(code)).toBe('other')
  expect(kindOf('ERR_SSL_WRONG_VERSION_NUMBER')).toBe('tls')
  expect(kindOf('CERT_HAS_EXPIRED', true)).toBe('tls')
  expect(toSmtpFailure('odd')).toEqual({ kind: 'other', message: 'odd' })
})
