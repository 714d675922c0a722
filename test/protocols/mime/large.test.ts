import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseMessage } from '#protocols/mime/parse.ts'
import type { AttachmentFile, ParsedMessage } from '#protocols/mime/parsed.ts'
import type { FileWriter } from '#protocols/mime/part-body.ts'
import type { MessageSource } from '#protocols/mime/source.ts'
import { createTransferDecoder } from '#protocols/mime/transfer-encoding.ts'
import { type Random, seededRandom } from '#test/support/random.ts'

const FOLDER = join(import.meta.dir, '../../corpus/messages')
const KIB = 1024
const MIB = 1024 * KIB
const ANN = { mailFrom: 'ann@sender.example' }

/** A message in chunks of random length up to `maxBytes`. */
const inPieces = (bytes: Uint8Array, most: number, random: Random): MessageSource => ({
  *chunks() {
    for (let at = 0; at < bytes.length; ) {
      const end = at + random.between(1, most)
      yield bytes.subarray(at, end)
      at = end
    }
  },
})

test('every message of the corpus is parsed the same from chunks of any size', async () => {
  const random = seededRandom(1)
  for (const name of readdirSync(FOLDER).filter((each) => each.endsWith('.eml'))) {
    const bytes = readFileSync(join(FOLDER, name))
    const whole = await parseMessage(bytes, ANN)
    for (const most of [3, 400])
      expect({ name, most, message: await parseMessage(inPieces(bytes, most, random), ANN) }).toEqual({
        name,
        most,
        message: whole,
      })
  }
})

/** Files in memory, in the order in which they were created. */
function memoryFiles(): { readonly contents: Buffer[]; newFile(): FileWriter } {
  const contents: Buffer[] = []
  return {
    contents,
    newFile() {
      const number = contents.push(Buffer.alloc(0)) - 1
      const pieces: Uint8Array[] = []
      return {
        write: (bytes) => void pieces.push(bytes.slice()),
        finish(): AttachmentFile {
          const content = Buffer.concat(pieces)
          contents[number] = content
          return { path: `${number}`, hash: new Uint8Array(16), sizeBytes: content.length }
        },
      }
    },
  }
}

const summary = ({ text, html, attachments }: ParsedMessage) => ({
  text: text?.length ?? null,
  html: html?.length ?? null,
  attachments: attachments.map(({ contentType, content, file }) => [contentType, content.length, file?.path]),
})

const mixed = (parts: readonly string[]): Buffer =>
  Buffer.from(
    `Content-Type: multipart/mixed; boundary=x\r\n\r\n${parts.map((part) => `--x\r\n${part}\r\n`).join('')}--x--\r\n`,
  )

describe('an attachment of more than 256 KiB', () => {
  test.each(['base64', 'quoted-printable', '8bit'])(
    'in %s goes to a file, and only its beginning stays in memory',
    async (encoding) => {
      const content = Buffer.alloc(300 * KIB, 'tassis ')
      const encoded =
        encoding === 'base64' ? content.toString('base64').replace(/.{76}/g, '$&\r\n') : content.toString()
      const part = (body: string) => `Content-Type: a/b\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${body}`
      const { contents, newFile } = memoryFiles()
      const message = await parseMessage(mixed([part(encoded), part('dGFz')]), { ...ANN, newFile })
      expect(summary(message).attachments).toEqual([
        ['a/b', 256 * KIB, '0'],
        ['a/b', encoding === 'base64' ? 3 : 4, undefined],
      ])
      expect(contents.map((each) => each.equals(content))).toEqual([true])
      expect(content.subarray(0, 256 * KIB).equals(message.attachments[0]?.content ?? new Uint8Array())).toBe(true)
    },
  )

  test('of exactly 256 KiB stays in memory, and so does a larger one without files', async () => {
    const { contents, newFile } = memoryFiles()
    const part = (bytes: number) => `Content-Type: a/b\r\n\r\n${'a'.repeat(bytes)}`
    const message = mixed([part(256 * KIB), part(256 * KIB + 1)])
    const sizes = async (options: object) =>
      summary(await parseMessage(message, { ...ANN, ...options })).attachments.map(([, size, path]) => [size, path])
    expect(await sizes({ newFile })).toEqual([
      [256 * KIB, undefined],
      [256 * KIB, '0'],
    ])
    expect(contents.map((each) => each.length)).toEqual([256 * KIB + 1])
    expect(await sizes({})).toEqual([
      [256 * KIB, undefined],
      [256 * KIB + 1, undefined],
    ])
  })
})

