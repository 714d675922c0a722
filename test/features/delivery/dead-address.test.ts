import { describe, expect, test } from 'bun:test'
import { isAddressDead } from '#features/delivery/dead-address.ts'
import { makeReply } from '#protocols/smtp/replies.ts'

type Phase = Parameters<typeof isAddressDead>[1]

const replyOf = (text: string) => makeReply(Number(text.slice(0, 3)), [text.slice(4)])

describe('the address takes no mail', () => {
  const cases: [string, Phase?][] = [
    ['550 5.1.1 <bob@x.test>: Recipient address rejected: User unknown in virtual mailbox table'],
    ['550 5.1.1 The email account that you tried to reach does not exist', 'body'],
    ['550-5.1.1 x'],
    ['553 5.1.3 The recipient address is not a valid address'],
    ['551 5.1.6 Moved away'],
    ['550 5.2.1 The email account that you tried to reach is disabled', 'data'],
    ['556 5.1.10 Null MX'],
    ['550 No such user here'],
    ['550 Unrouteable address'],
    ['550 Requested action not taken: mailbox unavailable'],
    ['554 delivery error: This mailbox is disabled', 'body'],
    ['550 5.0.0 User unknown'],
  ]
  test.each(cases)('%s', (text, phase = 'rcpt') => expect(isAddressDead(replyOf(text), phase)).toBe(true))
})

describe('the address may be alive', () => {
  const cases: [string, Phase?][] = [
    ['550 5.7.1 Message rejected by policy'],
    ['550 5.7.1 User unknown'],
    ['554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org'],
    ['550 5.7.26 Unauthenticated email is not accepted'],
    ['554 5.7.1 Message rejected as spam by content filter', 'body'],
    ['550 5.4.1 Recipient address rejected: Access denied'],
    ['550 5.1.2 The domain does not exist'],
    ['550 5.1.8 Sender domain does not exist'],
    ['550 5.1.0 <ada@sender.test>: Sender address rejected: User unknown in virtual mailbox table'],
    ['550 Sender verify failed: no such user'],
    ['550 Administrative prohibition'],
    ['550 Not here'],
    ['552 5.2.2 Mailbox full'],
    ['552 5.3.4 Message too large', 'mail'],
    ['554 5.7.1 Relay access denied'],
    ['550 5.1.1 User unknown', 'mail'],
    ['450 4.1.1 User unknown'],
    ['450 4.2.1 Mailbox disabled for now'],
    ['554 5.6.7 The receiving server does not take addresses beyond ASCII', 'mail'],
  ]
  test.each(cases)('%s', (text, phase = 'rcpt') => expect(isAddressDead(replyOf(text), phase)).toBe(false))
})
