import { describe, expect, test } from 'bun:test'
import { checkAnswer, isSameNumber } from '#features/reporting/insights/check.ts'
import { answer, finding } from './support.ts'

const METRICS = new Map<string, number>([
  ['period.days', 28],
  ['period.weeks', 4],
  ['guideline.bounce_pct_warn', 2],
  ['guideline.bounce_pct_critical', 5],
  ['guideline.delivery_pct_warn', 95],
  ['total.sent', 2100],
  ['total.delivered', 2000],
  ['total.bounced', 100],
  ['total.bounce_pct', 4.76],
  ['total.complaint_pct', 0.35],
  ['total.complaints', 0],
  ['total.clicks', 12],
  ['week_4.bounce_pct', 17.25],
  ['week_4.delivered', 1000],
  ['week_4.bounced', 208],
  ['recipients.163.com.bounced', 60],
  ['recipients.other_domain_12.bounced', 40],
  ['stream_3.delivered', 700],
  ['sending_domain_1.spf', 0],
])

const kept = (more: object) => checkAnswer(answer({ findings: [finding(more)] }), METRICS)?.findings[0]

describe('a written number', () => {
  test.each([
    ['4.76', 4.76, true],
    ['4.8', 4.76, true],
    ['4.7', 4.76, false],
    ['5', 4.76, false],
    ['4.760', 4.76, true],
    ['17', 17.25, true],
    ['17.3', 17.25, true],
    ['18', 17.25, false],
    ['2100', 2100, true],
    ['2100.0', 2100, true],
    ['2101', 2100, false],
    ['2000', 2100, false],
    ['0', 0.35, false],
    ['0.4', 0.35, true],
    ['1e2', 100, true],
    ['NaN', 100, false],
    ['', 0.35, false],
  ])('%s for %d: %p', (written, figure, same) => expect(isSameNumber(written, figure)).toBe(same))
})

describe('a finding stays', () => {
  test.each([
    ['that is valid', {}],
    ['with a rounded percentage', { observation: 'Bounces are at 4.8%.' }],
    [
      'with a thousands separator',
      {
        observation: 'It reached 2,000 recipients.',
        evidence: [{ metric: 'total.delivered', value: 2000 }],
      },
    ],
    [
      'that names what the stats name',
      {
        observation:
          '163.com and other domain 12 bounced in week 4, of stream_3 and sending domain 1: see recipients.163.com.bounced.',
      },
    ],
    [
      'that speaks of the period and the guidelines',
      { recommendation: 'Stay below 2% for the next 28 days, or 4 weeks.' },
    ],
    [
      'that calls a guideline a guideline',
      { observation: '4.76% is over the guideline of 2% and under the 5% critical threshold.' },
    ],
    [
      'with a range of guidelines in its advice',
      { recommendation: 'Come down to 0.1-0.3% in the next 28-day period.' },
    ],
    ['that contains no number', { observation: 'Bounces are high.', recommendation: 'Clean the list.' }],
    ['in another language', { observation: 'La tasa de rebote está en 4.76 %.', recommendation: 'Límpiela.' }],
  ])('%s', (_, more) => expect(kept(more)).toMatchObject({ area: 'deliverability' }))
})

