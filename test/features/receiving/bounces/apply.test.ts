import { describe, expect, test } from 'bun:test'
import { classifyFailure } from '#features/receiving/bounces/apply.ts'
import { createLog } from '#platform/log/log.ts'
import type { Dsn } from '#protocols/dsn/fields.ts'
import { parseDsn } from '#protocols/dsn/parse.ts'
import { parseMessage } from '#protocols/mime/parse.ts'
import { NO_REPORTS, SHAPES, shapeBytes } from '#test/corpus/dsn/shapes.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { NOW, shareEmailApi } from '#test/support/email-api.ts'
import { claimInFlight, FAILED, reportOf, type SentEmail, startBounceFixture, stateOf } from './fixture.ts'

const post = shareEmailApi(startBounceFixture)

const idOf = (email: SentEmail, index = 0): number => email.recipients[index]?.id ?? 0

/** Expects that a report changes nothing of an email, for this reason. */
async function expectNoChange(
  email: SentEmail,
  report: Dsn,
  at: Parameters<typeof post.report>[1],
  kind: 'ignored' | 'unmatched',
  why: string,
): Promise<void> {
  const before = stateOf(post, email)
  expect<unknown>(await post.report(report, at)).toMatchObject({ kind, why })
  expect(stateOf(post, email)).toEqual(before)
}

const NO_EMAIL = 'The report names no email of this service.'
const NO_RECIPIENT = 'The recipient that the return path names no longer exists.'

const NOT_APPLIED = { bounceType: null, bounceCategory: null }
test('the log line of a report names the email and its account by their public ids', async () => {
  const lines: Record<string, unknown>[] = []
  const log = createLog('info', { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) })
  await using post = await startBounceFixture({ log })
  const email = await post.email(['bob@receiver.test'])
  await post.report(reportOf({ finalRecipient: 'bob@receiver.test' }), { recipientId: idOf(email) })
  const [emailId] = email.messageId.replace('<', '').split('@')
  expect(lines.filter(({ msg }) => msg === 'delivery report applied')).toMatchObject([
    { email_id: emailId, account: post.actor.accountUuid, status: 'bounced', reply: '550 5.1.1 User unknown' },
  ])
})

// Proves: status-30
test('a late hard bounce reverts the delivery, emits one event and suppresses the address', async () => {
  const email = await post.email(['Bob@Receiver.test'])
  const result = await post.report(reportOf({ finalRecipient: 'bob@receiver.test' }), { recipientId: idOf(email) })
  expect(result).toEqual({ kind: 'applied', status: 'bounced' })
  const { events, ...state } = stateOf(post, email)
  expect(state).toEqual({
    status: 'bounced',
    deliveredAt: null,
    recipients: [
      {
        status: 'bounced',
        startedAt: null,
        deliveredAt: null,
        smtpResponse: '550 5.1.1 User unknown',
        bounceType: 'hard',
        bounceCategory: 'invalid_recipient',
      },
    ],
    suppressed: ['bob@receiver.test'],
    deadLetters: 0,
  })
  expect(events.map(({ type }) => type)).toEqual(['sent', 'delivered', 'bounced'])
  expect(events.at(-1)).toEqual({
    type: 'bounced',
    at: NOW,
    data: {
      smtp_response: '550 5.1.1 User unknown',
      remote_mta: 'mx.receiver.test',
      diagnostic_code: 'smtp; 550 5.1.1 User unknown',
      bounce_type: 'hard',
      bounce_category: 'invalid_recipient',
      rule: 'X.1.1',
      reason: 'The receiver reported later that delivery failed: 550 5.1.1 User unknown',
      suppressed: true,
    },
  })
  expectBalanced(post)
})

// Proves: status-30
test('a repeated report changes nothing', async () => {
  const email = await post.email(['bob@receiver.test'])
  await post.report(reportOf({}), { recipientId: idOf(email) })
  const again = reportOf({ status: '5.2.2' })
  await expectNoChange(email, again, { recipientId: idOf(email) }, 'ignored', 'The recipient is already bounced.')
  expectBalanced(post)
})

