import { describe, expect, test } from 'bun:test'
import { decideAutoReply } from '#features/receiving/agent-mailboxes/auto-responder.ts'
import { type AutoResponderRule, findRule } from '#features/receiving/agent-mailboxes/auto-settings.ts'
import type { StoredMessage } from '#features/receiving/received/message.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import {
  createAuthentication,
  createMessage,
  createReceived,
  MAILBOX_ADDRESS,
  MAILBOX_DOMAIN,
} from './reply-support.ts'

const MAILBOX = { localPart: 'agent', domain: MAILBOX_DOMAIN }

const decide = (
  message: Partial<StoredMessage> = {},
  mailFrom = 'bob@receiver.test',
  authentication?: AuthenticationResult,
) => decideAutoReply(MAILBOX, createReceived(message, { mailFrom }, authentication))

const no = (reason: string) => ({ kind: 'no', reason })

describe('RFC 3834: a message', () => {
  test('from a person to the mailbox is answered at the envelope sender, not at Reply-To or From', () => {
    expect(
      decide(
        { replyTo: 'else@receiver.test', from: 'Bob <b@other.test>', fromAddresses: ['b@other.test'] },
        'Bob+tag@receiver.test',
      ),
    ).toEqual({ kind: 'yes', to: 'Bob+tag@receiver.test' })
  })

  test('with the null sender is not answered', () => {
    expect(decide({}, '')).toEqual(no('null_sender') as never)
  })

  test.each(['no-at-sign', 'a b@receiver.test', 'bob@[127.0.0.1]', `${'x'.repeat(300)}@receiver.test`])(
    'with an invalid sender (%s) is not answered',
    (mailFrom) => {
      expect(decide({}, mailFrom)).toEqual(no('no_address') as never)
    },
  )

  test.each([
    'MAILER-DAEMON',
    'mailer-daemon',
    'Postmaster',
    'owner-list',
    'list-owner',
    'list-request',
    'majordomo',
    'listserv',
    'bounces',
    'bounce+token',
    'bounces-bob=example.com',
    'news-bounces',
    'noreply',
    'no-reply',
    'no_reply',
    'NoReply',
    'no.reply',
    'donotreply',
    'do-not-reply',
    'service.noreply',
    'noreply+tag',
    'noreply-accounts',
    'auto-reply',
    'autoresponder',
    'notifications',
    'nobody',
  ])('from a program (%s) is not answered', (localPart) => {
    expect(decide({}, `${localPart}@receiver.test`)).toEqual(no('sender_is_a_program') as never)
  })

  test.each([
    'reply',
    'norbert',
    'noreen',
    'arno.replyford',
    'owner',
    'request',
    'bouncer',
    'postmasters-wife',
    'daemonica',
    'prvs=1234abcdef=bob',
  ])('from a person whose address (%s) only looks like that of a program is answered', (localPart) => {
    expect(decide({}, `${localPart}@receiver.test`)).toEqual({ kind: 'yes', to: `${localPart}@receiver.test` })
  })

  test('from a return path like ours is not answered: no person reads its mail', () => {
    expect(decide({}, `b-${'a2'.repeat(16)}@mail.other.test`)).toEqual(no('return_path') as never)
  })

  test('marked as automatic is not answered', () => {
    expect(decide({ isAutomatic: true })).toEqual(no('automatic') as never)
  })

  test.each(['List-Id', 'List-Unsubscribe', 'list-post', 'LIST-HELP'])(
    'with %s is from a mailing list and not answered',
    (name) => {
      expect(decide({ headers: [...createMessage().headers, [name, 'x']] })).toEqual(no('mailing_list') as never)
    },
  )

  test.each([MAILBOX_ADDRESS, `Agent@SENDER.test`, `agent+tag@${MAILBOX_DOMAIN}`])(
    'from the mailbox itself (%s), by envelope or From, is not answered',
    (address) => {
      expect([decide({}, address), decide({ fromAddresses: [address] })]).toEqual([
        no('own_address'),
        no('own_address'),
      ] as never)
    },
  )

  test('with the mailbox in neither To nor Cc is not answered', () => {
    expect(decide({ to: 'crowd@receiver.test', toAddresses: ['crowd@receiver.test'] })).toEqual(
      no('not_addressed') as never,
    )
    expect(decide({ to: null, toAddresses: [], cc: 'not a list, <of' })).toEqual(no('not_addressed') as never)
  })

  test('with the mailbox in Cc, with a plus or in capitals, is answered', () => {
    const yes = { kind: 'yes', to: 'bob@receiver.test' }
    expect([
      decide({ toAddresses: [], cc: `Eve <eve@receiver.test>, Agent <${MAILBOX_ADDRESS}>` }),
      decide({ toAddresses: ['eve@receiver.test', `agent+sales@${MAILBOX_DOMAIN}`] }),
      decide({ toAddresses: ['AGENT@Sender.TEST'] }),
    ]).toEqual([yes, yes, yes] as never)
  })

  const AUTHENTICATION: readonly (readonly [what: string, result: AuthenticationResult, isAnswered: boolean])[] = [
    ['that fails DMARC with the policy reject', createAuthentication({ dmarc: 'fail' }, 'reject'), false],
    ['that fails DMARC with the policy quarantine', createAuthentication({ dmarc: 'fail' }, 'quarantine'), false],
    ['that fails DMARC with the policy none', createAuthentication({ dmarc: 'fail' }, 'none'), true],
    ['that fails DMARC without a policy', createAuthentication({ dmarc: 'fail' }), true],
    ['that passes DMARC with a policy', createAuthentication({ dmarc: 'pass' }, 'reject'), true],
    ['whose sender fails SPF', createAuthentication({ spf: 'fail' }), false],
    ['whose sender softly fails SPF', createAuthentication({ spf: 'softfail' }), false],
    ['whose sender softly fails SPF, but passes DMARC', createAuthentication({ spf: 'softfail', dmarc: 'pass' }), true],
    ['whose sender has no SPF', createAuthentication({ spf: 'none' }), true],
  ]
  for (const [what, result, isAnswered] of AUTHENTICATION) {
    test(`${what} is ${isAnswered ? '' : 'not '}answered`, () => {
      expect(decide({}, undefined, result)).toEqual(
        (isAnswered ? { kind: 'yes', to: 'bob@receiver.test' } : no('forged')) as never,
      )
    })
  }

  test('with any headers never makes the decision throw', () => {
    const nasty = [
      '',
      '@',
      '<>',
      '"',
      '<<<>>>',
      'a@b@c',
      '\0',
      'x'.repeat(100_000),
      '😀'.repeat(1000),
      'a,'.repeat(9000),
    ]
    for (const text of nasty) {
      const message = { from: text, to: text, cc: text, fromAddresses: [text], toAddresses: [text] }
      expect(['yes', 'no']).toContain(decide(message).kind)
      expect(['yes', 'no']).toContain(decide({}, text).kind)
    }
  })
})

