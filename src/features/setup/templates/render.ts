/**
 * @module Rendering as the API tells of it: faults of templates become the 422 of whoever wrote them. Sources and data come in, parts of a message go
 * out; which template they are of is the caller's business.
 */
import type { App } from '#features/core/app/app.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { addGarbage } from '#platform/garbage.ts'
import { serverBusy } from '#platform/http/body.ts'
import type { RenderedParts, RenderRequest, TemplateFault, TemplateSource } from '#platform/template/renderer.ts'
import { KiB, MiB, seconds } from '#platform/units.ts'

const RETRY_AFTER_SECONDS = 2
const MAX_DATA_BYTES = 1 * MiB
/** Bytes held for one byte that was rendered, at the peak: the text, its UTF-8, and what is compressed of it for the disk. */
const PEAK_FACTOR = 3
/** After a minute and a quarter the connection is cut, and whoever sent would not know what became of it. */
const MAX_RENDER_MS = seconds(40)
const LARGE_BYTES = 64 * KiB
/** Part of the memory that what one request renders may take. */
const REQUEST_MEMORY_FRACTION = 0.5
/** Bytes held for one of a source while it waits and is rendered: as it was read, and on its way. */
const SOURCE_FACTOR = 2

/** Throws a 503 when sources of so many bytes would not be rendered now: asked before they are read for nothing. */
export function requireRenderCapacity(
  { memory, renderer }: Pick<App, 'memory' | 'renderer'>,
  accountId: number,
  sourceBytes: number,
): void {
  renderer.requireRenderCapacity(accountId, sourceBytes)
  const reservation = memory.reserve(sourceBytes * SOURCE_FACTOR)
  if (!reservation) throw serverBusy()
  reservation.release()
}

/** Throws a 422 `template_error` with a detail for each part of a source that can never be rendered. */
export async function requireValidSource(
  app: Pick<App, 'renderer'>,
  accountId: number,
  source: TemplateSource,
): Promise<void> {
  if (isEmpty(source)) return
  const faults = await app.renderer.check({ accountId, source }).catch(throwUnavailable)
  const [first] = faults
  if (first) throw createTemplateError(first, faults)
}

/**
 * The parts of a source, rendered; the subject as one line. Throws the 422 of a fault, `template_error` or `template_limit`, whose detail names the
 * part, and a 503 when the renderer has ended or broken down.
 */
export async function renderParts(app: Pick<App, 'renderer'>, request: RenderRequest): Promise<RenderedParts> {
  if (isEmpty(request.source)) return {}
  const source = joinSubjectLines(request.source)
  const outcome = await app.renderer.render({ ...request, source }).catch(throwUnavailable)
  if (outcome.kind === 'fault') throw createTemplateError(outcome.fault, [outcome.fault])
  const { subject, ...bodies } = outcome.parts
  if (subject === undefined) return bodies
  if (hasHeaderBreak(subject))
    throw invalid(
      'subject',
      'The template_data bring a line break or a NUL character into the subject; take it out of them.',
    )
  return { ...bodies, subject: toOneLine(subject) }
}

/** A source of which the subject stands in one line, as its author means it: a line break in what is rendered is then one of the data. */
export const joinSubjectLines = (source: TemplateSource): TemplateSource =>
  source.subject === undefined ? source : { ...source, subject: source.subject.replace(/[\r\n]+/g, ' ') }

/** Whether a rendered subject has what ends a header line. Data of strangers must not, as a subject that is given directly must not. */
export const hasHeaderBreak = (subject: string): boolean => /[\r\n\0]/.test(subject)

/** A rendered subject with one space for what is white between its words. */
export const toOneLine = (subject: string): string => subject.replace(/[ \t-\r\x85\u2028\u2029]+/g, ' ').trim()

const isEmpty = ({ subject, html, text }: TemplateSource): boolean =>
  subject === undefined && html === undefined && text === undefined

