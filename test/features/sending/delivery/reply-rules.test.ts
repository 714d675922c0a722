/** @module The rules of replies.toml, what follows from the replies in test/corpus/replies, and the operator's alerts. */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { ReplyAlerts } from '#features/sending/delivery/attempt/reply-alerts.ts'
import type { BounceCategory } from '#features/sending/delivery/protocol.ts'
import type { Pair } from '#features/sending/delivery/providers/pair.ts'
import providers from '#features/sending/delivery/providers/providers.toml'
import { toVerdict } from '#features/sending/delivery/verdict/outcome.ts'
import { classifyReply, decideReply, isPermanentlyInvalid } from '#features/sending/delivery/verdict/replies.ts'
import { GROUPS, type Phase, RULE_TABLE } from '#features/sending/delivery/verdict/reply-rules.ts'
import { createLog } from '#platform/log/log.ts'
import { hours, minutes } from '#platform/units.ts'
import { makeReply } from '#protocols/smtp/replies.ts'
import { parseReply, REPLIES } from '#test/corpus/replies/replies.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

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

test('only the start of a very long reply is examined', () => {
  const late = (words: string) => makeReply(451, [`${'x '.repeat(1000)}${words}`])
  expect(decideReply(late('blocked using zen.spamhaus.org'), 'rcpt', undefined).rule).toBe('unrecognised')
})

const CASES = readFileSync(new URL('../../../corpus/replies/decisions.txt', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))
  .map((line) => {
    const [provider = '', phase, text = '', rule, category, action] = line.split(' | ')
    return {
      provider,
      phase: phase as Phase,
      text,
      reply: parseReply(text),
      expected: { rule, category, action },
    }
  })

const casesByProvider = Map.groupBy(CASES, ({ provider }) => provider)

describe('what follows from the replies of', () => {
  test.each([...casesByProvider.keys()])('%s', (name) => {
    const cases = casesByProvider.get(name) ?? []
    const decided = cases.map(({ reply, phase, provider, text }) => {
      const { rule, category, action, alert } = decideReply(reply, phase, provider === '-' ? undefined : provider)
      return { text, rule, category, action: `${action}${alert ? '*' : ''}` }
    })
    expect(decided).toEqual(cases.map(({ text, expected }) => ({ text, ...expected })) as typeof decided)
  })
})

test('the table has at least 150 replies, each once', () => {
  expect(CASES.length).toBeGreaterThanOrEqual(150)
  expect(new Set(CASES.map(({ provider, phase, text }) => `${provider} ${phase} ${text}`)).size).toBe(CASES.length)
})

/** The same words with a code of the other class, as servers of other kinds would send them. */
const flipClass = (text: string): string =>
  text
    .split('\\\\')
    .map((line) => line.replace(/^[45]/, (digit) => (digit === '4' ? '5' : '4')))
    .join('\\\\')

test('whatever the words, code, phase and provider: only what waits touches the pair, and only dead addresses are suppressed', () => {
  const texts = new Set([...CASES, ...REPLIES].flatMap(({ text }) => [text, flipClass(text)]))
  const problems: string[] = []
  for (const text of texts)
    for (const phase of ['mail', 'rcpt', 'body'] as const)
      for (const provider of [undefined, 'gmail', 'microsoft']) {
        const reply = parseReply(text)
        const decision = decideReply(reply, phase, provider)
        const verdict = toVerdict({ kind: 'refused', reply, phase }, provider)
        const { action, suspendMs } = decision
        const isPairTouched = action === 'slow' || action === 'suspend_provider'
        const isFine =
          verdict.kind === (action === 'none' || action === 'suppress' ? 'bounced' : 'deferred') &&
          (reply.code >= 500 || verdict.kind === 'deferred') &&
          (!isPairTouched || ['rate_limited', 'reputation'].includes(decision.category)) &&
          (action === 'suspend_provider') === (suspendMs !== undefined) &&
          (suspendMs === undefined || (suspendMs >= minutes(10) && suspendMs <= hours(4))) &&
          (action !== 'suppress' || (reply.code >= 500 && phase !== 'mail'))
        if (!isFine) problems.push(`${provider} ${phase} ${text}: ${JSON.stringify(decision)} ${verdict.kind}`)
      }
  expect(problems).toEqual([])
}, 240_000)

const FILE = readFileSync(new URL('../../../corpus/replies/addresses.txt', import.meta.url), 'utf8')

