import { describe, expect, test } from 'bun:test'
import { detectDelimiter, formatCsv, unescapeCell } from '#platform/csv/cells.ts'
import { type CsvRecord, MAX_RECORD_BYTES, type ScanOptions, scanRecords } from '#platform/csv/records.ts'

const scan = (text: string | Buffer, options: Partial<ScanOptions> = {}) =>
  scanRecords(Buffer.from(text), { delimiter: ',', line: 1, isEnd: true, maxRecords: 1000, ...options })

/** Cells of records, and the line numbers of invalid ones. */
const describeRecords = (records: readonly CsvRecord[]) =>
  records.map((record) => (record.kind === 'record' ? record.cells : `${record.line}: ${record.error}`))

const UNCLOSED = 'A quote that begins in this line is not closed within 64 KiB.'

describe('a record', () => {
  const texts: [string, string, (readonly string[] | string)[]][] = [
    ['has the cells between its delimiters, without white space around them', ' a , b\t,c\n', [['a', 'b', 'c']]],
    [
      'ends with LF, CRLF, CR or the end of the file',
      'a,b\nc,d\r\ne,f\rg',
      [['a', 'b'], ['c', 'd'], ['e', 'f'], ['g']],
    ],
    ['that is empty is skipped, and so is one of empty cells', '\n\r\n  \n,,\n"",\na\n\n', [['a']]],
    [
      'keeps white space, delimiters and line ends in quotes',
      '" a,b ","c\nd\r\ne" , f\n',
      [[' a,b ', 'c\nd\r\ne', 'f']],
    ],
    ['has one quote for each doubled quote in quotes', '"a ""b""",""""\n', [['a "b"', '"']]],
    ['keeps a quote inside an unquoted cell', 'a "b",5" c\n', [['a "b"', '5" c']]],
    [
      'keeps a cell unchanged when text follows its closing quote',
      '"Ada, C." <ada@x.test>,b\n"a"b\n',
      [['"Ada, C." <ada@x.test>', 'b'], ['"a"b']],
    ],
    ['may be quoted at the end of the file', 'a,"b"', [['a', 'b']]],
    [
      'may have an empty last cell',
      'a,\n"a",\n',
      [
        ['a', ''],
        ['a', ''],
      ],
    ],
    [
      'with a quote that is never closed loses only its line',
      'a\n"b\nc,d\ne\n',
      [['a'], `2: ${UNCLOSED}`, ['c', 'd'], ['e']],
    ],
    [
      'with a quote that only the quote of another line closes loses only its line',
      'a,"b\nc,"d"\ne,f\n',
      [`1: ${UNCLOSED}`, ['c', 'd'], ['e', 'f']],
    ],
    [
      'that is not UTF-8 loses only its line',
      'a\nb\u0001\u0002\nc\n',
      [['a'], '2: The line is not in UTF-8; save the file as "CSV UTF-8".', ['c']],
    ],
  ]
  test.each(texts)('%s', (_, text, expected) => {
    const bytes = Buffer.from(text)
    // U+0002 in a sample marks a byte that begins no character in UTF-8.
    for (const [at, byte] of bytes.entries()) if (byte === 2) bytes[at] = 0xe9
    const { records, end } = scan(bytes)
    expect(describeRecords(records)).toEqual(expected)
    expect(end).toBe(bytes.length)
  })

  test('has its line number, however many lines the earlier ones had', () => {
    const { records, line } = scan('a\n\n"b\r\nc\rd"\n"e\nf\n')
    expect(records.map((record) => record.line)).toEqual([1, 3, 6, 7])
    expect(line).toBe(8)
  })

  test('has no line break in a one-line cell: its quote was not closed', () => {
    const text = '"a@x.test,1\nb@x.test,"\nc@x.test,"d\ne"\n'
    expect(describeRecords(scan(text, { oneLineCell: 0 }).records)).toEqual([
      `1: ${UNCLOSED}`,
      `2: ${UNCLOSED}`,
      ['c@x.test', 'd\ne'],
    ])
  })

  test('that is too long is refused, and a quote that extends too far loses only its line', () => {
    const long = 'x'.repeat(MAX_RECORD_BYTES + 1)
    const far = 'y\n'.repeat(MAX_RECORD_BYTES / 2)
    expect(() => scan(`a\n${long}\nb\n`)).toThrow('Line 2 is longer than 64 KiB')
    expect(() => scan(`a\n${long}`, { isEnd: false })).toThrow('Line 2 is longer than 64 KiB')
    const { records } = scan(`a\n"q\n${far}",z\n`, { maxRecords: 4 })
    expect(describeRecords(records)).toEqual([['a'], `2: ${UNCLOSED}`, ['y'], ['y']])
    expect(describeRecords(scan(`${'x'.repeat(MAX_RECORD_BYTES)}\n`).records)).toEqual([['x'.repeat(MAX_RECORD_BYTES)]])
  })
})

