import { describe, expect, test } from 'bun:test'
import { removeQuotes } from '#protocols/mime/reply.ts'

const QUOTED = '> could you\n> come?\n>\n> Ann\n'

test.each([
  ['Gmail', `Yes.\n\nOn Tue, 3 Nov 2026 at 10:00, Ann <ann@sender.example> wrote:\n\n${QUOTED}`, 'Yes.'],
  [
    'Gmail, with the introduction on two lines',
    `Yes.\n\nOn Tue, 3 Nov 2026 at 10:00, Ann With A Long Name\n<ann@sender.example> wrote:\n\n${QUOTED}`,
    'Yes.',
  ],
  ['German', `Ja.\n\nAm Di., 3. Nov. 2026 um 10:00 Uhr schrieb Ann <ann@sender.example>:\n\n${QUOTED}`, 'Ja.'],
  ['French', `Oui.\n\nLe mar. 3 nov. 2026 à 10:00, Ann <ann@sender.example> a écrit :\n\n${QUOTED}`, 'Oui.'],
  ['Spanish', `Sí.\n\nEl mar, 3 nov 2026 a las 10:00, Ann (<ann@sender.example>) escribió:\n\n${QUOTED}`, 'Sí.'],
  ['Chinese', `好\n\n在 2026年11月3日,10:00,Ann <ann@sender.example> 写道：\n\n${QUOTED}`, '好'],
  [
    'Outlook, which quotes without a sign',
    'Yes.\n\n-----Original Message-----\nFrom: Ann <ann@sender.example>\nSent: Tuesday\nTo: me\n\ncould you come?\nAnn',
    'Yes.',
  ],
  ['Outlook in German', 'Ja.\n\nVon: Ann <ann@sender.example>\nGesendet: Dienstag\nAn: mich\n\nkannst du?\n', 'Ja.'],
  [
    'an answer between quotations',
    'See below.\n\nOn Tue, Ann <ann@sender.example> wrote:\n\n> first?\n\nYes.\n\n> second?\n\nNo.\n',
    'See below.\n\nYes.\n\nNo.',
  ],
  [
    'a signature, indented lines and blank lines are kept',
    `Yes,\n\n  indented\n\n\nboth.\n-- \nAnn\n\nOn Tue, Bob <bob@tassis.example> wrote:\n\n${QUOTED}`,
    'Yes,\n\n  indented\n\n\nboth.\n-- \nAnn',
  ],
  ['nothing is quoted', 'Just text.\n\nFrom: here on it is fine.\n-- \nAnn\n', null],
  ['a signature is not a quotation', 'Yes.\n\n-- \nAnn\n', null],
  ['nothing but a quotation', QUOTED, null],
  ['no text', '', null],
])('%s', (_, text, expected) => {
  expect(removeQuotes(text)).toBe(expected)
})

test('a line of any length and any characters is preserved', () => {
  const own = `${'long '.repeat(500)}\n\ue0001\ue000\n> is not at the start: >\n$& $1\n🎉 ${'x'.repeat(300)}`.replace(
    '\n> ',
    '\n ',
  )
  expect(removeQuotes(`${own}\n\nOn Tue, Ann <ann@sender.example> wrote:\n\n${QUOTED}`)).toBe(own)
})

describe('beyond 64 KiB', () => {
  const filler = `${'a line of text\n'.repeat(6000)}`

  test('text after a quotation belongs to it', () => {
    expect(removeQuotes(`Yes.\n\nOn Tue, Ann <ann@sender.example> wrote:\n\n${'> quoted\n'.repeat(10_000)}`)).toBe(
      'Yes.',
    )
  })

  test('text after own text is own text', () => {
    expect(removeQuotes(`Yes.\n\nOn Tue, Ann <ann@sender.example> wrote:\n\n> quoted\n\n${filler}end`)).toBe(
      `Yes.\n\n${filler}end`,
    )
  })
})

describe('hostile text is read in linear time', () => {
  // Each of these alone takes the library hours or longer.
  test.each([
    ['a word that opens', 'On '.repeat(20_000)],
    ['lines that nearly end', `${'On a on at '.repeat(14)}\n`.repeat(400)],
    ['numbers and brackets', `${'0000from<'.repeat(17)} wrote\n`.repeat(400)],
    ['dates and quotes', `${'00.00.2000"<>'.repeat(12)} wrote\n`.repeat(400)],
    ['words over many lines', 'aaa. skrev skrev skrev skrev skrev skrev skrev skrev skrev\n'.repeat(1100)],
    ['words without an end', 'Op schreef\n'.repeat(6000)],
    ['blank lines', '\n'.repeat(65_000)],
    ['quote markers', '>'.repeat(65_000)],
    ['spaces', `${' '.repeat(150)}wrote\n`.repeat(400)],
    ['dashes', `${'-'.repeat(150)}wrote\n`.repeat(400)],
    ['ten million characters', 'a\n'.repeat(5_000_000)],
  ])('%s', (_, text) => {
    expect(removeQuotes(text)).toBeNull()
  })
})
