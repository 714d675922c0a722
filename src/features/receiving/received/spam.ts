/**
 * @module Has messages judged by the operator's rspamd (`POST {rspamdUrl}/checkv2`), if there is one. Mail never depends
 * on it: on any failure there is no verdict, and nothing is rejected or dropped for one. Uses `fetch`, because the client
 * for tenants' URLs refuses private addresses.
 */
import { type Static, Type } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { attempt } from '#platform/errors.ts'
import { Nullable, StringEnum, Text, TextOrNull } from '#platform/http/schemas.ts'
import { readBounded } from '#platform/net/bounded-fetch.ts'
import { readMember } from '#platform/net/llm.ts'
import { perOwner } from '#platform/per-owner.ts'
import { Slots } from '#platform/queue/slots.ts'
import { sleepUntilAborted } from '#platform/time/clock.ts'
import { KiB, MiB, minutes, seconds } from '#platform/units.ts'
import { joinPieces } from '#protocols/mime/source.ts'

/** Larger messages are hardly ever spam, and would take much memory. */
export const MAX_SCANNED_BYTES = 4 * MiB
const MAX_RESPONSE_BYTES = 256 * KiB
const MAX_RECIPIENTS = 20
const MAX_SYMBOLS = 30
const MAX_TEXT_LENGTH = 300
/** From the call to the verdict, including the wait for a slot and the second attempt. */
const TIMEOUT_MS = seconds(8)
const RETRY_DELAY_MS = seconds(1)
const MAX_WAITING = 128
const MAX_CONSECUTIVE_FAILURES = 4
const BACKOFF_MS = minutes(1)

export const SPAM_VERDICTS = ['ham', 'suspect', 'spam'] as const

const SpamVerdict = Type.Object({
  verdict: StringEnum(SPAM_VERDICTS, {
    description: '`spam`: rspamd would reject it; `suspect`: it would mark it; `ham`: neither. Nothing is dropped.',
  }),
  action: Text('What rspamd would do, in its words, such as `add header`.'),
  score: Type.Number({ description: 'Score by rspamd.' }),
  required: Type.Number({ description: 'Score at which rspamd would reject.' }),
  symbols: Type.Array(
    Type.Object({
      name: Text('Name of a rule that matched.'),
      score: Type.Number({ description: 'What it adds to the score.' }),
      description: TextOrNull('What the rule means.'),
    }),
    { description: `The ${MAX_SYMBOLS} rules with most weight, heaviest first.` },
  ),
})
export type SpamVerdict = Static<typeof SpamVerdict>

export const SpamVerdictOrNull = Nullable(SpamVerdict, {
  description:
    "Verdict of the operator's rspamd. Null: none is set, it did not respond, or the message is above 4 MiB.",
})

/** By action. Greylisting is for sessions, which have ended. */
const VERDICTS: Readonly<Record<string, SpamVerdict['verdict']>> = {
  ...{ reject: 'spam', discard: 'spam', quarantine: 'spam', 'add header': 'suspect', 'rewrite subject': 'suspect' },
}

/** `mailFrom` is `''` for the null reverse-path; `sourceIp` is omitted for mail that has not come from anywhere. */
export type SpamEnvelope = Readonly<{ mailFrom: string; helo: string; sourceIp?: string; rcptTo: readonly string[] }>

const BACKING_OFF = 'it failed several times and is asked again within a minute'

const createScanner = (max: number) => ({ slots: new Slots(max, MAX_WAITING), failures: 0, backoffUntil: 0 })
/** Tenants decide how many drafts there are, so received mail does not wait for them. */
const getScanners = perOwner((_: App) => ({ received: createScanner(8), draft: createScanner(2) }))

