/**
 * @module `tassis listen`: reads the event feed of a service by API key and posts each event to a URL of the
 * developer's machine, signed like a webhook. Needs no public address and no certificate, stores nothing, and repeats
 * no request.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Option } from 'commander'
import { API, type Api, type WebhookPayload } from '#client/api.ts'
import { createClient, TassisError } from '#client/client.ts'
import { PAYLOAD_EVENTS, PAYLOAD_FORMATS, type PayloadFormat } from '#features/webhooks/webhooks/event-names.ts'
import { createRequestHeaders } from '#features/webhooks/webhooks/manage/signature.ts'
import { hmacSha256 } from '#platform/crypto/crypto.ts'
import { attempt } from '#platform/errors.ts'
import type { Config } from '#platform/settings/config.ts'
import { sleepUntilAborted, systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { loadConfig } from '../settings.ts'
import { findServiceUrl } from './api.ts'
import type { Command } from './command.ts'
import {
  CommandError,
  collectOption,
  createWholeNumberParser,
  parseUrlOption,
  readKeyFile,
  UsageError,
} from './options.ts'
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
  readonly print: (line: string) => void
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
  const { url, key, signal } = options
  options.print(`Secret: ${deriveListenSecret(key)}`)
  const api = createClient<Api>(API, { url, key, retries: 0, timeoutMs: TIMEOUT_MS })
  const state: Listening = { position: options.after, isReachable: true }
  for (let waitMs = 0; !signal.aborted; await sleepUntilAborted(systemClock, waitMs, signal))
    try {
      waitMs = (await forwardPage(options, api, state)) ? 0 : POLL_MS
    } catch (error) {
      if (!signal.aborted) explainFailure(options, state, error)
      waitMs = RETRY_MS
    }
  return state.position
}

interface Listening {
  /** Of the last event that was handled. An event that the service could not return is requested again. */
  position: number | undefined
  isReachable: boolean
}

/** Posts the events of the next page; returns whether it was full. */
async function forwardPage(options: ListenOptions, api: Api, state: Listening): Promise<boolean> {
  const { format, events, signal } = options
  const types = (events.length > 0 ? events : PAYLOAD_EVENTS[format]).join(',')
  const after = String(state.position ?? 'latest')
  const page = await api.events.list({ after, limit: MAX_EVENTS_PER_PAGE, types }, { signal })
  state.isReachable = true
  if (state.position === undefined) options.print(`Position ${page.next_after}: waiting for events.`)
  for (const { seq, type, recipient } of page.data) {
    const name = `${seq} ${type}${recipient === null ? '' : ` ${toPrintable(recipient)}`}`
    const outcome = await api.webhookPayloads.get(String(seq), { format }, { signal }).then(
      ({ data }) => post(options, data),
      (error) => {
        if (error instanceof TassisError && error.status === 404) return 'deleted since then'
        throw error
      },
    )
    options.print(`${name}: ${outcome}`)
    state.position = seq
  }
  state.position = page.next_after
  return page.data.length === MAX_EVENTS_PER_PAGE
}

/** @throws CommandError for a refusal that a repetition cannot change */
function explainFailure({ url, print }: ListenOptions, state: Listening, error: unknown): void {
  if (!(error instanceof TassisError)) throw error
  const { status, message, details, nextAfter } = error
  if ([400, 401, 403, 422].includes(status))
    throw new CommandError([message, ...details.map((detail) => detail.message)].join(' '))
  if (nextAfter !== undefined) {
    print(message)
    state.position = nextAfter
    return
  }
  if (state.isReachable) print(`The service at ${url} cannot be reached; trying again. Another address: --url.`)
  state.isReachable = false
}

/** Sends one signed request and returns what happened. */
async function post({ forward, key, signal }: ListenOptions, event: WebhookPayload): Promise<string> {
  const request = { id: event.event_id, event: event.event, attempt: 1, at: systemClock.now(), body: event.payload }
  const startMs = systemClock.monotonicMs()
  try {
    const response = await fetch(forward, {
      method: 'POST',
      headers: createRequestHeaders(request, { current: deriveListenSecret(key) }, []),
      body: event.payload,
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    })
    await response.body?.cancel()
    return `${response.status} in ${Math.round(systemClock.monotonicMs() - startMs)} ms`
  } catch {
    return `no answer from ${forward}`
  }
}

export function addListenCommand(program: Command): void {
  program
    .command('listen')
    .description("post the events of an account to a URL of this machine, signed like a webhook's")
    .requiredOption('--forward <url>', 'where to post, such as http://127.0.0.1:3000/hooks', parseUrlOption)
    .option('--url <url>', 'base URL of the service; default: the service on this machine', parseUrlOption)
    .option('--key <key>', 'API key with the scopes emails:read and webhooks:read; visible in the process list')
    .option('--key-file <path>', 'file with the API key; default: TASSIS_API_KEY, else what scripts/start left')
    .option('--event <name>', 'only this event; repeat for several; default: all', collectOption)
    .addOption(new Option('--format <format>', 'form of the payloads').choices(PAYLOAD_FORMATS).default('tassis'))
    .option(
      '--after <seq>',
      'begin after this position of the feed; default: with the next event',
      createWholeNumberParser(0, Number.MAX_SAFE_INTEGER),
    )
    .action(async (options: ListenCommand) => {
      const { config } = loadConfig()
      const ending = new AbortController()
      for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => ending.abort())
      const position = await listen({
        ...options,
        url: options.url ?? (await findServiceUrl(config)),
        key: resolveKey(options, config),
        events: options.event ?? [],
        signal: ending.signal,
        print,
      })
      print(position === undefined ? 'Stopped.' : `Stopped. To continue from there, add --after ${position}.`)
    })
}

interface ListenCommand extends Pick<ListenOptions, 'forward' | 'format' | 'after'> {
  readonly url?: string | undefined
  readonly key?: string | undefined
  readonly keyFile?: string | undefined
  readonly event?: readonly string[] | undefined
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
