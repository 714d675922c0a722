import { describe, expect, test } from 'bun:test'
import { classifyReply } from '#features/sending/delivery/verdict/classify.ts'
import { makeReply } from '#protocols/smtp/replies.ts'

const cases: readonly [code: number, text: string, phase: 'mail' | 'rcpt' | 'data' | 'body', category: string][] = [
  [
    550,
    '5.1.1 <x@y.test>: Recipient address rejected: User unknown in virtual mailbox table',
    'rcpt',
    'invalid_recipient',
  ],
  [
    550,
    '5.1.1 The email account that you tried to reach does not exist (see our spam policy)',
    'rcpt',
    'invalid_recipient',
  ],
  [550, '5.5.0 Requested action not taken: mailbox unavailable (S2017062302)', 'rcpt', 'invalid_recipient'],
  [550, '5.5.1 Invalid command', 'rcpt', 'protocol_error'],
  [550, 'No such user here', 'rcpt', 'invalid_recipient'],
  [550, 'Requested action not taken', 'rcpt', 'unknown'],
  [552, '5.2.2 The email account that you tried to reach is over quota', 'rcpt', 'mailbox_full'],
  [550, '5.2.1 The email account that you tried to reach is disabled', 'rcpt', 'inactive_mailbox'],
  [552, '5.3.4 Message size exceeds fixed maximum message size', 'mail', 'message_too_large'],
  [550, '5.7.26 This mail is unauthenticated, SPF and DKIM did not pass', 'body', 'authentication'],
  [
    550,
    '5.7.515 Access denied, sending domain does not meet the required authentication level',
    'body',
    'authentication',
  ],
  [554, '5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org', 'rcpt', 'reputation'],
  [554, '5.7.1 Message rejected as spam by content filter', 'body', 'spam_content'],
  [554, '5.7.1 <x@y.test>: Relay access denied', 'rcpt', 'relay_denied'],
  [550, '5.7.1 Administrative prohibition', 'rcpt', 'policy'],
  [421, '4.7.28 Our system has detected an unusual rate of mail from your IP', 'mail', 'rate_limited'],
  [451, 'Too many connections, try again later', 'mail', 'rate_limited'],
  [503, 'Bad sequence of commands', 'data', 'protocol_error'],
  [450, '4.2.0 Greylisted', 'rcpt', 'rate_limited'],
  [450, '4.7.1 You are gray listed', 'rcpt', 'rate_limited'],
]

describe('a rejection is classified by code, words and phase', () => {
  for (const [code, text, phase, category] of cases) {
    // Proves: status-23
    test(`${code} ${text} at ${phase}`, () =>
      expect(classifyReply(makeReply(code, [text]), phase)).toBe(category as never))
  }
})