describe('text of more than 2 MiB', () => {
  const line = `${'a'.repeat(98)}\r\n`
  const fitting = Math.floor((2 * MIB) / 100)

  test('ends with the last line that fits, and the whole text is an attachment', async () => {
    const { contents, newFile } = memoryFiles()
    const body = line.repeat(fitting + 1)
    const message = await parseMessage(Buffer.from(`Subject: x\r\n\r\n${body}`), { ...ANN, newFile })
    expect(summary(message)).toEqual({
      text: fitting * 99,
      html: null,
      attachments: [['text/plain', 256 * KIB, '0']],
    })
    expect(contents.map((each) => each.toString() === body)).toEqual([true])
  })

  test('is not truncated at exactly 2 MiB; HTML has its own limit', async () => {
    const part = (type: string, bytes: number) => `Content-Type: text/${type}\r\n\r\n${'a'.repeat(bytes)}`
    expect(summary(await parseMessage(mixed([part('plain', 2 * MIB), part('html', 2 * MIB)]), ANN))).toEqual({
      text: 2 * MIB,
      html: 2 * MIB,
      attachments: [],
    })
    expect(summary(await parseMessage(mixed([part('plain', 2 * MIB), part('html', 2 * MIB + 1)]), ANN))).toEqual({
      text: 2 * MIB,
      html: 2 * MIB,
      attachments: [['text/html', 2 * MIB + 1, undefined]],
    })
  })

  test('in several parts shares the limit: later parts are attachments', async () => {
    const part = (bytes: number) => `\r\n${'a'.repeat(bytes)}`
    expect(summary(await parseMessage(mixed([part(MIB), part(MIB + 5), part(7), '\r\na\r\na']), ANN))).toEqual({
      text: 2 * MIB + 1,
      html: null,
      attachments: [
        ['text/plain', MIB + 5, undefined],
        ['text/plain', 7, undefined],
        ['text/plain', 4, undefined],
      ],
    })
  })

  test('ends between two characters, whatever their octets', async () => {
    for (const character of ['é', '語', '😀']) {
      const body = `a${character.repeat(MIB)}`
      const message = Buffer.from(`Content-Type: text/plain\r\n\r\n${body}`)
      for (const options of [ANN, { ...ANN, newFile: memoryFiles().newFile }]) {
        const { text } = await parseMessage(message, options)
        expect({ character, isStart: text !== null && body.startsWith(text) }).toEqual({ character, isStart: true })
        expect(Buffer.byteLength(text ?? '')).toBeGreaterThan(2 * MIB - 4)
      }
    }
  })
})

describe('pieces of a transfer encoding', () => {
  const PIECES = [
    '=',
    '==',
    '\r\n',
    '\n',
    '\r',
    ' ',
    '\t',
    ' '.repeat(101),
    '=3D',
    '=zz',
    '=\r\n',
    'A',
    'YWJj',
    'Zg',
    '-',
    '.',
  ]

  const decoded = (encoding: string, pieces: readonly Uint8Array[]): string => {
    const decoder = createTransferDecoder(encoding)
    return Buffer.concat([...pieces.map((piece) => decoder.push(piece)), decoder.end()]).toString('latin1')
  }

  test.each(['base64', 'quoted-printable'])('%s: the result is the same wherever they end', (encoding) => {
    const random = seededRandom(2)
    for (let round = 0; round < 3000; round++) {
      const chosen = Array.from({ length: random.between(0, 30) }, () => PIECES[random.between(0, PIECES.length - 1)])
      const text = Buffer.from(chosen.join(''))
      const pieces = [...inPieces(text, round % 2 === 0 ? 4 : 200, random).chunks()]
      expect({ text: text.toString(), out: decoded(encoding, pieces) }).toEqual({
        text: text.toString(),
        out: decoded(encoding, [text]),
      })
    }
  })

  test('quoted-printable: trailing white space is removed, unless it is longer than 64 KiB', () => {
    const line = (spaces: number) => [Buffer.from('a'), Buffer.from(' '.repeat(spaces)), Buffer.from('\r\nb')]
    expect(decoded('quoted-printable', line(60 * KIB))).toBe('a\r\nb')
    expect(decoded('quoted-printable', line(65 * KIB)).length).toBe(65 * KIB + 4)
  })
})
