/**
 * @module Messages that are the most expensive to parse, each at most 40 MiB. Generated in pieces, so that the
 * submitting process stays small.
 */
import { deflateRawSync, gzipSync } from 'node:zlib'

export interface HostileMessage {
  readonly name: string
  /** `''`: the null reverse-path, which reports use. */
  readonly mailFrom?: string
  /** Its octets, in order; at most `MAX_BYTES` of them are sent. */
  pieces(): Iterable<string | Uint8Array>
}

const MiB = 1024 * 1024
/** The service's default limit, less some capacity for headers and boundaries. */
export const MAX_BYTES = 40 * MiB - 64 * 1024
const PIECE_BYTES = MiB

/** Yields `bytes` octets of a repeated pattern, in pieces. */
function* repeat(pattern: string | Uint8Array, bytes: number): Generator<Uint8Array> {
  const unit = Buffer.from(pattern)
  const piece = Buffer.alloc(Math.max(unit.length, PIECE_BYTES - (PIECE_BYTES % unit.length)), unit)
  for (let left = bytes - (bytes % unit.length); left > 0; left -= piece.length)
    yield piece.length <= left ? piece : piece.subarray(0, left)
}

/** Returns incompressible octets, the same for each seed. */
function noise(bytes: number, seed = 1): Buffer {
  const out = Buffer.alloc(bytes)
  let state = 2_463_534_242 + seed * 7919
  for (let at = 0; at < bytes; at++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    out[at] = state & 0xff
  }
  return out
}

const base64Lines = (bytes: Uint8Array): string =>
  `${Buffer.from(bytes).toString('base64').replace(/.{76}/g, '$&\r\n')}\r\n`

const HEAD = 'From: a@sender.test\r\nSubject: hostile\r\nMIME-Version: 1.0\r\n'
const createHead = (type: string, encoding = '7bit'): string =>
  `${HEAD}Content-Type: ${type}\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n`
const MIXED = `${HEAD}Content-Type: multipart/mixed; boundary=x\r\n\r\n`

/** A message of one part. */
const singlePart = (name: string, head: string, pattern: string | Uint8Array, bytes = MAX_BYTES): HostileMessage => ({
  name,
  *pieces() {
    yield head
    yield* repeat(pattern, bytes)
  },
})

/** A multipart message of up to `count` equal parts, as many as fit. */
const manyParts = (name: string, count: number, part: () => string): HostileMessage => ({
  name,
  *pieces() {
    yield MIXED
    const text = `--x\r\n${part()}\r\n`
    const fitting = Math.min(count, Math.floor(MAX_BYTES / text.length))
    yield* repeat(text, fitting * text.length)
    yield '--x--\r\n'
  },
})

const LINE = `${'The quick brown fox jumps over the lazy dog, and again. '.repeat(2).slice(0, 76)}\r\n`
const WORDS = 'Größe, naïve façade, 日本語のテキスト, emoji 😀, кириллица. '

const signature = (index: number, more = ''): string =>
  `DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=d${index}.test; s=s; h=from;${more} bh=${'A'.repeat(43)}=; b=${'A'.repeat(342)}==\r\n`

