/**
 * @module Reads request bodies within limits of bytes, memory and time, which apply before any parsing. JSON
 * everywhere; forms on public pages only; CSV where a route asks for it, whole or as a stream that its handler reads;
 * raw bytes where their signature matters. A body that no one reads costs nothing, see `body-stream.ts`.
 */

import type { MemoryBudget, Reservation } from '#platform/process/memory-budget.ts'
import { type Clock, limitTime } from '#platform/time/clock.ts'
import { AppError } from '../errors.ts'
import { KiB, MiB } from '../units.ts'
import {
  bodyInterrupted,
  bodyTooLarge,
  bodyTooSlow,
  createBodyStream,
  readOn,
  STREAM_BYTES,
  stopReading,
} from './body-stream.ts'
import {
  HEAP_BYTES_PER_JSON_VALUE,
  invalidJson,
  MAX_JSON_NAMES,
  MAX_JSON_VALUES,
  measureJson,
  parseJson,
} from './json.ts'

/**
 * Peak memory per byte of body: the bytes, the text, the strings parsed from it, and what the handler decodes.
 * Measured: 3.0 for one long string before the handler runs; text outside Latin-1 takes two bytes a character.
 */
const PEAK_FACTOR = 4
/**
 * Memory per byte of body once the body's bytes and text are garbage: the parsed strings, and what the handler decodes
 * and compresses from them.
 */
const PARSED_FACTOR = 3
/** Peak memory per byte of a CSV body: the body itself, and the part of it that is being read. */
const CSV_FACTOR = 2
/** Step by which the reservation for a body of unknown length grows. */
const CHUNKED_STEP_BYTES = 64 * KiB
const RETRY_AFTER_SECONDS = 2
const MAX_ANONYMOUS_BYTES = 64 * KiB
const MAX_SIGNED_BYTES = 256 * KiB
const MAX_SMALL_BYTES = MiB
/** Maximum fields of a form; our forms have some twenty. Bun takes 18 ms to parse as many fields as fit into 64 KiB. */
const MAX_FORM_FIELDS = 500
/** Of a form with files: a thousand recipients in fields of their own, and all else. */
const MAX_FILE_FORM_FIELDS = 5000
/**
 * Bodies larger than this share `LARGE_BODY_FRACTION` of the memory, so that a few slow uploads cannot block all other
 * requests.
 */
const LARGE_BODY_BYTES = 64 * KiB
const LARGE_BODY_FRACTION = 0.75

/** Bytes of body per unit of work. A row of a response costs one unit. */
const BYTES_PER_WORK_UNIT = 4 * KiB
/** Values of JSON per unit of work; a value under a name of its own takes half a microsecond to parse. */
const VALUES_PER_WORK_UNIT = 50
/** Maximum number of field names in a message of `small-json`. */
const MAX_SMALL_NAMES = 1000

/** Whether a body takes milliseconds to parse and check. */
export const isLargeBody = (sizeBytes: number): boolean => sizeBytes > LARGE_BODY_BYTES

export interface BodyReaderOptions {
  readonly maxBodyBytes: number
  /** The limit for a body that its handler reads as a stream. */
  readonly maxStreamBytes: number
  readonly timeoutMs: number
  readonly memory: MemoryBudget
  readonly clock: Clock
}

export interface ReadOptions {
  /** Default: runs the work of a large body immediately. */
  readonly runFairly?: FairRunner | undefined
  /** Called with the units of work that the body causes, as they are known; also for a body that is then refused. */
  readonly chargeWork?: ((units: number) => void) | undefined
  /** Whether a field of the body may have any names. Default: true. */
  readonly isFreeForm?: boolean
}

/** Runs a piece of synchronous work when its sender's turn comes. */
export type FairRunner = <T>(piece: () => T) => Promise<T>

/** `stranger`: an unauthenticated sender, who may send small bodies only, since no account is responsible for them. */
export type Sender = 'authenticated' | 'stranger'
/**
 * `csv`: the raw bytes. `csv-stream`: an unread `BodyStream`. `anything`: the handler needs only the URL; form fields
 * are parsed, any other body is read and ignored. `bytes`: the raw bytes of any type, up to 256 KiB, for bodies that
 * another service signs; `small-bytes`: the same within the sender's own limit. `small-json`: JSON up to 1 MiB
 * and 1,000 field names, whatever the limit of the API is. `form`: the fields and files of a form, as `FormData`.
 */
