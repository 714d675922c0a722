/** @module Inputs for composition tests: a plain one to vary, and a generator of tricky ones with a fixed seed. */
import type { TestMessage } from '#test/support/compose.ts'

export const plainInput: TestMessage = {
  from: '"Acme, Inc." <news@example.com>',
  to: ['Jane <jane@example.net>'],
  cc: [],
  subject: 'Hello',
  date: new Date(Date.UTC(2026, 0, 2, 3, 4, 5)),
  messageId: '<abc@example.com>',
  headers: [],
  text: 'Hello, world\n',
  attachments: [],
  boundarySeed: 'seed',
}

/** Numbers in [0, below), always the same for a seed (mulberry32). */
export function seededRandom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}

const SNIPPETS = [
  'word',
  ' ',
  '  ',
  '\t',
  '\n',
  '\r\n',
  '\r',
  '.',
  '\n.\n',
  '\nFrom me',
  'é',
  'ß',
  '日本語',
  '🎉',
  '\u00a0',
  '\u2028',
  '\f',
  '\v',
  '\u0085',
  '=',
  '=3D',
  '=_T',
  '--',
  '-- \n',
  '<b>',
  '</b>',
  '&amp;',
  '"',
  '\\',
  ',',
  ';',
  ':',
  '(',
  ')',
  '=?utf-8?Q?x?=',
  '\0',
  '\ud800',
  'x'.repeat(120),
  'ü'.repeat(90),
]

export const randomText = (random: (below: number) => number, pieces: number): string =>
  Array.from({ length: pieces }, () => SNIPPETS[random(SNIPPETS.length)]).join('')

/** Creates a message with many difficult features; each number gives a different one. */
export function createTrickyInput(number: number): TestMessage {
  const random = seededRandom(number)
  const line = (pieces: number) =>
    randomText(random, pieces)
      .replace(/[\0-\x1f\x7f-\x9f\u2028\u2029]/g, '')
      .toWellFormed()
  const bytes = (count: number) => Uint8Array.from({ length: count }, () => random(256))
  return {
    ...plainInput,
    subject: line(12),
    headers: [
      ['X-Tricky', line(8)],
      ['x-dup', line(3)],
      ['X-Dup', line(3)],
    ],
    text: randomText(random, random(60)),
    html: `<p>${randomText(random, random(120))}</p>`,
    attachments: [
      { filename: 'Rechnung Nr. 7 für "Jörg" 🎉.pdf', contentType: 'application/pdf', content: bytes(random(4_000)) },
      {
        filename: `a${random(1_000)}.txt`,
        contentType: 'text/plain; charset=utf-8',
        content: Buffer.from(randomText(random, 40)),
      },
    ],
    boundarySeed: `seed ${number}`,
  }
}
