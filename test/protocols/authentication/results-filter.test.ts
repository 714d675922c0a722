import { describe, expect, test } from 'bun:test'
import { removeForgedResults } from '#protocols/authentication/results-header.ts'

const HOST = 'mail.tassis.test'
const FORGED = `Authentication-Results: ${HOST}; spf=pass`

/** The filtered message, fed in chunks of one size. */
function filtered(message: string, sliceBytes: number, isJudged = false): string {
  const bytes = Buffer.from(message, 'latin1')
  const slices = Array.from({ length: Math.ceil(bytes.length / sliceBytes) }, (_, n) =>
    bytes.subarray(n * sliceBytes, (n + 1) * sliceBytes),
  )
  return Buffer.concat([...removeForgedResults(slices, HOST, isJudged)]).toString('latin1')
}

describe('the output is the same for chunks of any size:', () => {
  test.each<[name: string, message: string, out: string]>([
    [
      'a message without results',
      'From: a@b.test\r\nSubject: x\r\n\r\nBody\r\n',
      'From: a@b.test\r\nSubject: x\r\n\r\nBody\r\n',
    ],
    ['a forged field', `A: 1\r\n${FORGED}\r\nB: 2\r\n\r\nBody`, 'A: 1\r\nB: 2\r\n\r\nBody'],
    [
      'a folded field with its continuation lines',
      `A: 1\r\nauthentication-RESULTS:\r\n\t${HOST.toUpperCase()}.;\r\n dkim=pass\r\n\tx\r\nB: 2\r\n\r\n`,
      'A: 1\r\nB: 2\r\n\r\n',
    ],
    [
      'several in a row, the first and the last of the header',
      `${FORGED}\r\n${FORGED}\r\nA: 1\r\n${FORGED}\r\n\r\n${FORGED}\r\n`,
      `A: 1\r\n\r\n${FORGED}\r\n`,
    ],
    [
      "another host's folded field",
      'Authentication-Results:\r\n\tother.test; spf=pass\r\n\r\n',
      'Authentication-Results:\r\n\tother.test; spf=pass\r\n\r\n',
    ],
    ['a field without a readable authserv-id', 'Authentication-Results: spf=pass\r\nA: 1\r\n\r\n', 'A: 1\r\n\r\n'],
    [
      "other hosts' fields, and names with the same beginning",
      'Authentication-Results: other.test; spf=pass\r\nAuthentication-Results-Original: mail.tassis.test; x\r\nAuthentication: 1\r\n\r\n',
      'Authentication-Results: other.test; spf=pass\r\nAuthentication-Results-Original: mail.tassis.test; x\r\nAuthentication: 1\r\n\r\n',
    ],
    ['lines that end with LF', `A: 1\n${FORGED}\nB: 2\n\n${FORGED}\n`, `A: 1\nB: 2\n\n${FORGED}\n`],
    ['a field after a lone CR, where some readers see one', `A: 1\r${FORGED}\r\nB: 2\r\n\r\n`, 'A: 1\rB: 2\r\n\r\n'],
    [
      'a lone CR at the start of a line, which does not end the header',
      `A: 1\r\n\r${FORGED}\r\n\r\n`,
      'A: 1\r\n\r\r\n',
    ],
    ['a header without an end', `A: 1\r\n${FORGED}`, 'A: 1\r\n'],
    ['a header that ends in the name', 'A: 1\r\nAuthentication-Resul', 'A: 1\r\nAuthentication-Resul'],
    ['a CR at the very end', 'A: 1\r', 'A: 1\r'],
    ['an empty header', `\r\n${FORGED}\r\n`, `\r\n${FORGED}\r\n`],
    ['nothing', '', ''],
  ])('%s', (_, message, out) => {
    for (const sliceBytes of [1, 2, 3, 7, 64, 100_000])
      expect([sliceBytes, filtered(message, sliceBytes)]).toEqual([sliceBytes, out])
  })
})

test('a forged field after ten megabytes of header is removed, and nothing is held in memory', () => {
  const filler = Buffer.from(`X: ${'x'.repeat(995)}\r\n`.repeat(100))
  function* slices() {
    for (let n = 0; n < 100; n++) yield filler
    yield Buffer.from(`${FORGED}\r\nA: 1\r\n\r\nBody`)
  }
  let passedBytes = 0
  let last = ''
  for (const slice of removeForgedResults(slices(), HOST)) {
    passedBytes += slice.length
    last = (last + Buffer.from(slice.subarray(-20)).toString()).slice(-20)
  }
  expect(passedBytes).toBe(filler.length * 100 + 'A: 1\r\n\r\nBody'.length)
  expect(last).toEndWith('A: 1\r\n\r\nBody')
})

test('a field without an end is judged by its beginning, and removed or passed as a whole', () => {
  const endless = (claim: string) =>
    `A: 1\r\nAuthentication-Results: ${claim}; x=${'y'.repeat(200_000)}\r\n y\r\nB: 2\r\n\r\n`
  for (const sliceBytes of [1000, 65_536]) {
    expect(filtered(endless(HOST), sliceBytes)).toBe('A: 1\r\nB: 2\r\n\r\n')
    expect(filtered(endless('other.test'), sliceBytes)).toBe(endless('other.test'))
    // An authserv-id hidden behind such a long comment counts as missing.
    expect(filtered(endless(`(${'z'.repeat(100_000)}) other.test`), sliceBytes)).toBe('A: 1\r\nB: 2\r\n\r\n')
  }
})

test('fields with a verdict on spam are removed if there is one of our own', () => {
  const message = 'X-Spam-Status: No,\r\n\tscore=0\r\nx-spam-FLAG : NO\r\nX-Spamless: 1\r\n\r\nX-Spam-Flag: NO\r\n'
  expect(filtered(message, 5)).toBe(message)
  expect(filtered(message, 5, true)).toBe('X-Spamless: 1\r\n\r\nX-Spam-Flag: NO\r\n')
})