export type BodyFormat =
  | 'json'
  | 'small-json'
  | 'json-or-form'
  | 'csv'
  | 'csv-stream'
  | 'form'
  | 'anything'
  | 'bytes'
  | 'small-bytes'

export const BODY_FORMAT = 'x-body-format'

/** For a route's `detail`: overrides the default body format, which is JSON under /v1 and JSON or a form elsewhere. */
export const acceptsBody = (format: BodyFormat): { readonly [BODY_FORMAT]: BodyFormat } => ({ [BODY_FORMAT]: format })

export interface ReadBody {
  readonly value: unknown
  /** As received; 0 for a streamed body. */
  readonly sizeBytes: number
  readonly reservation: Reservation | undefined
}

const EMPTY: ReadBody = { value: undefined, sizeBytes: 0, reservation: undefined }

export type BodyReader = ReturnType<typeof createBodyReader>

export function createBodyReader(options: BodyReaderOptions) {
  const { maxBodyBytes, maxStreamBytes, timeoutMs, memory, clock } = options
  // A body for which memory can never be reserved is rejected as too large: a retry would never succeed.
  const largeBodyLimit = memory.limitBytes * LARGE_BODY_FRACTION
  const maxBytes = Math.min(maxBodyBytes, Math.floor(largeBodyLimit / PEAK_FACTOR))
  const maxBytesOf = (sender: Sender): number =>
    sender === 'stranger' ? Math.min(maxBytes, MAX_ANONYMOUS_BYTES) : maxBytes
  const limitOf = (accepts: BodyFormat, sender: Sender): number => {
    // Whoever signs a body has no API key.
    if (accepts === 'bytes') return Math.min(maxBytes, MAX_SIGNED_BYTES)
    return Math.min(maxBytesOf(sender), accepts === 'small-json' ? MAX_SMALL_BYTES : Number.POSITIVE_INFINITY)
  }
  const inTime = <T>(work: Promise<T>): Promise<T> => limitTime(clock, timeoutMs, work, bodyTooSlow)
  const collectAfter = (bytes: number): void => memory.addGarbage(bytes)

  const isCrowded = (sizeBytes: number, addedBytes: number): boolean =>
    sizeBytes > LARGE_BODY_BYTES && memory.inUseBytes + addedBytes > largeBodyLimit
  const reserve = (sizeBytes: number): Reservation | undefined =>
    isCrowded(sizeBytes, sizeBytes * PEAK_FACTOR) ? undefined : memory.reserve(sizeBytes * PEAK_FACTOR)
  const grow: GrowReservation = (reservation, sizeBytes) => {
    const heldBytes = sizeBytes * PEAK_FACTOR
    return !isCrowded(sizeBytes, heldBytes - reservation.bytes) && reservation.resize(heldBytes)
  }

  return {
    /** Resolves when the response may be sent without a reset for a client that still sends its body. */
    readOn: (request: Request) => readOn(request, { memory, clock, onConsumed: collectAfter }),

    /**
     * Refuses a body by its `Content-Length` alone, before anything is read: 413 when the length is over the limit.
     * @param isStreamed whether the handler takes a stream, whose limit is `maxStreamBytes`; called only when the length
     * exceeds the sender's ordinary limit
     */
    refuseTooLarge(request: Request, sender: Sender, isStreamed: () => boolean): void {
      const length = request.headers.get('content-length')
      if (length === null || Number(length) <= maxBytesOf(sender)) return
      const limitBytes = isStreamed() ? maxStreamBytes : maxBytesOf(sender)
      if (Number(length) > limitBytes) throw bodyTooLarge(limitBytes)
    },

    /**
     * Resolves with the parsed body, which is undefined when the body is empty, and with the memory that stays reserved
     * until the caller releases it. Throws 400, 408, 413, 415 and 503.
     */
    async read(
      request: Request,
      sender: Sender,
      accepts: BodyFormat,
      readOptions: ReadOptions = {},
    ): Promise<ReadBody> {
      const length = request.headers.get('content-length')
      const isChunked = length === null && request.headers.has('transfer-encoding')
      if (!isChunked && (length === null || Number(length) === 0)) return EMPTY
      if (accepts === 'csv-stream') {
        refuseNotCsv(request)
        const reservation = isCrowded(STREAM_BYTES, STREAM_BYTES) ? undefined : memory.reserve(STREAM_BYTES)
        if (!reservation) throw serverBusy()
        const value = createBodyStream(request, { maxBytes: maxStreamBytes, clock, onConsumed: collectAfter })
        return { value, sizeBytes: 0, reservation }
      }
      const limitBytes = limitOf(accepts, sender)
      if (Number(length) > limitBytes) throw bodyTooLarge(limitBytes)
      const reserved = reserve(isChunked ? CHUNKED_STEP_BYTES : Number(length))
      if (!reserved) throw serverBusy()
      const reservation = collectOnRelease(reserved, collectAfter)
      try {
        const bytes = isChunked
          ? await readChunked(request, limitBytes, reservation, grow, inTime)
          : await inTime(request.bytes())
        if (bytes.length === 0) {
          reservation.release()
          return EMPTY
        }
        readOptions.chargeWork?.(bytes.length / BYTES_PER_WORK_UNIT)
        const value = await parse(request, bytes, accepts, reservation, readOptions)
        return { value, sizeBytes: bytes.length, reservation }
      } catch (error) {
        reservation.release()
        throw error instanceof AppError ? error : bodyInterrupted(error)
      }
    },
  }
}