// Proves: status-30
test('a failure after retries is a soft bounce without suppression or dead letter', async () => {
  const email = await post.email(['bob@receiver.test'])
  await post.report(reportOf({ status: '4.4.7', diagnostic: null }), { recipientId: idOf(email) })
  const { status, recipients, suppressed, deadLetters } = stateOf(post, email)
  expect({ status, recipients, suppressed, deadLetters }).toEqual({
    status: 'bounced',
    recipients: [
      {
        status: 'bounced',
        startedAt: null,
        deliveredAt: null,
        smtpResponse: null,
        bounceType: 'soft',
        bounceCategory: 'expired',
      },
    ],
    suppressed: [],
    deadLetters: 0,
  })
  expectBalanced(post)
})

describe('an uncertain recipient', () => {
  // Proves: status-31
  test('bounces and is no longer a dead letter', async () => {
    const email = await post.email(['bob@receiver.test'], 'uncertain')
    expect(stateOf(post, email).deadLetters).toBe(1)
    await post.report(reportOf({}), { recipientId: idOf(email) })
    const { status, suppressed, deadLetters, events } = stateOf(post, email)
    expect({ status, suppressed, deadLetters, events: events.map(({ type }) => type) }).toEqual({
      status: 'bounced',
      suppressed: ['bob@receiver.test'],
      deadLetters: 0,
      events: ['uncertain', 'bounced'],
    })
    expectBalanced(post)
  })

  // Proves: status-31
  test.each(['delivered', 'relayed', 'expanded'] as const)('reported as %s becomes sent', async (action) => {
    const email = await post.email(['bob@receiver.test'], 'uncertain')
    const report = reportOf({ action, status: '2.0.0', diagnostic: '250 2.0.0 Saved' })
    expect((await post.report(report, { recipientId: idOf(email) })).kind).toBe('applied')
    const { events, ...state } = stateOf(post, email)
    expect(state).toEqual({
      status: 'sent',
      deliveredAt: NOW,
      recipients: [
        {
          status: 'sent',
          startedAt: NOW,
          deliveredAt: NOW,
          smtpResponse: '250 2.0.0 Saved',
          ...NOT_APPLIED,
        },
      ],
      suppressed: [],
      deadLetters: 0,
    })
    expect(events.map(({ type }) => type)).toEqual(['uncertain', 'sent', 'delivered'])
    expectBalanced(post)
  })

  // Proves: status-31
  test('reported as delayed stays uncertain', async () => {
    const email = await post.email(['bob@receiver.test'], 'uncertain')
    const report = reportOf({ action: 'delayed', status: '4.2.0' })
    const at = { recipientId: idOf(email) }
    await expectNoChange(email, report, at, 'ignored', 'The report announces a delay only.')
  })
})

describe('an email with several recipients', () => {
  test('with one bounce has the status bounced, and delivered_at of the first remaining delivery', async () => {
    const email = await post.email(['bob@a.test', 'carol@b.test'])
    await post.report(reportOf({}), { recipientId: idOf(email) })
    const { status, deliveredAt, recipients } = stateOf(post, email)
    expect({ status, deliveredAt, recipients: recipients.map((recipient) => recipient.status) }).toEqual({
      status: 'bounced',
      deliveredAt: NOW,
      recipients: ['bounced', 'sent'],
    })
    await post.report(reportOf({}), { recipientId: idOf(email, 1) })
    expect(stateOf(post, email).deliveredAt).toBeNull()
    expectBalanced(post)
  })

  // Every recipient knows the Message-ID and the other recipients, and a returned message can be forged.
  test.each<[string, (email: SentEmail) => Dsn]>([
    [
      'names one of them',
      (email) => reportOf({ finalRecipient: 'carol@b.test' }, { originalMessageId: email.messageId }),
    ],
    ['names none of them', (email) => reportOf({}, { originalMessageId: email.messageId })],
    [
      'reports an uncertain one as delivered',
      (email) =>
        reportOf(
          { action: 'delivered', status: '2.0.0', finalRecipient: 'carol@b.test' },
          { originalMessageId: email.messageId },
        ),
    ],
  ])('a report that has only the Message-ID and %s changes and suppresses nothing', async (_, make) => {
    for (const ended of ['sent', 'uncertain'] as const) {
      const email = await post.email([`bob@a.test`, 'carol@b.test'], ended)
      const why = 'The email has several recipients, and nothing proves which one the report is about.'
      for (const at of [{}, { accountId: post.actor.accountId }])
        await expectNoChange(email, make(email), at, 'unmatched', why)
    }
    expectBalanced(post)
  })
})

