/** @module Tests the text output of commands. */
import { expect, test } from 'bun:test'
import { formatFields, formatJson, formatPage } from '#app/cli/output.ts'

const NASTY = 'a\u001b]0;x\u0007\u007f\u0085\u009b31m\u2028\u2029\u202a\u202e\u2066\u2069'
const HARMLESS = '\u00e9\u{1f600}\u2027\u202f\u206a'
const ESCAPED = String.raw`a\u001b]0;x\u0007\u007f\u0085\u009b31m\u2028\u2029\u202a\u202e\u2066\u2069`

test('JSON output has no control character, line separator or bidirectional control, and parses to the same value', () => {
  const value = { subject: NASTY + HARMLESS, [NASTY]: ['\u009b'] }
  const text = formatJson(value)
  expect(text.split('\n')).toEqual([
    '{',
    `  "subject": "${ESCAPED}${HARMLESS}",`,
    `  "${ESCAPED}": [`,
    String.raw`    "\u009b"`,
    '  ]',
    '}',
  ])
  expect(JSON.parse(text)).toEqual(value)
})

test('a table cuts sentences, but nothing that is copied, and not the reply at its end', () => {
  const url = `https://hooks.example.com/${'a'.repeat(80)}`
  const row = { urls: [url, url], words: 'word '.repeat(30), reply: '550 5.1.1 no '.repeat(40).trim() }
  const [, shown = ''] = formatPage({ data: [row] }, 'urls words reply').split('\n')
  expect(shown).toStartWith(`${url}, ${url}  word word`)
  expect(shown).not.toContain(row.words)
  expect(shown).toEndWith(row.reply)
})

test('abbreviations are in capitals', () => {
  expect(formatFields({ tls: 'none', smtp_id: 'x', valid: true })).toBe('TLS:     none\nSMTP ID: x\nValid:   yes')
})