describe('the first matching rule answers:', () => {
  const rule = (match: AutoResponderRule['match'], textBody: string): AutoResponderRule => ({
    ...(match && { match }),
    reply: { text_body: textBody },
  })
  const answerTo = (rules: readonly AutoResponderRule[], message: Partial<StoredMessage> = {}) =>
    findRule(rules, createMessage(message))?.reply?.text_body

  test('a rule without match, or with an empty one, matches every message', () => {
    expect(answerTo([rule(undefined, 'all')])).toBe('all')
    expect(answerTo([rule({}, 'all')])).toBe('all')
    for (const match of ['all', '*'] as const) expect(answerTo([rule(match, 'all')])).toBe('all')
  })

  test('the order of the rules decides, and without a match there is no reply', () => {
    const rules = [rule({ subject_contains: 'price' }, 'first'), rule({ subject_contains: 'a question' }, 'second')]
    expect(answerTo([...rules, rule(undefined, 'third')], { subject: 'A QUESTION of price' })).toBe('first')
    expect(answerTo([...rules, rule(undefined, 'third')])).toBe('second')
    expect(answerTo(rules, { subject: 'Hello' })).toBeUndefined()
    expect(answerTo([])).toBeUndefined()
  })

  test('from is one address or a whole domain, in any spelling, and never matches part of one', () => {
    const of = (from: string, sender: string) =>
      answerTo([rule({ from }, 'yes')], { fromAddresses: [sender] }) === 'yes'
    expect({
      same: of('bob@receiver.test', 'BOB@Receiver.test'),
      other: of('bob@receiver.test', 'rob@receiver.test'),
      longer: of('bob@receiver.test', 'xbob@receiver.test'),
      domain: of('@receiver.test', 'bob@RECEIVER.test'),
      subdomain: of('@receiver.test', 'bob@mail.receiver.test'),
      suffix: of('@receiver.test', 'bob@notreceiver.test'),
      unicode: of('@bücher.test', 'bob@xn--bcher-kva.test'),
      none: answerTo([rule({ from: '@receiver.test' }, 'yes')], { fromAddresses: [] }),
    }).toEqual({
      same: true,
      other: false,
      longer: false,
      domain: true,
      subdomain: false,
      suffix: false,
      unicode: true,
      none: undefined,
    })
  })

  test('text_contains searches the first 100,000 characters of the text, ignoring case', () => {
    const rules = [rule({ text_contains: 'REFUND' }, 'yes')]
    expect(answerTo(rules, { text: `${'x'.repeat(99_994)}refund` })).toBe('yes')
    expect(answerTo(rules, { text: `${'x'.repeat(99_995)}refund` })).toBeUndefined()
    expect(answerTo(rules, { text: null })).toBeUndefined()
  })

  test('all conditions of a match must hold', () => {
    const rules = [rule({ from: '@receiver.test', subject_contains: 'question', text_contains: 'begin' }, 'yes')]
    expect(answerTo(rules)).toBe('yes')
    expect(answerTo(rules, { fromAddresses: ['bob@other.test'] })).toBeUndefined()
    expect(answerTo(rules, { subject: 'Hello' })).toBeUndefined()
    expect(answerTo(rules, { text: 'Hello' })).toBeUndefined()
  })
})