/** Wraps a reservation so that its release also counts the bytes as garbage. */
function collectOnRelease(reservation: Reservation, collectAfter: (bytes: number) => void): Reservation {
  let peakBytes = reservation.bytes
  return {
    get bytes() {
      return reservation.bytes
    },
    resize(bytes) {
      const isResized = reservation.resize(bytes)
      if (isResized) peakBytes = Math.max(peakBytes, bytes)
      return isResized
    },
    release() {
      reservation.release()
      if (peakBytes > LARGE_BODY_BYTES * PEAK_FACTOR) collectAfter(peakBytes)
      peakBytes = 0
    },
  }
}

/** Resizes a reservation for a body of this size; false when the memory is not available. */
type GrowReservation = (reservation: Reservation, sizeBytes: number) => boolean

async function readChunked(
  request: Request,
  maxBytes: number,
  reservation: Reservation,
  grow: GrowReservation,
  inTime: (work: Promise<void>) => Promise<void>,
): Promise<Uint8Array> {
  const reader = request.body?.getReader()
  if (!reader) return new Uint8Array()
  const chunks: Uint8Array[] = []
  let size = 0
  const readAll = async (): Promise<void> => {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      size += value.length
      if (size > maxBytes) throw bodyTooLarge(maxBytes)
      if (size * PEAK_FACTOR > reservation.bytes && !grow(reservation, size + CHUNKED_STEP_BYTES)) {
        throw serverBusy()
      }
      chunks.push(value)
    }
  }
  try {
    await inTime(readAll())
  } catch (error) {
    await stopReading(request, reader)
    throw error
  }
  return Buffer.concat(chunks)
}

// RFC 8259 §8.1: JSON is UTF-8. Invalid octets are refused, not replaced.
const utf8 = new TextDecoder('utf-8', { fatal: true })

async function parse(
  request: Request,
  bytes: Uint8Array,
  accepts: BodyFormat,
  reservation: Reservation,
  { runFairly: runLarge, chargeWork, isFreeForm = true }: ReadOptions,
): Promise<unknown> {
  const runFairly = isLargeBody(bytes.length) ? runLarge : undefined
  const contentType = request.headers.get('content-type')
  if (accepts === 'anything') {
    return FORM_TYPE.test(contentType ?? '') ? parseForm(bytes, contentType ?? '').catch(() => undefined) : undefined
  }
  if (accepts === 'bytes' || accepts === 'small-bytes') return bytes
  if (accepts === 'csv') {
    refuseNotCsv(request)
    // The handler reads the bytes piece by piece and holds no second copy.
    reservation.resize(bytes.length * CSV_FACTOR)
    return bytes
  }
  refuseContentEncoding(request)
  if (accepts === 'form') return readForm(bytes, contentType ?? '', MAX_FILE_FORM_FIELDS)
  if (accepts === 'json-or-form' && contentType !== null && FORM_TYPE.test(contentType)) {
    return parseForm(bytes, contentType)
  }
  if (contentType === null || !JSON_TYPE.test(contentType)) throw notJson()
  const text = runFairly ? await runFairly(() => decodeUtf8(bytes)) : decodeUtf8(bytes)
  const maxNames = accepts === 'small-json' ? MAX_SMALL_NAMES : isFreeForm ? MAX_JSON_VALUES : MAX_JSON_NAMES
  const measure = () => measureJson(text, maxNames)
  const values = runFairly ? await runFairly(measure) : measure()
  const valuesBytes = values * HEAP_BYTES_PER_JSON_VALUE
  chargeWork?.(values / VALUES_PER_WORK_UNIT)
  if (!reservation.resize(bytes.length * PEAK_FACTOR + valuesBytes)) throw serverBusy()
  const value = runFairly ? await runFairly(() => parseJson(text)) : parseJson(text)
  reservation.resize(bytes.length * PARSED_FACTOR + valuesBytes)
  return value
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw invalidJson('it is not UTF-8')
  }
}

