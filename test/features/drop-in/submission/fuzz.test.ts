/**
 * @module Random sessions and messages of a client that has logged in. Each message gets a reply, none an internal
 * error; only one with a control field or a wrong From is rejected; and the service goes on.
 * SUBMISSION_FUZZ_MESSAGES=20000 makes a longer run, which prints the memory.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { VERIFIED } from '#test/support/email-api.ts'
import { type Random, seededRandom } from '#test/support/random.ts'
import type { RawSmtp } from '#test/support/smtp-client.ts'
import { createMessage, type SubmissionFixture, sendMessage, startSubmissionFixture } from './fixture.ts'

const MESSAGES = Number(process.env['SUBMISSION_FUZZ_MESSAGES'] ?? 300)
const SEED = Number(process.env['SUBMISSION_FUZZ_SEED'] ?? 1)
/** Messages between two lines about memory in a long run. */
const REPORT_INTERVAL = 2000

const NAMES = [
  ...['From', 'To', 'Cc', 'Bcc', 'Subject', 'Date', 'Message-ID', 'Reply-To', 'References', 'In-Reply-To', 'Received'],
  ...['X-Tassis-Tags', 'X-Tassis-Metadata', 'X-Tassis-Idempotency-Key', 'X-Tassis-Send-At', 'X-Tassis-Template'],
  ...['X-Tassis-Template-Data', 'X-Tassis-Stream', 'X-Tassis-Tracking', 'X-Tassis-Hops', 'X-Tassis-None', 'X-PM-Tag'],
  ...['X-PM-Metadata-a', 'X-PM-Metadata-', 'X-PM-TrackLinks', 'Resend-Idempotency-Key', 'List-Unsubscribe', 'Sender'],
  ...['Content-Type', 'Content-Transfer-Encoding', 'Content-Disposition', 'Content-ID', 'MIME-Version'],
  ...['X', '__proto__'],
]
const VALUES = [
  ...[`ada@${VERIFIED}`, `Ada <ada@${VERIFIED}>`, 'bob@receiver.test', '"a, b" <c@d.test>, e@f.test', '<>'],
  ...['g: h@i.test;', '=?utf-8?B?w7w=?=', '=?utf-8?Q?=0D=0AX:_y?=', '=?x?y?z?=', '\u00fc', '\ufffd\u202e\0'],
  ...['{"a": {"b": 1}}', '{"', '[]', 'multipart/mixed; boundary=x', 'multipart/alternative; boundary="x"'],
  ...['text/html; charset=utf-16', 'message/rfc822', '2026-12-01T00:00:00Z', 'Mon, 1 Jan 2026 00:00:00 +0000'],
  ...['base64', 'quoted-printable', 'attachment; filename="../../a.pdf"', 'inline', '<a@b>', '<a b>', '<a@b> <c@d>'],
  ...['true', '-1', 'NaN', '', ' ', 'x'.repeat(2000), '\t\r\n folded'],
]
const BODIES = [
  ...['--x', '--x--', '', '.', '..', 'Hello', '<img src="cid:a@b">', 'SGVsbG8=', '=3D=', '=', '\0\x01\xff', '\u00fc'],
  ...['Content-Type: text/html', 'Content-Type: multipart/mixed; boundary=x', 'Content-ID: <a@b>'],
  ...['begin 644 a', 'From x'],
]
const CONTROL_FIELD = /^(?:X-Tassis|X-PM|Resend)-/im
const LINE_ENDS = ['\r\n', '\r\n', '\r\n', '\n', '\r', '\r\n\r\n']

const pick = (random: Random, list: readonly string[]): string => list[random.between(0, list.length - 1)] ?? ''
const repeat = (random: Random, max: number, create: () => string): string =>
  Array.from({ length: random.between(0, max) }, create).join('')

function createRandomMessage(random: Random): string {
  const lineEnd = () => pick(random, LINE_ENDS)
  const header = repeat(random, 12, () => `${pick(random, NAMES)}: ${pick(random, VALUES)}${lineEnd()}`)
  // Most messages have what is required, so that they reach the acceptance.
  const start = random.chance(0.8) ? `From: ada@${VERIFIED}\r\n` : ''
  return `${start}${header}\r\n${repeat(random, 30, () => pick(random, BODIES) + lineEnd())}`
}

let service: SubmissionFixture

beforeAll(async () => {
  service = await startSubmissionFixture()
})
afterAll(() => service[Symbol.asyncDispose]())

/** Sends a message with DATA, or in chunks that may be announced wrongly; returns the replies to its end. */
async function submit(client: RawSmtp, message: string, random: Random): Promise<string> {
  if (random.chance(0.7)) return sendMessage(client, `${message}\r\n`.replaceAll(/\r\n\./g, '\r\n..'))
  for (const line of [`MAIL FROM:<ada@${VERIFIED}>`, 'RCPT TO:<bob@receiver.test>']) await client.say(line)
  const octets = Buffer.from(message)
  const split = random.between(0, octets.length)
  await client.write(`BDAT ${split}\r\n`)
  await client.write(octets.subarray(0, split))
  const first = await client.reply()
  if (!first.startsWith('250') || random.chance(0.1)) return first
  await client.write(`BDAT ${octets.length - split} LAST\r\n`)
  await client.write(octets.subarray(split))
  return client.reply()
}

test(`${MESSAGES} random messages get replies, and the service goes on`, async () => {
  const random = seededRandom(SEED)
  const odd: string[] = []
  const counts: Record<string, number> = {}
  let client = await service.connectLoggedIn()
  for (let number = 1; number <= MESSAGES; number++) {
    const message = createRandomMessage(random)
    const reply = await submit(client, message, random)
    const code = reply.slice(0, 3)
    counts[code] = (counts[code] ?? 0) + 1
    if (!/^(?:250|[45]\d\d) \d\.\d\.\d [\x20-\x7e]*$/.test(reply) || reply.includes('Internal error'))
      odd.push(`${reply} ${JSON.stringify(message)}`)
    if (!CONTROL_FIELD.test(message) && !/^(?:250|550 5\.7\.1) /.test(reply))
      odd.push(`rejected: ${reply} ${JSON.stringify(message)}`)
    // Composed as for its recipient; fails if that fails.
    const [, id] = /^250 2\.0\.0 Ok: queued as (\S+)/.exec(reply) ?? []
    if (id !== undefined) await service.readSource(id)
    if (!(await client.say('RSET')).startsWith('250') || number % 50 === 0) {
      client.destroy()
      client = await service.connectLoggedIn()
    }
    if (number % REPORT_INTERVAL === 0) {
      Bun.gc(true)
      console.log(`${number} messages: ${Math.round(process.memoryUsage.rss() / 2 ** 20)} MiB`)
    }
  }
  if (MESSAGES >= REPORT_INTERVAL) console.log(counts)
  const last = await sendMessage(client, createMessage())
  client.destroy()
  expect({ odd: odd.slice(0, 5), last, inUseBytes: service.app.memory.inUseBytes }).toEqual({
    odd: [],
    last: expect.stringMatching(/^250 2\.0\.0 Ok: queued as /),
    inUseBytes: 0,
  })
  // Accepted as well as rejected ones, or the messages would test little.
  expect([(counts['250'] ?? 0) > MESSAGES / 20, (counts['554'] ?? 0) > MESSAGES / 20]).toEqual([true, true])
  // Hundreds of dialogues, one after the other, take long on a busy machine.
}, 300_000)