// Proves: suppress-8
test.each(
  FILE.split(/^## /m)
    .slice(1)
    .map((group) => group.trim().split('\n')),
)('an address is %s', (title = '', ...lines) => {
  const isDead = title.startsWith('dead')
  expect(lines.length).toBeGreaterThan(0)
  const wrong = lines.filter((line) => {
    const [, phase, text] = /^(\w+) \| (.*)$/.exec(line) ?? []
    return text === undefined || isPermanentlyInvalid(parseReply(text), phase as 'rcpt') !== isDead
  })
  expect(wrong).toEqual([])
})

// Proves: suppress-8
test('bounces of invalid addresses have the category invalid_recipient or inactive_mailbox, and other bounces that of their cause', () => {
  const cases: [string, BounceCategory][] = [
    ['554 delivery error: dd Not a valid recipient', 'invalid_recipient'],
    ['554 Sorry, no mailbox here by that name. (#5.1.1)', 'invalid_recipient'],
    ['550 5.4.1 [x@y.test]: Recipient address rejected: Access denied. AS(201806281) [z]', 'invalid_recipient'],
    ['550 This account has been closed', 'inactive_mailbox'],
    ['550 5.2.1 Mailbox unavailable. Your IP address is blacklisted using SPAMHAUS-XBL', 'reputation'],
    ['450 4.2.1 The user you are trying to contact is receiving mail at a rate that', 'rate_limited'],
    ['550 5.2.1 The email account that you tried to reach is disabled', 'inactive_mailbox'],
    ['550 <spam@x.test>: Recipient address rejected: User unknown', 'invalid_recipient'],
  ]
  expect(cases.map(([text]) => [text, classifyReply(parseReply(text), 'body')])).toEqual(cases)
})

test('only the start of a very long reply is examined', () => {
  const judged = (words: number) => {
    const reply = parseReply(`554 ${'word '.repeat(words)}No such user`)
    return [isPermanentlyInvalid(reply, 'body'), classifyReply(reply, 'body')]
  }
  expect([judged(300), judged(13_000)]).toEqual([
    [true, 'invalid_recipient'],
    [false, 'unknown'],
  ])
})

const LISTED = '554 5.7.1 Client host [192.0.2.1] blocked using zen.spamhaus.org'
const GREYLISTED = '450 4.2.0 Greylisted'
const refusal = (text: string) => toVerdict({ kind: 'refused', reply: parseReply(text), phase: 'mail' })
/** The pair of a listed provider, or of a site without an entry. */
const pairOf = (provider: string | undefined, site = 'mx.receiver.test') => {
  const name = provider ?? site
  const isNamed = provider !== undefined
  return { key: name, provider: { name, isNamed } as Pair['provider'], sourceIp: '192.0.2.1' }
}

test('the operator is warned of a block once an hour for each rule and provider, with the number of the others', () => {
  const lines: Record<string, unknown>[] = []
  const clock = new ManualClock(Date.UTC(2026, 0, 1))
  const alerts = new ReplyAlerts(clock, createLog('warn', { write: (line) => void lines.push(JSON.parse(line)) }))
  const note = (text: string, provider: string | undefined) =>
    alerts.record(refusal(text), { site: 'mx.receiver.test', pair: pairOf(provider), session: undefined })
  for (let i = 0; i < 100; i++) note(LISTED, undefined)
  note(GREYLISTED, undefined)
  note(LISTED, 'gmx')
  clock.advance(minutes(59))
  note(LISTED, undefined)
  clock.advance(hours(1))
  note(LISTED, undefined)
  expect(lines.map(({ rule, provider, site, moreInLastHour }) => ({ rule, provider, site, moreInLastHour }))).toEqual([
    { rule: 'block-list', provider: undefined, site: 'mx.receiver.test', moreInLastHour: 0 },
    { rule: 'block-list', provider: 'gmx', site: 'mx.receiver.test', moreInLastHour: 0 },
    { rule: 'block-list', provider: undefined, site: 'mx.receiver.test', moreInLastHour: 100 },
  ])
  expect(lines[0]).toMatchObject({ category: 'reputation', reply: LISTED })
})

test('alerts are listed by rule and pair for a day after the last reply, at most 200, first of all those of listed providers', () => {
  const clock = new ManualClock(Date.UTC(2026, 0, 1))
  const alerts = new ReplyAlerts(clock, createLog('silent'))
  const note = (text: string, provider: string | undefined, site?: string) =>
    alerts.record(refusal(text), { site: 'mx.receiver.test', pair: pairOf(provider, site), session: undefined })
  note(LISTED, 'gmx')
  note(GREYLISTED, 'gmail')
  clock.advance(hours(23))
  note(LISTED, undefined)
  note(`${LISTED}: ${'x'.repeat(1000)}`, 'gmx')
  expect(alerts.list()).toEqual([
    {
      rule: 'block-list',
      category: 'reputation',
      provider: 'gmx',
      isNamed: true,
      source: '192.0.2.1',
      reply: expect.stringMatching(/^554 5\.7\.1 Client host.{479}$/),
      firstAt: Date.UTC(2026, 0, 1),
      lastAt: Date.UTC(2026, 0, 1, 23),
      count: 2,
    },
    expect.objectContaining({ provider: 'mx.receiver.test', isNamed: false, count: 1 }),
  ])
  for (let n = 0; n < 1000; n++) note(LISTED, undefined, `mx${n}.test`)
  const found = alerts.list()
  expect([found.length, found[0]?.provider, found.at(-1)?.provider]).toEqual([200, 'mx999.test', 'gmx'])
  clock.advance(hours(24))
  expect(alerts.list()).toEqual([])
})
