/** @module What follows from replies: the table test/corpus/replies/decisions.txt, waits, and the rules themselves. */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { decideReply, type Phase } from '#features/sending/delivery/replies.ts'
import { parseReply } from '#test/corpus/replies/replies.ts'

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
