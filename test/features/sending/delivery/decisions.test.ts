/** @module What follows from replies: the table test/corpus/replies/decisions.txt, waits, and the rules themselves. */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { toVerdict } from '#features/sending/delivery/verdict/outcome.ts'
import { decideReply, type Phase } from '#features/sending/delivery/verdict/replies.ts'
import { hours, minutes } from '#platform/units.ts'
import { parseReply, REPLIES } from '#test/corpus/replies/replies.ts'

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
    for (const phase of ['mail', 'rcpt', 'data', 'body'] as const)
      for (const provider of [undefined, 'gmail', 'microsoft', 'yahoo']) {
        const reply = parseReply(text)
        const decision = decideReply(reply, phase, provider)
        const verdict = toVerdict({ kind: 'refused', reply, phase }, provider)
        const { action, suspendMs, waitMs } = decision
        const isPairTouched = action === 'slow' || action === 'suspend_provider'
        const isFine =
          verdict.kind === (action === 'none' || action === 'suppress' ? 'bounced' : 'deferred') &&
          (reply.code >= 500 || verdict.kind === 'deferred') &&
          (!isPairTouched || ['rate_limited', 'reputation'].includes(decision.category)) &&
          (action === 'suspend_provider') === (suspendMs !== undefined) &&
          (suspendMs === undefined || (suspendMs >= minutes(10) && suspendMs <= hours(4))) &&
          (action !== 'suppress' || (reply.code >= 500 && phase !== 'mail')) &&
          (waitMs === undefined || (verdict.kind === 'deferred' && waitMs >= minutes(1) && waitMs <= hours(2)))
        if (!isFine) problems.push(`${provider} ${phase} ${text}: ${JSON.stringify(decision)} ${verdict.kind}`)
      }
  expect(problems).toEqual([])
}, 240_000)
