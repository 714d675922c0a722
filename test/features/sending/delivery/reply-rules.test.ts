/** @module The rules of replies.toml themselves: complete, well-formed, and bounded for any reply. */
import { describe, expect, test } from 'bun:test'
import providers from '#features/sending/delivery/providers/providers.toml'
import { decideReply } from '#features/sending/delivery/verdict/replies.ts'
import { GROUPS, RULE_TABLE } from '#features/sending/delivery/verdict/reply-rules.ts'
import { findNamedWait, MAX_REPLY_WAIT_MS } from '#features/sending/delivery/verdict/reply-wait.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import { makeReply } from '#protocols/smtp/replies.ts'
import { parseReply, REPLIES } from '#test/corpus/replies/replies.ts'

/** The registered codes, www.iana.org/assignments/smtp-enhanced-status-codes: subject, and its details from 0 on. */
const REGISTERED: Readonly<Record<string, number>> = { 0: 0, 1: 10, 2: 4, 3: 6, 4: 7, 5: 6, 6: 10, 7: 30 }
const REGISTERED_CODES = Object.entries(REGISTERED).flatMap(([subject, last]) =>
  Array.from({ length: last + 1 }, (_, detail) => `${subject}.${detail}`),
)
/** None stops all mail of an address of ours: any server can claim that it is listed. */
const ACTIONS = ['suppress', 'retry', 'slow', 'suspend_provider']
const CATEGORIES =
  'invalid_recipient mailbox_full inactive_mailbox spam_content policy authentication reputation rate_limited message_too_large dns_failure tls_failure protocol_error relay_denied expired unknown'.split(
    ' ',
  )
const CORPUS = REPLIES.map(({ text }) => text)
const rulesOfTable = [...GROUPS, 'fallback' as const].flatMap((group) => RULE_TABLE[group])

