import { expect, test } from 'bun:test'
import { buildReport } from '#features/reporting/insights/report.ts'

const MARKUP: readonly (readonly [text: string, markdown: string])[] = [
  ['4.76% bounced', '4.76% bounced'],
  ['4. a list', '4\\. a list'],
  ['7) a list', '7\\) a list'],
  ['- a list', '\\- a list'],
  ['+ a list', '\\+ a list'],
  ['=== a heading', '\\=== a heading'],
  ['# a heading', '\\# a heading'],
  ['> a quote', '\\> a quote'],
  ['*bold* _move_ `code` ~gone~', '\\*bold\\* \\_move\\_ \\`code\\` \\~gone\\~'],
  ['![a](b) &lt; | <b>', '\\!\\[a\\](b) \\&lt; \\| \\<b\\>'],
  ['a - b', 'a - b'],
]

test.each(MARKUP)('%j is %j in Markdown', (text, markdown) => {
  const figures = { periodStart: 0, periodEnd: 0, metrics: new Map([['total.sent', 1]]), names: new Map() }
  const finding = { severity: 'info', area: 'performance', recommendation: 'None.', metrics: ['total.sent'] } as const
  const report = buildReport(
    { summary: 'Fine.', findings: [{ ...finding, observation: text }], dropped: 0 },
    figures,
    'a model',
  )
  expect(report.markdown.split('\n\n')[3]).toBe(markdown)
})
