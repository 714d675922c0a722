/** @module What the browser reads from a suppression list agrees with what the service reads. */
import { describe, expect, test } from 'bun:test'
import { toFileLine, toPart } from '#dashboard/screens/suppressions/import-run.ts'
import { type FilePreview, readSuppressionFile } from '#dashboard/screens/suppressions/read-file.ts'
import { type CsvLine, readCsv } from '#features/audience/suppressions/csv.ts'
import { parseSuppressedAddress } from '#features/audience/suppressions/suppressions.ts'
import { cpuMs } from '#test/support/cpu-time.ts'

async function readAsService(text: string): Promise<CsvLine[]> {
  const lines: CsvLine[] = []
  for await (const batch of readCsv(new TextEncoder().encode(text))) lines.push(...batch)
  return lines
}

/** Every part that is sent, as the service reads it, by lines of the file. */
async function readParts(preview: FilePreview): Promise<(readonly [line: number, address: string])[]> {
  const found: (readonly [number, string])[] = []
  for (let done = 0; done < preview.entries.length; ) {
    const part = toPart(preview, done)
    for (const line of await readAsService(part.csv)) {
      if (line.kind === 'broken') throw new Error(line.error)
      found.push([toFileLine(part, preview.header, line.line), line.email_address])
    }
    done += part.entries.length
  }
  return found
}

describe('a suppression list', () => {
  test.each([
    ['addresses alone', 'bob@example.com\neve@example.com\n'],
    ['addresses with reasons', 'bob@example.com,bounce\r\neve@example.com,spam\r\n'],
    [
      'our own export',
      `email_address,reason,stream,list\r\n"'+bob@example.com",manual,,\r\neve@example.com,unsubscribe,news,\r\n`,
    ],
    [
      'another service',
      '\ufeff"Created";"E-Mail";"Reason"\r\n1;bob@example.com;"550 5.1.1 no\r\nsuch user"\r\n\r\n2;"eve@example.com";""\r\n',
    ],
    ['a fallback name', 'id,Recipient\n1,bob@example.com\n2,Eve <eve@example.com>\n'],
    ['old line ends', 'email\rbob@example.com\reve@example.com'],
  ])('is read like the service reads it: %s', async (_, text) => {
    const preview = await readSuppressionFile(text)
    const whole = await readAsService(text)
    expect(preview.wrong.count).toBe(0)
    expect(preview.entries.map(({ line }) => line)).toEqual(whole.map(({ line }) => line))
    expect(await readParts(preview)).toEqual(
      whole.map((line) => [line.line, line.kind === 'row' ? line.email_address : ''] as const),
    )
  })

  test('has its wrong and repeated lines by number', async () => {
    const preview = await readSuppressionFile(
      [
        'email,reason',
        'bob@example.com,bounce',
        'BOB@example.com,bounce',
        'bob@example.com,unsubscribed',
        '',
        'not an address,x',
        ',manual',
        'eve@example.com,a,b',
        '"open@example.com,x',
        'two words@example.com,',
        'mallory@example.com,"<script>alert(1)</script>"',
      ].join('\n'),
    )
    expect(preview.entries.map(({ line }) => line)).toEqual([2, 4, 11])
    expect(preview.duplicates).toEqual({ count: 1, lines: [3] })
    expect(preview.wrong.problems).toEqual([
      { line: 6, error: 'This is not an email address.' },
      { line: 7, error: 'There is no address in this line.' },
      { line: 8, error: 'The line has 3 fields instead of 2.' },
      { line: 9, error: 'A quote in this line is not closed.' },
      { line: 10, error: 'This is not an email address.' },
    ])
    expect(preview.total).toBe(9)
    expect(await readParts(preview)).toEqual([
      [2, 'bob@example.com'],
      [4, 'bob@example.com'],
      [11, 'mallory@example.com'],
    ])
  })

  test('loses no address that the service takes', async () => {
    const addresses = [
      'bob@example.com',
      '"b o b"@example.com',
      'Bob <bob@example.com>',
      'büro@bücher.example',
      'b@localhost',
    ]
    const taken = addresses.filter((address) => !('reason' in parseSuppressedAddress(address)))
    const file = `email\n${taken.map((address) => `"${address.replaceAll('"', '""')}"`).join('\n')}`
    expect((await readSuppressionFile(file)).entries.length).toBe(taken.length)
    expect(taken.length).toBeGreaterThan(3)
  })

  test.each([
    ['', 'There is no address in it.'],
    ['email\n', 'There is no address in it.'],
    ['name,age\nbob,3\n', 'neither an address nor'],
    ['email\treason\nbob@example.com\tx\n', 'separated by tabs'],
  ])('that cannot be read is an error: %j', async (text, message) => {
    await expect(readSuppressionFile(text)).rejects.toThrow(message)
  })

  test('of 60,000 lines is read in moments, with or without quotes', async () => {
    const plain = Array.from({ length: 60_000 }, (_, index) => `user${index}@example.com`).join('\n')
    const quoted = Array.from({ length: 20_000 }, (_, index) => `"user${index}@example.com","x"`).join('\n')
    const startedAt = cpuMs()
    expect((await readSuppressionFile(plain)).entries.length).toBe(60_000)
    expect((await readSuppressionFile(quoted)).entries.length).toBe(20_000)
    expect(cpuMs() - startedAt).toBeLessThan(10_000)
    await expect(readSuppressionFile(`email\n${'"x\n'.repeat(5000)}`)).rejects.toThrow('Too many quotes')
  })

  test('is sent in parts of at most a thousand lines', async () => {
    const preview = await readSuppressionFile(Array.from({ length: 2500 }, (_, i) => `user${i}@example.com`).join('\n'))
    expect([0, 1000, 2000].map((from) => toPart(preview, from).entries.length)).toEqual([1000, 1000, 500])
    const long = await readSuppressionFile(
      `email,note\n${`a@example.com,${'x'.repeat(50_000)}\n`.replaceAll('a@', 'b@')}c@example.com,${'y'.repeat(50_000)}`,
    )
    expect(toPart(long, 0).entries.length).toBe(2)
  })
})
