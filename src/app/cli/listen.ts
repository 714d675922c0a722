/**
 * @module `tassis listen`: reads the event feed of a service by API key and posts each event to a URL of the
 * developer's machine, signed like a webhook. Needs no public address and no certificate, stores nothing, and repeats
 * no request.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Option } from 'commander'
import { createRequestHeaders } from '#features/webhooks/webhooks/manage/signature.ts'
import {
  collectPayloadEvents,
  PAYLOAD_FORMATS,
  type PayloadFormat,
} from '#features/webhooks/webhooks/payload/payload-format.ts'
import { attempt } from '#platform/attempt.ts'
import { hmacSha256 } from '#platform/crypto/crypto.ts'
import type { Config } from '#platform/settings/config.ts'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { loadConfig } from '../settings.ts'
import type { Command } from './command.ts'
import { CommandError, UsageError } from './errors.ts'
import { readKeyFile } from './input.ts'
import { findServiceUrl } from './local-service.ts'
import { collectOption, createWholeNumberParser } from './options.ts'
import { print, toPrintable } from './output.ts'

const POLL_MS = seconds(1)
/** How long to wait after the service could not be reached. */
const RETRY_MS = seconds(3)
const TIMEOUT_MS = seconds(10)
const MAX_EVENTS_PER_PAGE = 100

export interface ListenOptions {
  readonly url: string
  readonly key: string
  /** Where events are posted. */
  readonly forward: string
  readonly format: PayloadFormat
  /** Only these events; empty: all that the format has. */
  readonly events: readonly string[]
  /** Position of the last event that is not posted; undefined: the newest. */
  readonly after: number | undefined
  /** Ends it. */
  readonly signal: AbortSignal
  readonly clock: Clock
  readonly print: (line: string) => void
}

interface FeedPage {
  readonly data: readonly { readonly seq: number; readonly type: string; readonly recipient: string | null }[]
  readonly next_after: number
}

interface EventPayload {
  readonly event: string
  readonly event_id: string
  readonly payload: string
}

/** The secret to verify with: the same for each run with a key, without being stored anywhere. */
export const deriveListenSecret = (key: string): string =>
  `whsec_${hmacSha256(new TextEncoder().encode(key), 'tassis listen').slice(0, 24).toBase64()}`

/**
 * Posts events until it is aborted. Throws CommandError when the service refuses the key or the options; waits while
 * the service cannot be reached. Returns the position of the last event that was handled; undefined when the service
 * was never reached.
 */
export async function listen(options: ListenOptions): Promise<number | undefined> {
  const { signal, clock, after } = options
  options.print(`Secret: ${deriveListenSecret(options.key)}`)
  let position = after
  let isReachable = true
  while (!signal.aborted) {
    const page = await readPage(options, position)
    if (page === 'unreachable' && isReachable)
      options.print(`The service at ${options.url} cannot be reached; trying again. Another address: --url.`)
    isReachable = page !== 'unreachable'
    if (page === 'unreachable') {
      await sleep(clock, RETRY_MS, signal)
      continue
    }
    if (position === undefined) options.print(`Position ${page.next_after}: waiting for events.`)
    // An event counts once it was handled: one that the service could not return is requested again.
    const handled = await forwardAll(options, page)
    position = handled ?? page.next_after
    if (handled !== undefined) await sleep(clock, RETRY_MS, signal)
    else if (page.data.length < MAX_EVENTS_PER_PAGE) await sleep(clock, POLL_MS, signal)
  }
  return position
}

/** Posts the events of a page. Returns the position where it had to end early. */
async function forwardAll(options: ListenOptions, { data }: FeedPage): Promise<number | undefined> {
  for (const { seq, type, recipient } of data) {
    if (options.signal.aborted) return seq - 1
    const payload = await readPayload(options, seq)
    if (payload === 'unreachable') return seq - 1
    const name = `${seq} ${type}${recipient === null ? '' : ` ${toPrintable(recipient)}`}`
    options.print(payload === undefined ? `${name}: deleted since then` : `${name}: ${await post(options, payload)}`)
  }
  return undefined
}

/** Sends one signed request and returns what happened. */
async function post({ forward, key, clock, signal }: ListenOptions, event: EventPayload): Promise<string> {
  const request = { id: event.event_id, event: event.event, attempt: 1, at: clock.now(), body: event.payload }
  const startMs = clock.monotonicMs()
  try {
    const response = await fetch(forward, {
      method: 'POST',
      headers: createRequestHeaders(request, { current: deriveListenSecret(key) }, []),
      body: event.payload,
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    })
    await response.body?.cancel()
    return `${response.status} in ${Math.round(clock.monotonicMs() - startMs)} ms`
  } catch {
    return `no answer from ${forward}`
  }
}