/** The hostile messages, by name. */
export const messages: readonly HostileMessage[] = [
  singlePart('one line of 40 MiB', createHead('text/plain'), 'x'),
  singlePart('40 MiB of text in lines', createHead('text/plain'), LINE),
  singlePart('40 MiB of empty lines', createHead('text/plain'), '\r\n'),
  singlePart(
    '40 MiB of line feeds in base64',
    createHead('text/plain', 'base64'),
    base64Lines(Buffer.alloc(57 * 100, '\n')),
  ),
  singlePart('40 MiB of HTML', createHead('text/html; charset=utf-8'), `<p><b>${WORDS}</b><br>\r\n`),
  singlePart('40 MiB of open tags', createHead('text/html'), '<div>\r\n'),
  singlePart(
    'text in UTF-8 and base64',
    createHead('text/plain; charset=utf-8', 'base64'),
    base64Lines(Buffer.from(WORDS.repeat(200)).subarray(0, 57 * 180)),
  ),
  singlePart('text in ISO-2022-JP', createHead('text/plain; charset=iso-2022-jp'), '\x1b$B%F%9%H%a!<%k\x1b(B\r\n'),
  singlePart('text in UTF-7', createHead('text/plain; charset=utf-7'), 'a+AOQ-+2D3eAA-b\r\n'),
  singlePart(
    'text in an unknown charset',
    createHead('text/plain; charset=x-nobody-knows', '8bit'),
    Uint8Array.from({ length: 64 }, (_, i) => (i === 62 ? 13 : i === 63 ? 10 : 128 + i)),
  ),
  singlePart('flowing text', createHead('text/plain; format=flowed; delsp=yes'), '> flowed text that goes on \r\n'),
  singlePart('quoted-printable', createHead('text/plain; charset=utf-8', 'quoted-printable'), '=C3=A4=C3=B6=\r\n'),
  singlePart('quoted-printable of soft breaks', createHead('text/plain', 'quoted-printable'), '=\r\n'),
  singlePart('quoted-printable, a line of spaces', createHead('text/plain', 'quoted-printable'), ' '),
  singlePart('base64 that is padded everywhere', createHead('application/pdf', 'base64'), 'YQ=='),
  singlePart('base64 of dots', createHead('application/pdf', 'base64'), '._'),
  {
    name: 'an attachment that does not compress, base64',
    *pieces() {
      yield `${HEAD}Content-Type: application/zip; name=a.zip\r\nContent-Transfer-Encoding: base64\r\n\r\n`
      const piece = base64Lines(noise(57 * 20_000))
      for (let sent = 0; sent + piece.length < MAX_BYTES; sent += piece.length) yield piece
    },
  },
  {
    name: 'an attachment of 8-bit octets that do not compress',
    *pieces() {
      yield createHead('application/octet-stream', '8bit')
      const piece = noise(PIECE_BYTES).map((octet) => (octet === 10 || octet === 13 || octet === 46 ? 32 : octet))
      for (let sent = 0; sent + piece.length < MAX_BYTES; sent += piece.length) yield piece
    },
  },
  singlePart('a message as attachment', createHead('message/rfc822'), `${HEAD}\r\n${LINE.repeat(10)}`),
  {
    name: '1,000 attachments of 29 KB that do not compress',
    *pieces() {
      yield MIXED
      for (let index = 0; index < 1000; index++)
        yield `--x\r\nContent-Type: a/b; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\n${base64Lines(noise(29_000, index))}`
      yield '--x--\r\n'
    },
  },
  {
    name: '150 attachments of 250 KB that are not encoded',
    *pieces() {
      yield MIXED
      for (let index = 0; index < 150; index++)
        yield `--x\r\nContent-Type: a/b; name=a\r\n\r\n${index}${LINE.repeat(3_200)}`
      yield '--x--\r\n'
    },
  },
  manyParts('10,000 parts of 4 KB of text', 9_990, () => `Content-Type: text/plain\r\n\r\n${LINE.repeat(52)}`),
  manyParts(
    '10,000 parts of 4 KB of HTML',
    9_990,
    () => `Content-Type: text/html; charset=utf-8\r\n\r\n${`<p>${WORDS}</p>\r\n`.repeat(40)}`,
  ),
  manyParts('10,000 empty parts', 9_990, () => '\r\n'),
  manyParts('a million parts', 1_000_000, () => '\r\n'),
  manyParts(
    '10,000 parts of 20 fields',
    9_990,
    () => `${'X-Field: value\r\n'.repeat(19)}Content-Type: text/plain\r\n\r\na`,
  ),
  manyParts('39 parts with a header of 1 MiB', 39, () => `X: ${'a'.repeat(1_000_000)}\r\n\r\na`),
  manyParts('39 parts with 5,000 fields', 39, () => `${'X-Field: value of some length\r\n'.repeat(5_000)}\r\na`),
  manyParts(
    '1,000 parts with 40 KB of Content-Type',
    1_000,
    () => `Content-Type: text/plain; ${Array.from({ length: 4_000 }, (_, i) => `a${i}=b;`).join('')}\r\n\r\na`,
  ),
  {
    name: '100 levels, each with a text',
    *pieces() {
      yield HEAD
      for (let level = 0; level < 98; level++)
        yield `Content-Type: multipart/mixed; boundary=b${level}\r\n\r\n--b${level}\r\nContent-Type: text/plain\r\n\r\n${LINE.repeat(5_000)}--b${level}\r\n`
      yield 'Content-Type: text/plain\r\n\r\ninnermost\r\n'
    },
  },
  { name: '100,000 header lines', pieces: () => [...repeat('X-Line: value\r\n', 15 * 69_000), '\r\nx\r\n'] },
  { name: '3 million header lines', pieces: () => repeat('X-Line: value\r\n', MAX_BYTES) },
  { name: 'a header line of 40 MiB', pieces: () => ['X: ', ...repeat('x', MAX_BYTES)] },
  {
    name: '1 MiB of addresses',
    pieces: () => [HEAD, 'To: ', ...repeat('"A, B" <abc@d.test>, ', 1_000_000), '\r\n\r\nx\r\n'],
  },
  {
    name: '1 MiB of encoded words',
    pieces: () => [
      `From: a@b.test\r\nSubject: `,
      ...repeat('=?iso-2022-jp?B?GyRCJUYbKEI=?=\r\n ', 1_000_000),
      '\r\n\r\nx\r\n',
    ],
  },
  {
    name: 'ten signatures over 40 MiB with many spaces',
    *pieces() {
      for (let index = 0; index < 10; index++) yield signature(index, index < 2 ? ' l=1000;' : '')
      yield createHead('text/plain')
      yield* repeat(`a \t  b${' '.repeat(60)}c  \r\n`, MAX_BYTES - 8_000)
    },
  },
  {
    name: 'signatures over one line of 40 MiB',
    *pieces() {
      for (let index = 0; index < 10; index++) yield signature(index)
      yield createHead('text/plain')
      yield* repeat('a  b', MAX_BYTES - 8_000)
    },
  },
  {
    name: 'signatures over 40 MiB of empty lines',
    *pieces() {
      for (let index = 0; index < 10; index++) yield signature(index)
      yield createHead('text/plain')
      yield* repeat('\r\n', MAX_BYTES - 8_000)
    },
  },
  {
    name: 'a DMARC report that is a decompression bomb (gzip)',
    *pieces() {
      yield `From: a@sender.test\r\nSubject: Report Domain: a.test\r\nContent-Type: application/gzip; name="a!b!1!2.xml.gz"\r\nContent-Transfer-Encoding: base64\r\n\r\n`
      yield base64Lines(gzipSync(Buffer.alloc(200 * MiB, '<a/>')))
    },
  },
  {
    name: 'three DMARC reports of 9 MiB (zip)',
    *pieces() {
      yield 'From: a@sender.test\r\nSubject: Report Domain: a.test\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n'
      const xml = Buffer.from(
        `<?xml version="1.0"?><feedback>${`<record><row><source_ip>192.0.2.1</source_ip></row></record>`.repeat(150_000)}`,
      )
      for (let index = 0; index < 3; index++)
        yield `--x\r\nContent-Type: application/zip; name="a!b!1!${index}.zip"\r\nContent-Transfer-Encoding: base64\r\n\r\n${base64Lines(createZip(xml))}`
      yield '--x--\r\n'
    },
  },
  singlePart(
    'a report of 30 MiB, not packed',
    `From: a@sender.test\r\nSubject: Report Domain: a.test\r\nContent-Type: text/xml; name="a!b!1!2.xml"\r\n\r\n`,
    '<a>\r\n',
  ),
  {
    name: 'a bounce with 40 MiB of words',
    mailFrom: '',
    *pieces() {
      yield `From: MAILER-DAEMON@sender.test\r\nSubject: Undelivered Mail Returned to Sender\r\nContent-Type: text/plain\r\n\r\n`
      yield* repeat('<a@b.test>: 550 5.1.1 user unknown\r\n', MAX_BYTES)
    },
  },
  {
    name: 'a bounce that returns 39 MiB',
    mailFrom: '',
    *pieces() {
      yield `From: MAILER-DAEMON@sender.test\r\nSubject: Undelivered\r\nContent-Type: multipart/report; report-type=delivery-status; boundary=x\r\n\r\n--x\r\n\r\nIt failed.\r\n--x\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; a.test\r\n\r\nFinal-Recipient: rfc822; a@b.test\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n--x\r\nContent-Type: message/rfc822\r\n\r\n${HEAD}\r\n`
      yield* repeat(LINE, MAX_BYTES - 2_000)
      yield '--x--\r\n'
    },
  },
]

/** A zip archive with one file (PKWARE APPNOTE §4.3.7), without the directory, which a stream reader does not need. */
function createZip(content: Buffer): Buffer {
  const packed = deflateRawSync(content)
  const header = Buffer.alloc(30)
  header.writeUInt32LE(0x04034b50, 0)
  header.writeUInt16LE(20, 4)
  header.writeUInt16LE(8, 8)
  header.writeUInt32LE(Bun.hash.crc32(content), 14)
  header.writeUInt32LE(packed.length, 18)
  header.writeUInt32LE(content.length, 22)
  header.writeUInt16LE(1, 26)
  return Buffer.concat([header, Buffer.from('a'), packed])
}
