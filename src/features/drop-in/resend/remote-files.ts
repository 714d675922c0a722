/**
 * @module Fetches the attachments that an email names by URL (`path`), when it is accepted: through `App.fetch`, which
 * reaches no private address, within limits of files, bytes, memory, time and fetches at the same time.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { type AppError, invalid, tooManyRequests } from '#platform/errors.ts'
import { serverBusy } from '#platform/http/body.ts'
import { perOwner } from '#platform/per-owner.ts'
import type { Reservation } from '#platform/process/memory-budget.ts'
import { Counts } from '#platform/queue/counts.ts'
import { seconds } from '#platform/units.ts'
import type { RemoteFile } from './translate.ts'

export const MAX_REMOTE_FILES = 10
/** For all files of an email together. */
const TIMEOUT_MS = seconds(20)
const MAX_REDIRECTS = 3
const MAX_CONCURRENT_FETCHES = 4
/** Memory per byte of a file: its pieces, its base64, and what acceptance decodes from it. */
const MEMORY_FACTOR = 4

const getRunningFetches = perOwner((_: App) => new Counts())

/** Files that were fetched; their memory stays reserved until they are released. */
export interface FetchedFiles extends Disposable {
  /** Base64, by position among the attachments. */
  readonly contents: ReadonlyMap<number, string>
}

/** Fetches the files. Throws a 422 for one that cannot be fetched, a 429 while too many are, a 503 without memory. */
export async function fetchRemoteFiles(
  app: App,
  { accountId }: Actor,
  files: readonly RemoteFile[],
): Promise<FetchedFiles> {
  if (files.length > MAX_REMOTE_FILES)
    throw invalid(
      'attachments',
      `attachments: at most ${MAX_REMOTE_FILES} files of an email may have a path; send the others as content.`,
    )
  const running = getRunningFetches(app)
  if (running.of(accountId) >= MAX_CONCURRENT_FETCHES)
    throw tooManyRequests(
      'too_many_fetches',
      `At most ${MAX_CONCURRENT_FETCHES} emails of an account may fetch their attachments at the same time; try again shortly, or send content.`,
      1,
    )
  const memory = app.memory.reserve(0)
  if (!memory) throw serverBusy()
  running.add(accountId, 1)
  const ending = new AbortController()
  const limits = {
    take: limitBytes(app, memory),
    signal: ending.signal,
    untilMs: app.clock.monotonicMs() + TIMEOUT_MS,
  }
  try {
    const fetched = await Promise.all(
      files.map(async (file) => [file.index, await fetchFile(app, file, limits)] as const),
    )
    return { contents: new Map(fetched), [Symbol.dispose]: () => memory.release() }
  } catch (error) {
    // Ends the other fetches.
    ending.abort()
    memory.release()
    throw error
  } finally {
    running.add(accountId, -1)
  }
}

/** Returns a function that adds the bytes of a piece to those of all files; its error says that there is no room. */
function limitBytes({ config: { maxAttachmentBytes: maxBytes } }: App, memory: Reservation) {
  let bytes = 0
  return (count: number): AppError | undefined => {
    bytes += count
    if (bytes > maxBytes)
      return invalid(
        'attachments',
        `The attachments must have at most ${maxBytes} bytes together.`,
        'attachments_too_large',
      )
    return memory.resize(bytes * MEMORY_FACTOR) ? undefined : serverBusy()
  }
}

interface FetchLimits {
  readonly take: ReturnType<typeof limitBytes>
  readonly signal: AbortSignal
  readonly untilMs: number
}

/** One file in base64, by up to MAX_REDIRECTS redirects, each of which is checked like the first URL. */
async function fetchFile(
  app: App,
  { index, url: first }: RemoteFile,
  { take, signal, untilMs }: FetchLimits,
): Promise<string> {
  const fail = (reason: string) =>
    invalid(
      `attachments.${index}.path`,
      `attachments.${index}.path could not be fetched: ${reason} Check the URL, or send the file as content.`,
      'attachment_not_fetched',
    )
  let url = first
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const chunks: Buffer[] = []
    let problem: AppError | undefined
    const outcome = await app.fetch.get(url, {
      headers: { 'user-agent': 'Tassis-Attachments/1', accept: '*/*' },
      timeoutMs: seconds(Math.max(1, Math.ceil((untilMs - app.clock.monotonicMs()) / 1000))),
      // One more byte than all files may have, so that `take` ends a file that is too large.
      maxResponseBytes: app.config.maxAttachmentBytes + 1,
      signal,
      takeChunk(chunk) {
        problem ??= take(chunk.length)
        // A copy: the piece may be a small view of a large buffer.
        if (!problem) chunks.push(Buffer.from(chunk))
        return !problem
      },
    })
    if (problem) throw problem
    if (outcome.kind === 'failed') throw fail(outcome.reason)
    const { status, bodyInfo } = outcome
    if (status >= 300 && status < 400 && bodyInfo?.location) {
      url = URL.parse(bodyInfo.location, url)?.href ?? ''
      continue
    }
    if (status !== 200) throw fail(`the server responded with status ${status}.`)
    if (!bodyInfo?.isComplete) throw fail('the response ended too early, or took too long.')
    return Buffer.concat(chunks).toString('base64')
  }
  throw fail(`there are more than ${MAX_REDIRECTS} redirects.`)
}