describe('a finding is dropped', () => {
  const goes: readonly (readonly [what: string, more: object])[] = [
    ['that cites a stat with another value', { evidence: [{ metric: 'total.bounce_pct', value: 9.9 }] }],
    ['that cites a stat that does not exist', { evidence: [{ metric: 'total.spam_pct', value: 4.76 }] }],
    [
      'that cites two stats, one of them with a wrong value',
      {
        evidence: [
          { metric: 'total.bounce_pct', value: 4.76 },
          { metric: 'total.sent', value: 2101 },
        ],
      },
    ],
    ['without evidence', { evidence: [] }],
    ['with a number in the text that is not a cited stat', { observation: 'Bounces are at 4.76%, of 100.' }],
    ['with a number in the advice that is not a cited stat', { recommendation: 'Halt 3 campaigns.' }],
    ['with a name that is not in the stats', { observation: 'other domain 9 bounces.' }],
    ['with a week that does not exist', { observation: 'Bounces grew in week 44.' }],
    ['that names a host', { recommendation: 'Ask evil.example for help.' }],
    ['with an address', { recommendation: 'Write to ada@163.com.' }],
    ['with an address in full-width characters', { recommendation: 'Write to ada\uff20163.com.' }],
    ['with a URL', { recommendation: 'See https://163.com/help.' }],
    ['with a Markdown link', { recommendation: 'Click [here](javascript:alert).' }],
    ['with HTML', { observation: 'Bounces: <img src=x onerror=alert(1)>' }],
    ['with HTML between invisible characters', { observation: 'Bounces: \u200b<\u200bscript>' }],
    [
      'that rests on guidelines alone',
      { observation: 'It is bad.', evidence: [{ metric: 'guideline.bounce_pct_warn', value: 2 }] },
    ],
    ['that rests on the period alone', { observation: 'It is bad.', evidence: [{ metric: 'period.days', value: 28 }] }],
    ['with a host that contains a space', { recommendation: 'Ask evil .com for help.' }],
    ['with a host that contains another kind of dot', { recommendation: 'Ask evil\u3002com for help.' }],
    ['of an unknown severity', { severity: 'fatal' }],
    ['of an unknown area', { area: 'politics' }],
    ['without text', { observation: ' \u0007 ' }],
    ['that is too long', { observation: 'x '.repeat(400) }],
    ['that is too long after normalisation', { observation: '\ufdfa'.repeat(100) }],
    ['with a number in place of text', { observation: 4.76 }],
  ]
  test.each(goes)('%s', (_, more) => expect(kept(more)).toBeUndefined())
  test.each([[null], ['text'], [7], [[]]])('that is %j', (wrong) => {
    expect(checkAnswer(answer({ findings: [wrong, finding()] }), METRICS)).toMatchObject({ findings: [{}], dropped: 1 })
  })
})

test('control characters, line ends and invisible characters are removed from a valid text', () => {
  expect(kept({ observation: ' Bounces\r\n\tare \u202eat\u200b 4.76%.\u0000 ' })?.observation).toBe(
    'Bounces are at 4.76%.',
  )
})

describe('a finding is critical beyond a threshold:', () => {
  const severity = (metric: string) =>
    kept({ severity: 'critical', observation: 'This is bad.', evidence: [{ metric, value: METRICS.get(metric) }] })
      ?.severity
  test.each([
    ['total.bounce_pct', 'warn'],
    ['week_4.bounce_pct', 'critical'],
    ['total.complaint_pct', 'critical'],
    ['sending_domain_1.spf', 'critical'],
    ['total.sent', 'warn'],
  ])('%s is %s', (metric, expected) => expect(severity(metric)).toBe(expected as never))
})

test('a summary stays if its numbers are stats; otherwise it is dropped, and the findings stay', () => {
  const summaryOf = (summary: string) => checkAnswer(answer({ summary }), METRICS)
  expect(summaryOf('In 28 days 2,100 were sent, and 4.8% bounced.')?.summary).toBe(
    'In 28 days 2,100 were sent, and 4.8% bounced.',
  )
  // 208 is a weekly value that no finding cites. A summary may not use it: among this many stats, nearly any small
  // number occurs.
  for (const wrong of ['', '9,000 were sent.', '208 bounced.', 'Write to me@evil.example.', 'x'.repeat(1300)]) {
    expect(summaryOf(wrong)).toMatchObject({ summary: undefined, findings: [{}], dropped: 0 })
  }
})

test('only the first twenty findings are checked', () => {
  const { findings, dropped } =
    checkAnswer(answer({ findings: Array.from({ length: 30 }, () => finding()) }), METRICS) ?? {}
  expect([findings?.length, dropped]).toEqual([20, 10])
})

test.each([[undefined], [null], ['text'], [[]], [{}], [{ summary: 1, findings: [] }], [{ summary: '', findings: {} }]])(
  '%j is not a report',
  (wrong) => expect(checkAnswer(wrong, METRICS)).toBeUndefined(),
)
