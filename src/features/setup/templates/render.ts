/**
 * @module Renders templates for API requests: limits memory and time, and turns template errors into 422 responses.
 * Takes sources and data and returns parts of a message; which template they belong to is the caller's concern.
 */
import type { App } from '#features/core/app/app.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { serverBusy } from '#platform/http/body.ts'
import type { RenderedParts, RenderRequest, TemplateFault, TemplateSource } from '#platform/template/renderer.ts'
import { KiB, MiB, seconds } from '#platform/units.ts'

const RETRY_AFTER_SECONDS = 2
const MAX_DATA_BYTES = 1 * MiB
/** Peak bytes of memory per rendered byte: the text, its UTF-8, and its compressed form for the disk. */
const PEAK_FACTOR = 3
/**
 * Rendering must end well before the connection closes, which is after 75 seconds: otherwise the client would not learn
 * the outcome of its request.
 */
const MAX_RENDER_MS = seconds(40)
const LARGE_BYTES = 64 * KiB
/** Fraction of the memory budget that one request may render. */
const REQUEST_MEMORY_FRACTION = 0.5
/** Memory per byte of a source that waits or is being rendered: one copy as read, one as passed to the renderer. */
const SOURCE_FACTOR = 2

/** Throws 422 `template_error` with a detail for each part of a source that can never be rendered. */
export async function requireValidSource(
  app: Pick<App, 'renderer'>,
  accountId: number,
  source: TemplateSource,
): Promise<void> {
  if (isEmpty(source)) return
  const problems = await app.renderer.check({ accountId, source }).catch(throwUnavailable)
  const [first] = problems
  if (first) throw new TemplateFaultError(first, problems)
}

/**
 * Renders the parts of a source, the subject as one line. Throws 422 `template_error` or `template_limit`, whose detail
 * names the part, and 503 when the renderer has stopped or crashed.
 */
export async function renderParts(app: Pick<App, 'renderer'>, request: RenderRequest): Promise<RenderedParts> {
  if (isEmpty(request.source)) return {}
  const source = joinSubjectLines(request.source)
  const outcome = await app.renderer.render({ ...request, source }).catch(throwUnavailable)
  if (outcome.kind === 'fault') throw new TemplateFaultError(outcome.fault, [outcome.fault])
  const { subject, ...bodies } = outcome.parts
  if (subject === undefined) return bodies
  if (hasControl(subject))
    throw invalid('subject', 'The template_data puts a control character into the subject; remove it from the data.')
  return { ...bodies, subject: toOneLine(subject) }
}

/** The source with its subject on one line, where a line break may be part of its syntax. */
export const joinSubjectLines = (source: TemplateSource): TemplateSource =>
  source.subject === undefined ? source : { ...source, subject: source.subject.replace(/[\r\n]+/g, ' ') }

/** Whether a rendered subject contains a control character that is not white space. */
export const hasControl = (subject: string): boolean => /[\0-\x08\x0e-\x1f\x7f]/.test(subject)

/** A rendered subject with all white space between words, line breaks of the data too, replaced with one space. */
export const toOneLine = (subject: string): string => subject.replace(/[ \t-\r\x85\u2028\u2029]+/g, ' ').trim()

const isEmpty = ({ subject, html, text }: TemplateSource): boolean =>
  subject === undefined && html === undefined && text === undefined

/** 422: the sources or the data cannot be rendered. */
export class TemplateFaultError extends AppError {
  readonly faults: readonly TemplateFault[]

  constructor(first: TemplateFault, faults: readonly TemplateFault[]) {
    super(422, first.kind === 'limit' ? 'template_limit' : 'template_error', first.message, {
      details: faults.map(({ part, message }) => ({ field: part ?? 'template', message })),
    })
    this.faults = faults
  }
}

function throwUnavailable(cause: unknown): never {
  if (cause instanceof AppError) throw cause
  throw new AppError(503, 'templates_unavailable', 'Templates cannot be rendered right now; try again shortly.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
    cause,
  })
}

/** Data as JSON for the renderer; throws 422 when it is too large. */
export function serialiseData(data: unknown): string {
  const json = JSON.stringify(data)
  if (Buffer.byteLength(json) > MAX_DATA_BYTES)
    throw invalid('template_data', `template_data is larger than ${MAX_DATA_BYTES} bytes of JSON.`)
  return json
}

export type RenderSession = ReturnType<typeof startRenderSession>

/**
 * Limits what a request renders, because this can be far more than the request sent. All renderings of a request
 * together are limited to the size of a request body, to a part of the memory budget, and to the time in which the
 * client still gets the response. The memory that they use stays reserved until disposal.
 */
export function startRenderSession(app: Pick<App, 'clock' | 'config' | 'memory' | 'renderer'>) {
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
  /** Renders the parts, and reserves memory for the sources while they are needed. */
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
    /** Like `renderParts`; throws 413 for too much in total, and 503 when it takes too long or memory is short. */
    async render(request: RenderRequest): Promise<RenderedParts> {
      if (clock.monotonicMs() > endsAtMs) throw renderTimedOut()
      const parts = await withSources(request)
      const sizeBytes = Buffer.byteLength(parts.html ?? '') + Buffer.byteLength(parts.text ?? '')
      // Garbage is counted for large texts only; the collector keeps up with small ones.
      if (sizeBytes > LARGE_BYTES) memory.addGarbage(sizeBytes)
      heldBytes += sizeBytes
      if (heldBytes > maxBytes) throw renderedTooLarge(maxBytes)
      if (!isReserved()) throw serverBusy()
      if (clock.monotonicMs() > endsAtMs) throw renderTimedOut()
      return parts
    },
    [Symbol.dispose](): void {
      reservation?.release()
      if (heldBytes > LARGE_BYTES) memory.addGarbage(heldBytes * (PEAK_FACTOR - 1))
    },
  }
}

const lengthOf = (text: string | undefined): number => text?.length ?? 0

const renderedTooLarge = (maxBytes: number): AppError =>
  new AppError(
    413,
    'rendered_too_large',
    `The templates of this request render to more than ${maxBytes} bytes in total; send fewer emails per request.`,
  )

const renderTimedOut = (): AppError =>
  new AppError(
    503,
    'server_busy',
    'The templates of this request could not be rendered in time; send fewer emails per request, or simplify the templates.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  )