function createTemplateError(first: TemplateFault, all: readonly TemplateFault[]): AppError {
  const code = first.kind === 'limit' ? 'template_limit' : 'template_error'
  return new AppError(422, code, first.message, {
    details: all.map(({ part, message }) => ({ field: part ?? 'template', message })),
  })
}

function throwUnavailable(cause: unknown): never {
  if (cause instanceof AppError) throw cause
  throw new AppError(503, 'templates_unavailable', 'Templates cannot be rendered just now; try again shortly.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
    cause,
  })
}

/** Data as the renderer takes it; a 422 when it is too much. */
export function serialiseData(data: unknown): string {
  const json = JSON.stringify(data)
  if (Buffer.byteLength(json) > MAX_DATA_BYTES)
    throw invalid('template_data', `template_data is larger than ${MAX_DATA_BYTES} bytes of JSON.`)
  return json
}

/** What one request renders. Its memory stays reserved until it is disposed of. */
export interface RenderSession extends Disposable {
  /** As `renderParts`; throws 413 when the request renders too much in all, 503 when that takes too long or the memory is taken. */
  render(request: RenderRequest): Promise<RenderedParts>
}

/**
 * Bounds what a request renders, which can be far more than what it sent: in all as much as a request body may have, counted in the memory budget,
 * and ready while somebody still waits for the answer.
 */
export function startRenderSession(app: Pick<App, 'clock' | 'config' | 'memory' | 'renderer'>): RenderSession {
  const { clock, config, memory } = app
  const maxBytes = Math.min(
    config.maxBodyBytes,
    Math.floor((memory.limitBytes * REQUEST_MEMORY_FRACTION) / PEAK_FACTOR),
  )
  const endsAtMs = clock.monotonicMs() + MAX_RENDER_MS
  const reservation = memory.reserve(0)
  let heldBytes = 0
  let sourceBytes = 0
  const isReserved = (): boolean => reservation?.resize(heldBytes * PEAK_FACTOR + sourceBytes * SOURCE_FACTOR) === true
  /** The parts; its sources count while they are needed. */
  const withSources = async (request: RenderRequest): Promise<RenderedParts> => {
    const { source, dataJson } = request
    const bytes = lengthOf(source.subject) + lengthOf(source.html) + lengthOf(source.text) + dataJson.length
    sourceBytes += bytes
    try {
      if (!isReserved()) throw serverBusy()
      return await renderParts(app, request)
    } finally {
      sourceBytes -= bytes
      isReserved()
    }
  }
  return {
    async render(request) {
      if (clock.monotonicMs() > endsAtMs) throw renderTimedOut()
      const parts = await withSources(request)
      const sizeBytes = Buffer.byteLength(parts.html ?? '') + Buffer.byteLength(parts.text ?? '')
      // Of what comes from the renderer only the UTF-8 is kept; small texts the collector keeps up with.
      if (sizeBytes > LARGE_BYTES) addGarbage(memory, sizeBytes)
      heldBytes += sizeBytes
      if (heldBytes > maxBytes) throw renderedTooLarge(maxBytes)
      if (!isReserved()) throw serverBusy()
      if (clock.monotonicMs() > endsAtMs) throw renderTimedOut()
      return parts
    },
    [Symbol.dispose]() {
      reservation?.release()
      if (heldBytes > LARGE_BYTES) addGarbage(memory, heldBytes * (PEAK_FACTOR - 1))
    },
  }
}

const lengthOf = (text: string | undefined): number => text?.length ?? 0

const renderedTooLarge = (maxBytes: number): AppError =>
  new AppError(
    413,
    'rendered_too_large',
    `The templates of this request give more than ${maxBytes} bytes in all; send fewer emails in one request.`,
  )

const renderTimedOut = (): AppError =>
  new AppError(
    503,
    'server_busy',
    'The templates of this request could not be rendered in time; send fewer emails in one request, or make the templates do less.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  )