describe('without a proven return path', () => {
  // Proves: status-32
  test('the return path of the returned message proves as much as one that received the report', async () => {
    const email = await post.email(['bob@a.test', 'carol@b.test'])
    const report = reportOf({}, { originalReturnPath: email.recipients[1]?.verp.toUpperCase() ?? '' })
    await post.report(report)
    expect(stateOf(post, email).recipients.map(({ status }) => status)).toEqual(['sent', 'bounced'])
  })

  // Proves: status-32
  test('a return path with a wrong MAC in the returned message is ignored', async () => {
    const email = await post.email(['bob@a.test'])
    const verp = email.recipients[0]?.verp ?? ''
    const forged = verp.replace(/(.)@/, (_, last) => `${last === 'a' ? 'b' : 'a'}@`)
    const report = reportOf({ finalRecipient: 'bob@a.test' }, { originalReturnPath: forged })
    await expectNoChange(email, report, {}, 'unmatched', NO_EMAIL)
  })

  test('the return path of an email lost with a restored backup matches nothing, even if another email has its row', async () => {
    const email = await post.email(['bob@a.test'])
    post.app.db.run('UPDATE emails SET uuid = zeroblob(16) WHERE id = ?', [email.emailId])
    const report = reportOf({ finalRecipient: 'bob@a.test' }, { originalReturnPath: email.recipients[0]?.verp ?? '' })
    await expectNoChange(email, report, {}, 'unmatched', NO_RECIPIENT)
  })

  // Proves: status-32
  test('the Message-ID of an email with one recipient suffices', async () => {
    const email = await post.email(['bob@a.test'])
    expect((await post.report(reportOf({}, { originalMessageId: email.messageId }))).kind).toBe('applied')
    expect(stateOf(post, email).status).toBe('bounced')
  })

  // Proves: status-32
  test.each([
    ['another domain', (id: string) => id.replace('@sender.test', '@evil.test')],
    ['another id', (id: string) => id.replace(/.(?=@)/, (last) => (last === '0' ? '1' : '0'))],
    ['no id of ours', () => '<hello@sender.test>'],
    ['no Message-ID at all', () => null],
  ])('a Message-ID with %s matches nothing', async (_, change) => {
    const email = await post.email(['bob@a.test'])
    const report = reportOf({ finalRecipient: 'bob@a.test' }, { originalMessageId: change(email.messageId) })
    await expectNoChange(email, report, {}, 'unmatched', NO_EMAIL)
  })
})