async function readPage(options: ListenOptions, position: number | undefined): Promise<FeedPage | 'unreachable'> {
  const { format, events } = options
  const types = (events.length > 0 ? events : collectPayloadEvents(format)).join(',')
  const read = await get(
    options,
    `/v1/events?after=${position ?? 'latest'}&limit=${MAX_EVENTS_PER_PAGE}&types=${types}`,
  )
  if (read.status !== 410) return read.status === 200 ? (read.body as FeedPage) : 'unreachable'
  const { next_after } = read.body as FeedPage
  options.print(`Events up to ${next_after} are no longer stored.`)
  return { data: [], next_after }
}

async function readPayload(options: ListenOptions, seq: number): Promise<EventPayload | 'unreachable' | undefined> {
  const read = await get(options, `/v1/webhook-payloads/${seq}?format=${options.format}`)
  if (read.status === 404) return undefined
  return read.status === 200 ? (read.body as { data: EventPayload }).data : 'unreachable'
}

/** Status 0: no response. Throws CommandError for a refusal that a repetition cannot change. */
async function get({ url, key, signal }: ListenOptions, path: string): Promise<{ status: number; body: unknown }> {
  let response: Response
  let body: { readonly message?: string } = {}
  try {
    response = await fetch(`${url.replace(/(?<!\/)\/+$/, '')}${path}`, {
      headers: { authorization: `Bearer ${key}` },
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    })
    body = (await response.json()) as typeof body
  } catch {
    return { status: 0, body }
  }
  const { status } = response
  if ([400, 401, 403, 422].includes(status)) {
    const [, problem] = /error_description="([^"]*)"/.exec(response.headers.get('www-authenticate') ?? '') ?? []
    const message = body.message ?? `The service answered ${status}.`
    throw new CommandError(problem === undefined ? message : `${message}. ${problem}`)
  }
  return { status, body }
}

async function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const ended = Promise.withResolvers<void>()
  const timer = clock.after(ms, ended.resolve)
  signal.addEventListener('abort', () => ended.resolve(), { once: true })
  await ended.promise
  timer.cancel()
}

export function addListenCommand(program: Command): void {
  program
    .command('listen')
    .description("post the events of an account to a URL of this machine, signed like a webhook's")
    .requiredOption('--forward <url>', 'where to post, such as http://127.0.0.1:3000/hooks')
    .option('--url <url>', 'base URL of the service; default: the service on this machine')
    .option('--key <key>', 'API key with the scopes emails:read and webhooks:read; visible in the process list')
    .option(
      '--key-file <path>',
      'file with the API key; default: TASSIS_API_KEY, else the file that scripts/start leaves',
    )
    .option('--event <name>', 'only this event; repeat for several; default: all', collectOption)
    .addOption(new Option('--format <format>', 'form of the payloads').choices(PAYLOAD_FORMATS).default('tassis'))
    .option(
      '--after <seq>',
      'begin after this position of the feed; default: with the next event',
      createWholeNumberParser(0, Number.MAX_SAFE_INTEGER),
    )
    .action(async (options: ListenCommand) => {
      if (!URL.canParse(options.forward) || !/^https?:/.test(options.forward))
        throw new UsageError('--forward must be a URL such as http://127.0.0.1:3000/hooks.')
      const { config } = loadConfig()
      const ending = new AbortController()
      for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => ending.abort())
      const position = await listen({
        url: options.url ?? (await findServiceUrl(config)),
        key: resolveKey(options, config),
        forward: options.forward,
        format: options.format,
        events: options.event ?? [],
        after: options.after,
        signal: ending.signal,
        clock: systemClock,
        print,
      })
      print(position === undefined ? 'Stopped.' : `Stopped. To continue from there, add --after ${position}.`)
    })
}

interface ListenCommand {
  readonly forward: string
  readonly url?: string | undefined
  readonly key?: string | undefined
  readonly keyFile?: string | undefined
  readonly event?: readonly string[] | undefined
  readonly format: PayloadFormat
  readonly after?: number | undefined
}

/** The key that `scripts/start` leaves in the data directory. */
const readFirstKey = ({ dataDir }: Config): string | undefined =>
  attempt(() => readFileSync(join(dataDir, 'first-key'), 'utf8').trim())

/** In the order in which they are looked for: the options, the setting, the file. */
function resolveKey({ key, keyFile }: Pick<ListenCommand, 'key' | 'keyFile'>, config: Config): string {
  const found = key ?? (keyFile === undefined ? config.apiKey || readFirstKey(config) : readKeyFile(keyFile))
  if (found) return found
  throw new UsageError(
    'No API key; give one with --key-file, TASSIS_API_KEY or --key. `tassis keys create --name listen` creates one.',
  )
}