/** The verdict, or a phrase why there is none, without message, response and password. Never rejects. */
export async function scanMessage(app: App, message: Uint8Array, of: SpamEnvelope, kind: 'received' | 'draft') {
  if (message.length > MAX_SCANNED_BYTES) return 'the message is too large'
  const scanner = getScanners(app)[kind]
  const calledMs = app.clock.monotonicMs()
  const controller = new AbortController()
  const timer = app.clock.after(TIMEOUT_MS, () => controller.abort())
  const ask = async (): Promise<SpamVerdict | string> => {
    const startedMs = app.clock.monotonicMs()
    if (startedMs < scanner.backoffUntil) return BACKING_OFF
    // A single message finds out whether it works again.
    if (scanner.failures >= MAX_CONSECUTIVE_FAILURES) scanner.backoffUntil = startedMs + BACKOFF_MS
    const verdict = await askRspamd(app, message, of, controller.signal)
    const endedMs = app.clock.monotonicMs()
    scanner.failures = typeof verdict === 'string' ? scanner.failures + 1 : 0
    scanner.backoffUntil = scanner.failures >= MAX_CONSECUTIVE_FAILURES ? endedMs + BACKOFF_MS : 0
    app.metrics.spamScanned(typeof verdict === 'string' ? 'failed' : 'answered', endedMs - startedMs)
    return verdict
  }
  const scanned = await scanner.slots.run(controller.signal, async () => {
    const first = await ask()
    if (typeof first !== 'string' || first === BACKING_OFF) return first
    // It may be restarting.
    await sleepUntilAborted(app.clock, RETRY_DELAY_MS, controller.signal)
    const second = controller.signal.aborted ? first : await ask()
    return second === BACKING_OFF ? first : second
  })
  timer.cancel()
  if (scanned === undefined) app.metrics.spamScanned('unasked', app.clock.monotonicMs() - calledMs)
  const verdict = scanned ?? 'too many messages wait for it'
  if (typeof verdict === 'string' && verdict !== BACKING_OFF)
    app.log.warn({ reason: verdict }, 'message not judged by the rspamd of TASSIS_RSPAMD_URL')
  return verdict
}

async function askRspamd({ config }: App, body: Uint8Array, of: SpamEnvelope, signal: AbortSignal) {
  const fields = {
    ...{ from: `<${of.mailFrom}>`, rcpt: of.rcptTo.slice(0, MAX_RECIPIENTS).join(', '), helo: of.helo },
    ...(of.sourceIp !== undefined && { ip: of.sourceIp }),
    ...(config.rspamdPassword !== '' && { password: config.rspamdPassword }),
  }
  // The octets of UTF-8, without what would end a line.
  const toOctets = (text: string) => Buffer.from(text.replace(/[\0-\x1f\x7f]/g, ' ')).toString('latin1')
  const headers = Object.fromEntries(Object.entries(fields).map(([name, text]) => [name, toOctets(text)]))
  try {
    const url = `${config.rspamdUrl.replace(/(?<!\/)\/+$/, '')}/checkv2`
    const options = { method: 'POST', headers, body, signal, redirect: 'manual', decompress: false } as const
    const response = await fetch(url, options)
    const text = await readBounded(response, MAX_RESPONSE_BYTES)
    if (response.status !== 200) return `it responded with ${response.status}`
    if (text === undefined) return `its response is larger than ${MAX_RESPONSE_BYTES} bytes`
    return parseVerdict(attempt(() => JSON.parse(text))) ?? 'its response is not that of rspamd'
  } catch (error) {
    return signal.aborted ? 'no response in time' : String(error).slice(0, MAX_TEXT_LENGTH)
  }
}

function parseVerdict(body: unknown): SpamVerdict | undefined {
  const [score, required, action] = ['score', 'required_score', 'action'].map((name) => readMember(body, name))
  if (!isNumber(score) || !isNumber(required) || typeof action !== 'string') return undefined
  const symbols = Object.entries(readMember(body, 'symbols') ?? {}).flatMap(([name, symbol]) => {
    const [points, description] = [readMember(symbol, 'score'), readMember(symbol, 'description')]
    const text = typeof description === 'string' ? truncate(description) : null
    return isNumber(points) ? [{ name: truncate(name), score: points, description: text }] : []
  })
  const heaviest = symbols.sort((a, b) => Math.abs(b.score) - Math.abs(a.score)).slice(0, MAX_SYMBOLS)
  return { verdict: VERDICTS[action] ?? 'ham', action: truncate(action), score, required, symbols: heaviest }
}

const isNumber = (value: unknown): value is number => Number.isFinite(value)
const truncate = (text: string): string => text.slice(0, MAX_TEXT_LENGTH).toWellFormed()

/** The verdict on a received message; null: there is none. Never rejects. */
export async function judgeReceived(
  app: App,
  { rawRef, sizeBytes, ...session }: Omit<SpamEnvelope, 'rcptTo'> & { rawRef: number; sizeBytes: number },
  rcptTo: readonly string[],
): Promise<SpamVerdict | null> {
  if (app.config.rspamdUrl === '' || sizeBytes > MAX_SCANNED_BYTES) return null
  const memory = app.memory.reserve(sizeBytes)
  const message = memory && attempt(() => joinPieces([...app.rawMail.chunks(rawRef)]))
  const verdict = message && (await scanMessage(app, message, { ...session, rcptTo }, 'received'))
  memory?.release()
  return typeof verdict === 'object' ? verdict : null
}