describe('with a proven return path', () => {
  test('a different failed address is accepted: the mail was forwarded', async () => {
    const email = await post.email(['bob@a.test'])
    await post.report(reportOf({ finalRecipient: 'elsewhere@x.test' }), { recipientId: idOf(email) })
    const { status, suppressed } = stateOf(post, email)
    expect({ status, suppressed }).toEqual({ status: 'bounced', suppressed: ['bob@a.test'] })
  })

  // Proves: status-32
  test('a returned message of another email makes the report ignored', async () => {
    const [email, other] = [await post.email(['bob@a.test']), await post.email(['bob@a.test'])]
    const report = reportOf({}, { originalMessageId: other.messageId })
    const why = 'The return path belongs to one email, but the returned message is another email.'
    await expectNoChange(email, report, { recipientId: idOf(email) }, 'ignored', why)
    expect(stateOf(post, other).status).toBe('sent')
  })

  test('a returned message for another recipient makes the report ignored', async () => {
    const email = await post.email(['bob@a.test', 'carol@b.test'])
    const report = reportOf({}, { originalReturnPath: email.recipients[1]?.verp ?? '' })
    const why = 'The report came to the return path of one recipient, but returns the message of another.'
    await expectNoChange(email, report, { recipientId: idOf(email) }, 'ignored', why)
  })

  test('an unknown Message-ID in the returned message does not prevent the match', async () => {
    const email = await post.email(['bob@a.test'])
    await post.report(reportOf({}, { originalMessageId: '<rewritten@gateway.test>' }), { recipientId: idOf(email) })
    expect(stateOf(post, email).status).toBe('bounced')
  })

  test('the outcome of the address that we sent to takes precedence', async () => {
    const email = await post.email(['bob@a.test'], 'uncertain')
    const recipients = [
      { ...FAILED, finalRecipient: 'other@a.test' },
      { ...FAILED, action: 'delivered' as const, finalRecipient: 'bob@a.test', status: '2.0.0', diagnostic: null },
    ]
    await post.report({ ...reportOf({}), recipients }, { recipientId: idOf(email) })
    expect(stateOf(post, email).status).toBe('sent')
  })

  test('several other addresses with different outcomes are ignored', async () => {
    const email = await post.email(['bob@a.test'])
    const recipients = [
      { ...FAILED, finalRecipient: 'x@b.test' },
      { ...FAILED, action: 'delivered' as const, finalRecipient: 'y@b.test' },
    ]
    const why = 'The report states different outcomes for several addresses, none of which we sent to.'
    await expectNoChange(email, { ...reportOf({}), recipients }, { recipientId: idOf(email) }, 'ignored', why)
  })

  test('a deleted recipient matches nothing', async () => {
    expect(await post.report(reportOf({}), { recipientId: 4711 })).toEqual({ kind: 'unmatched', why: NO_RECIPIENT })
  })
})

// Proves: status-32
test('a report to an address of one account never changes the email of another', async () => {
  const email = await post.email(['bob@a.test'])
  const { accountId } = await post.createOtherAccount()
  for (const report of [
    reportOf({}, { originalMessageId: email.messageId }),
    reportOf({}, { originalReturnPath: email.recipients[0]?.verp ?? '' }),
  ])
    await expectNoChange(email, report, { accountId }, 'unmatched', 'The report is about an email of another account.')
  const own = { accountId: post.actor.accountId }
  expect((await post.report(reportOf({}, { originalMessageId: email.messageId }), own)).kind).toBe('applied')
})

test('only the sending account suppresses the address', async () => {
  const other = await post.createOtherAccount()
  const own = await post.email(['bob@a.test'])
  const foreign = await post.email(['bob@a.test'], 'sent', { actor: other })
  await post.report(reportOf({}), { recipientId: idOf(foreign) })
  expect([stateOf(post, own).suppressed, stateOf(post, foreign).suppressed]).toEqual([[], ['bob@a.test']])
})