describe('a window', () => {
  test('returns no incomplete record, and no more than requested', () => {
    expect(scan('a\nb', { isEnd: false })).toMatchObject({ end: 2, line: 2 })
    expect(scan('a\n"b\n', { isEnd: false })).toMatchObject({ end: 2, line: 2 })
    expect(scan('a\n"b"', { isEnd: false })).toMatchObject({ end: 2, line: 2 })
    // The LF may follow.
    expect(scan('a\r', { isEnd: false })).toMatchObject({ end: 0, line: 1 })
    expect(scan('"a"\r', { isEnd: false })).toMatchObject({ end: 0, line: 1 })
    expect(scan('a\nb\nc\n', { maxRecords: 2 })).toMatchObject({ end: 4, line: 3 })
    expect(scan('\n\n\n\na\n', { maxLines: 2 })).toMatchObject({ records: [], end: 2, line: 3 })
  })
})

/** Returns a generator of random numbers, the same for the same seed. */
function randomCells(seed: number): (most: number) => number {
  let state = seed
  return (most) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((state / 2_147_483_648) * most)
  }
}

test('everything that is written is read back unchanged, wherever windows begin and end', () => {
  const random = randomCells(7)
  const parts = ['a', '"', ',', ';', '\n', '\r\n', '\r', ' ', 'é', '=', "'", '@', '\t', 'x'.repeat(30), '\ufeff', '😀']
  const cell = () => Array.from({ length: random(6) }, () => parts[random(parts.length)]).join('')
  const rows = Array.from({ length: 400 }, (_, i) => [`r${i}`, cell(), cell()])
  const file = Buffer.from(formatCsv(rows))
  for (let at = 0, line = 1, read = 0; at < file.length; ) {
    // A window that is short and not the end of the file may return nothing; it is then extended.
    let length = 1 + random(200)
    let result = scanRecords(file.subarray(at, at + length), {
      delimiter: ',',
      line,
      isEnd: false,
      maxRecords: 1 + random(5),
    })
    while (result.end === 0) {
      length += 50
      const isEnd = at + length >= file.length
      result = scanRecords(file.subarray(at, at + length), { delimiter: ',', line, isEnd, maxRecords: 3 })
    }
    for (const record of result.records) {
      if (record.kind === 'broken') throw new Error(`line ${record.line}: ${record.error}`)
      expect(record.cells.map(unescapeCell)).toEqual(rows[read++] ?? [])
    }
    at += result.end
    line = result.line
    if (at === file.length) {
      expect(read).toBe(rows.length)
      expect(line).toBe(1 + (file.toString().match(/\r\n|\n|\r/g)?.length ?? 0))
    }
  }
})

test('any bytes give the same records, whether a few at a time or all together are read, up to the last byte', () => {
  const random = randomCells(11)
  const parts = ['a', '"', '""', ',', '\n', '\r\n', '\r', ' ', 'é', '\u0000', '"\n', ',"', '",']
  for (let round = 0; round < 300; round++) {
    const text = Array.from({ length: random(60) }, () => parts[random(parts.length)]).join('')
    const file = Buffer.from(text)
    for (let i = random(4); i > 0; i--) if (file.length > 0) file[random(file.length)] = 0xe9
    const all = scan(file, { oneLineCell: 0 })
    expect(all.end).toBe(file.length)
    const few: CsvRecord[] = []
    for (let at = 0, line = 1; at < file.length; ) {
      const some = scan(file.subarray(at), { oneLineCell: 0, line, maxRecords: 1 + random(2), maxLines: 1 + random(3) })
      expect(some.end).toBeGreaterThan(0)
      few.push(...some.records)
      at += some.end
      line = some.line
    }
    expect(few).toEqual([...all.records])
  }
})

test('a semicolon is the delimiter only if no comma is outside of quotes', () => {
  expect(['a,b', 'a;b', 'a;b,c', 'a;"b,c"', '"a;b"', 'a'].map(detectDelimiter)).toEqual([',', ';', ',', ';', ',', ','])
})
