import { expect, test } from 'bun:test'
import { classifyFailure } from '#features/receiving/bounces/apply.ts'

const CASES: readonly [status: string | null, diagnostic: string | null, judgement: string][] = [
  ['5.1.1', '550 5.1.1 User unknown', 'hard invalid_recipient dead'],
  ['5.1.1', null, 'hard invalid_recipient dead'],
  ['5.1.6', null, 'hard inactive_mailbox dead'],
  ['5.2.2', '552 5.2.2 Over quota', 'soft mailbox_full'],
  // The report's own code wins over the quoted one, unless it is generic.
  ['5.2.2', '550 5.1.1 User unknown', 'soft mailbox_full'],
  ['5.0.0', '550 5.1.1 User unknown', 'hard invalid_recipient dead'],
  ['5.0.0', '550 User unknown', 'hard invalid_recipient dead'],
  ['5.0.0', null, 'soft unknown'],
  [null, '550 5.7.1 Blocked, see http://bl.test', 'soft reputation'],
  [null, 'Sorry, no mailbox here by that name. (#5.1.1)', 'hard invalid_recipient dead'],
  [null, null, 'soft unknown'],
  // At RCPT this would concern the address; here the phase is unknown.
  [null, '550 Rejected', 'soft unknown'],
  ['4.4.7', 'Delivery time expired', 'soft expired'],
  ['4.2.2', '452 4.2.2 Over quota', 'soft expired'],
  ['4.4.7', '550 4.4.7 QUEUE.Expired', 'soft expired'],
  ['5.4.7', 'Delivery time expired', 'soft expired'],
  ['5.0.0', 'retry timeout exceeded after: 451 4.7.1 Greylisted', 'soft expired'],
  [null, '421 4.4.2 Connection dropped', 'soft expired'],
  ['4.0.0', '550 5.1.1 User unknown', 'hard invalid_recipient dead'],
  ['5.7.1', '550 5.7.1 No such user, or you may not write to him', 'hard invalid_recipient'],
  ['5.1.0', '550 5.1.0 Sender address rejected: user unknown', 'soft policy'],
  ['5.1.2', '550 5.1.2 Host unknown', 'hard invalid_recipient'],
  ['5.3.4', null, 'soft message_too_large'],
  // The reporting server's text is not part of the reply; the command that it names is used.
  ['5.1.1', '550 5.1.1 <bob@x.test>: User unknown (in reply to RCPT TO command)', 'hard invalid_recipient dead'],
  [
    '5.1.1',
    'host mx.x.test[192.0.2.1] said: 550 5.1.1 User unknown (in reply to end of DATA command)',
    'hard invalid_recipient dead',
  ],
  ['5.1.1', 'host mx.x.test[192.0.2.1] said: 550 5.1.1 User unknown (in reply to MAIL FROM command)', 'soft policy'],
  [
    '5.0.0',
    'SMTP error from remote mail server after RCPT TO:<bob@x.test>: 550 5.1.1 No such user',
    'hard invalid_recipient dead',
  ],
  ['5.0.0', 'SMTP error from remote mail server after MAIL FROM:<a@x.test>: 550 No such user', 'soft policy'],
  // A rejection of us says nothing about the address.
  ['5.7.1', '550 5.7.1 messages from [192.0.2.1] were not sent, we have a block list (S3150)', 'soft reputation'],
  ['5.7.1', '550 5.7.1 Message rejected by policy', 'soft policy'],
  ['5.0.0', 'lost connection to 192.0.2.55 port 587 after 500 bytes', 'soft unknown'],
]

test.each(CASES)('%s with "%s" is %s', (status, diagnostic, judgement) => {
  const { bounceType, bounceCategory, isPermanentlyInvalid: isAddressDead } = classifyFailure({ status, diagnostic })
  expect(`${bounceType} ${bounceCategory}${isAddressDead ? ' dead' : ''}`).toBe(judgement)
})