describe('a recipient in delivery', () => {
  test.each(['failed', 'delivered', 'relayed', 'expanded'] as const)(
    'whose transmission has begun defers a report of %s',
    async (action) => {
      const email = await post.email(['bob@a.test'], 'queued')
      await claimInFlight(post, 'a.test')
      const why = 'The report came while our session with the receiver had not ended.'
      await expectNoChange(email, reportOf({ action }), { recipientId: idOf(email) }, 'unmatched', why)
      await expectNoChange(email, reportOf({ action }, { originalMessageId: email.messageId }), {}, 'unmatched', why)
    },
  )

  test('whose transmission has begun ignores a report of a delay', async () => {
    const email = await post.email(['bob@a.test'], 'queued')
    await claimInFlight(post, 'a.test')
    const report = reportOf({ action: 'delayed' })
    const at = { recipientId: idOf(email) }
    await expectNoChange(email, report, at, 'ignored', 'The report announces a delay only.')
  })

  test('whose transmission has not begun ignores a report', async () => {
    const email = await post.email(['bob@a.test'], 'queued')
    await claimInFlight(post, 'a.test', { hasBegun: false })
    const at = { recipientId: idOf(email) }
    await expectNoChange(email, reportOf({}), at, 'ignored', 'The recipient is already processing.')
  })
})

test('a report does not bounce a queued recipient', async () => {
  const email = await post.email(['bob@a.test'], 'queued')
  const at = { recipientId: idOf(email) }
  await expectNoChange(email, reportOf({}), at, 'ignored', 'The recipient is already queued.')
  expectBalanced(post)
})

test('a report does not bounce sandbox mail', async () => {
  const email = await post.email(['bob@a.test'], 'sent', { sandbox: true })
  const why = 'The report is about sandbox mail, which was never sent.'
  await expectNoChange(email, reportOf({}), { recipientId: idOf(email) }, 'ignored', why)
})

describe('a message of the corpus', () => {
  const read = async (file: string, email: SentEmail, mailFrom = '') => {
    const [recipient] = email.recipients
    const about = { verp: recipient?.verp ?? '', messageId: email.messageId, recipient: recipient?.address ?? '' }
    const bytes = shapeBytes(file, about)
    return parseDsn(await parseMessage(bytes, { mailFrom }), { mailFrom })
  }

  for (const [file, , action, , judgement, , returned] of SHAPES) {
    const ended = action === 'failed' ? 'bounced' : 'sent'
    const changes = action !== 'delayed' && action !== 'none'

    const check = async (isProven: boolean) => {
      const address = `bob@${file}${isProven ? '' : '-unproven'}.test`
      const email = await post.email([address], action === 'failed' ? 'sent' : 'uncertain')
      const report = await read(file, email)
      if (!report) throw new Error('it is no report')
      const result = await post.report(report, isProven ? { recipientId: idOf(email) } : {})
      const { status, recipients, suppressed } = stateOf(post, email)
      const told = recipients.map(({ bounceType, bounceCategory }) => `${bounceType} ${bounceCategory}`)
      const isSuppressed = suppressed.includes(address)
      return {
        result: result.kind,
        status,
        judgement: status === 'bounced' ? `${told}${isSuppressed ? ' dead' : ''}` : null,
      }
    }

    test(`${file} at the return path ${changes ? `makes the recipient ${ended}` : 'changes nothing'}`, async () => {
      expect<unknown>(await check(true)).toEqual({
        result: changes ? 'applied' : 'ignored',
        status: changes ? ended : 'uncertain',
        judgement,
      })
    })

    // Proves: status-33
    test(`${file} at another address is matched by ${returned === 'none' ? 'nothing' : returned}`, async () => {
      const isMatched = returned !== 'none'
      expect<unknown>(await check(false)).toEqual({
        result: isMatched ? (changes ? 'applied' : 'ignored') : 'unmatched',
        status: isMatched && changes ? ended : action === 'failed' ? 'sent' : 'uncertain',
        judgement: isMatched ? judgement : null,
      })
    })
  }

  // Proves: status-33
  for (const [file, isNull] of NO_REPORTS)
    test(`${file} is no bounce`, async () => {
      const email = await post.email([`bob@${file}.test`])
      expect(await read(file, email, isNull ? '' : 'bob@receiver.test')).toBeUndefined()
    })
})

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