// `application/json`, `application/problem+json`; a charset parameter is accepted only if it is UTF-8 or its subset
// US-ASCII.
const JSON_TYPE =
  /^application\/(?:[\w.-]+\+)?json[ \t]*(?:;(?![^;]*charset)[^;]*|;[ \t]*charset="?(?:utf-?8|us-ascii)"?[ \t]*)*$/i
const CSV_TYPE = /^text\/csv[ \t]*(?:;(?![^;]*charset)[^;]*|;[ \t]*charset="?(?:utf-?8|us-ascii)"?[ \t]*)*$/i
const FORM_TYPE = /^(?:application\/x-www-form-urlencoded|multipart\/form-data)[ \t]*(?:;|$)/i

function refuseNotCsv(request: Request): void {
  refuseContentEncoding(request)
  const contentType = request.headers.get('content-type')
  if (contentType === null || !CSV_TYPE.test(contentType)) throw notCsv()
}

function refuseContentEncoding(request: Request): void {
  const encoding = request.headers.get('content-encoding')
  if (encoding !== null && !/^identity$/i.test(encoding)) {
    throw new AppError(
      415,
      'unsupported_media_type',
      'Compressed request bodies are not supported; send the body without Content-Encoding.',
    )
  }
}

async function readForm(bytes: Uint8Array, contentType: string, maxFields: number): Promise<FormData> {
  const tooMany = (): AppError =>
    new AppError(400, 'invalid_form', `The form in the request body must have at most ${maxFields} fields.`)
  const isMultipart = MULTIPART.test(contentType)
  if (!isMultipart && hasTooManyFields(bytes, maxFields)) throw tooMany()
  const form = (await new Response(bytes as Uint8Array<ArrayBuffer>, { headers: { 'content-type': contentType } })
    .formData()
    .catch(() => {
      throw new AppError(400, 'invalid_form', 'The form in the request body cannot be read.')
    })) as FormData
  // Bun takes 40 ms to parse the 100,000 parts that fit into 6 MB.
  if (isMultipart && [...form.keys()].length > maxFields) throw tooMany()
  return form
}

/** Parses form fields as strings; ignores files. */
async function parseForm(bytes: Uint8Array, contentType: string): Promise<Record<string, string>> {
  const form = await readForm(bytes, contentType, MAX_FORM_FIELDS)
  const fields: Record<string, string> = Object.create(null)
  form.forEach((value, name) => {
    if (typeof value === 'string') fields[name] = value
  })
  return fields
}

function hasTooManyFields(bytes: Uint8Array, maxFields: number): boolean {
  let count = 0
  for (let at = bytes.indexOf(AMPERSAND); at !== -1; at = bytes.indexOf(AMPERSAND, at + 1)) {
    if (++count >= maxFields) return true
  }
  return false
}

const AMPERSAND = 38
const MULTIPART = /^multipart\//i

const notJson = (): AppError =>
  new AppError(415, 'unsupported_media_type', 'Send the body as JSON, with the header Content-Type: application/json.')

const notCsv = (): AppError =>
  new AppError(415, 'unsupported_media_type', 'Send the body as CSV in UTF-8, with the header Content-Type: text/csv.')

/** 503: no memory is left for large requests and responses. */
export const serverBusy = (): AppError =>
  new AppError(503, 'server_busy', 'The server is handling as many large requests as it can; try again shortly.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  })