describe('replies.toml', () => {
  test('has an entry with category and action for each registered code', () => {
    expect(REGISTERED_CODES.filter((code) => !RULE_TABLE.codes[code])).toEqual([])
    for (const [code, { category, action = '' }] of Object.entries(RULE_TABLE.codes)) {
      expect([code, CATEGORIES.includes(category), ACTIONS.includes(action)]).toEqual([code, true, true])
    }
  })

  test('decides by the entry of a registered code when a reply has no words', () => {
    for (const code of REGISTERED_CODES.filter((each) => RULE_TABLE.codes[each]?.category !== 'unknown')) {
      const entry = RULE_TABLE.codes[code]
      const { rule, category } = decideReply(makeReply(550, [`5.${code}`]), 'rcpt', undefined)
      expect([rule, category as string]).toEqual([`X.${code}`, String(entry?.category)])
    }
  })

  test('has rules with an id of their own, known fields and values, and a source', () => {
    const ids = rulesOfTable.map(({ id }) => id)
    expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([])
    const fields = 'id category provider action suspend alert source patterns codes replies phases'.split(' ')
    for (const rule of rulesOfTable) {
      expect([rule.id, Object.keys(rule).filter((field) => !fields.includes(field))]).toEqual([rule.id, []])
      expect(rule.id).toMatch(/^[a-z0-9.-]{1,50}$/)
      expect([rule.id, CATEGORIES.includes(rule.category)]).toEqual([rule.id, true])
      expect([rule.id, rule.action === undefined || ACTIONS.includes(rule.action)]).toEqual([rule.id, true])
      expect([rule.id, RULE_TABLE.sources[rule.source]]).toEqual([rule.id, expect.stringMatching(/^https?:\/\//)])
      if (rule.suspend !== undefined) expect(rule.suspend).toMatch(/^\d{1,3}[mh]$/)
    }
  })

  test('gives each suspension a time, and suspends only for what is deferred', () => {
    for (const { id, category, ...own } of rulesOfTable) {
      const { action, suspend } = { ...RULE_TABLE.defaults[category], ...own }
      if (action !== 'suspend_provider') continue
      expect([id, category === 'reputation' || category === 'rate_limited']).toEqual([id, true])
      expect([id, suspend]).toEqual([id, expect.stringMatching(/^\d+[mh]$/)])
    }
  })

  test('names only providers that providers.toml has', () => {
    const named = [...new Set(rulesOfTable.flatMap(({ provider }) => provider ?? []))]
    expect(named.length).toBeGreaterThan(10)
    expect(named.filter((name) => !(name in providers))).toEqual([])
  })

  test('uses each of its sources', () => {
    const used = new Set(rulesOfTable.map(({ source }) => source))
    expect(Object.keys(RULE_TABLE.sources).filter((source) => !used.has(source))).toEqual([])
  })
})

describe('a decision', () => {
  test('touches a named provider for strange words only before RCPT, and a server of none always', () => {
    const listed = makeReply(554, ['5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org'])
    const actions = (['session', 'mail', 'rcpt', 'data', 'body'] as const).map((phase) => [
      decideReply(listed, phase, 'microsoft').action,
      decideReply(listed, phase, undefined).action,
    ])
    expect(actions).toEqual([
      ['suspend_provider', 'suspend_provider'],
      ['suspend_provider', 'suspend_provider'],
      ['retry', 'suspend_provider'],
      ['retry', 'suspend_provider'],
      ['retry', 'suspend_provider'],
    ])
  })

  test('has an id that names no other provider than the one that answered', () => {
    const busy = makeReply(451, ['4.3.2 Internal resources are temporarily unavailable'])
    const rules = ['mimecast', 'yahoo', undefined].map((provider) => decideReply(busy, 'rcpt', provider).rule)
    expect(rules).toEqual(['mimecast-busy', 'busy', 'mimecast-busy'])
    const owners = [...new Set(rulesOfTable.flatMap(({ provider }) => provider ?? []))]
    const foreign = CORPUS.flatMap((text) =>
      ['yahoo', 'gmail', 'microsoft'].flatMap((provider) => {
        const { rule } = decideReply(parseReply(text), 'body', provider)
        return owners.some((owner) => owner !== provider && rule.startsWith(`${owner}-`)) ? [`${provider} ${rule}`] : []
      }),
    )
    expect(foreign).toEqual([])
  })

  test('takes codes that only one provider uses so from this provider alone', () => {
    const reply = makeReply(550, ['5.7.27 No'])
    expect(decideReply(reply, 'body', 'gmail')).toMatchObject({ rule: 'gmail-authentication' })
    expect(decideReply(reply, 'body', 'yahoo')).toMatchObject({ rule: 'X.7.27', category: 'dns_failure' })
    expect(decideReply(reply, 'body', undefined)).toMatchObject({ rule: 'X.7.27', category: 'dns_failure' })
  })

  test('has a time to suspend, and none for any other action', () => {
    const decide = (text: string) =>
      decideReply(makeReply(Number(text.slice(0, 3)), [text.slice(4)]), 'mail', 'microsoft')
    expect(decide('451 4.7.650 limited')).toMatchObject({ action: 'suspend_provider', suspendMs: minutes(10) })
    expect(decide('550 5.7.606 banned')).toMatchObject({ action: 'suspend_provider', suspendMs: hours(4) })
    expect(decide('451 4.7.500 busy')).not.toHaveProperty('suspendMs')
  })

  test('never suppresses for a reply before RCPT, nor for a 4xx', () => {
    const unknown = (code: number) => makeReply(code, [`${code === 550 ? 5 : 4}.1.1 User unknown`])
    expect(decideReply(unknown(550), 'rcpt', undefined).action).toBe('suppress')
    expect(decideReply(unknown(550), 'mail', undefined).action).toBe('none')
    expect(decideReply(unknown(550), 'session', undefined).action).toBe('retry')
    expect(decideReply(unknown(450), 'rcpt', undefined).action).toBe('retry')
  })
})

describe('the wait that a reply names', () => {
  test.each([
    ['451 4.7.1 Greylisted, please try again in 300 seconds', seconds(300)],
    ['451 4.7.1 Greylisting in action, please come back in 00:05:00', minutes(5)],
    ['421 4.7.0 Too many messages, try again in 10 minutes', minutes(10)],
    ['421 4.7.0 Retry after 90 sec', seconds(90)],
    ['421 4.7.0 please retry in 1h', hours(1)],
    ['421 4.7.0 Please wait 30 minutes before retrying', minutes(30)],
    ['450 4.7.1 in 5 minutes try again', minutes(5)],
    ['450 Bitte in 15 Minuten erneut versuchen', minutes(15)],
    ['450 Bitte warten Sie 120 Sekunden', seconds(120)],
    ['450 Bitte in 1 Stunde wieder versuchen', hours(1)],
    ['450 Veuillez réessayer dans 20 minutes', minutes(20)],
    ['421 4.7.0 Try again in 5s', minutes(1)],
    ['421 4.7.0 retry after 4h', MAX_REPLY_WAIT_MS],
    ['421 4.7.0 retry in 999999 hours', MAX_REPLY_WAIT_MS],
    ['421 4.7.0 retry in 0 seconds', minutes(1)],
  ])('%s', (text, expected) => expect(findNamedWait(text)).toBe(expected))

  test.each([
    '450 4.7.1 Try again later',
    '450 You sent 100 messages in 60 minutes',
    '450 Try again later. Limit: 100 messages in 60 minutes',
    '421 Your IP 10.20.30.40 must wait',
    '450 retry 10 messages',
    '450 again 192.0.2.1 5 m',
    '',
  ])('is none in: %s', (text) => expect(findNamedWait(text)).toBeUndefined())

  test('is part of a deferral only, and never decides alone', () => {
    const decide = (code: number, text: string) => decideReply(makeReply(code, [text]), 'rcpt', undefined)
    expect(decide(450, '4.2.0 Greylisted, retry in 20 minutes')).toMatchObject({ action: 'retry', waitMs: minutes(20) })
    expect(decide(550, '5.1.1 User unknown, retry in 20 minutes')).not.toHaveProperty('waitMs')
    expect(decide(554, '5.7.1 blocked using zen.spamhaus.org, retry in 20 minutes')).toMatchObject({
      action: 'suspend_provider',
      waitMs: minutes(20),
    })
  })
})

test('only the start of a very long reply is examined', () => {
  const late = (words: string) => makeReply(451, [`${'x '.repeat(1000)}${words}`])
  expect(findNamedWait(late('try again in 10 minutes').text)).toBeUndefined()
  expect(decideReply(late('blocked using zen.spamhaus.org'), 'rcpt', undefined).rule).toBe('unrecognised')
})
