/**
 * @module What the renderer (`worker-renderer.ts`) takes and returns. Templates and data
 * come from untrusted tenants: every render is limited in time, memory and output, and no render delays another
 * account for long.
 */

/** The sources of a message, in Jinja's syntax; missing parts are not rendered. */
export interface TemplateSource {
  readonly subject?: string | undefined
  /** The output of this part's variables is escaped for HTML. */
  readonly html?: string | undefined
  readonly text?: string | undefined
}

/** The parts of a source, and what the API calls them. */
export const PARTS = [
  ['subject', 'subject'],
  ['html', 'html_body'],
  ['text', 'text_body'],
] as const

export type TemplatePart = (typeof PARTS)[number][1]

/** The rendered parts: only parts that the source has. */
export type RenderedParts = TemplateSource

/**
 * Why a template cannot be used: one sentence that tells a person how to fix the problem, with the part and, if known,
 * the line.
 */
export interface TemplateFault {
  /** Undefined: the problem lies in no single part, for example when all parts together took too long. */
  readonly part: TemplatePart | undefined
  /** From 1. */
  readonly line: number | undefined
  /** The missing variable, as written in the source: `user.name`. */
  readonly variable: string | undefined
  /**
   * `syntax`: the template never works. `undefined`: a variable is missing in the data. `limit`: the render took too
   * much time or memory, or its output was too long. `error`: any other error.
   */
  readonly kind: 'syntax' | 'undefined' | 'limit' | 'error'
  /** Such as `html_body, line 3: the variable "user.name" is missing in template_data.` */
  readonly message: string
}

export type RenderOutcome =
  | { readonly kind: 'rendered'; readonly parts: RenderedParts }
  | { readonly kind: 'fault'; readonly fault: TemplateFault }

export interface RenderRequest {
  /** The account that owns the template; accounts take turns. */
  readonly accountId: number
  /** `bulk` waits while any other request waits. */
  readonly urgency: 'now' | 'bulk'
  readonly source: TemplateSource
  readonly dataJson: string
}

/**
 * Error code of a `bulk` request that killed the renderer. A template whose requests do so several times in a row is
 * faulty.
 */
export const RENDER_INTERRUPTED = 'render_interrupted'

/** Requests. Each request is answered before the next one is sent. */
export type ToRenderWorker =
  | {
      readonly type: 'render'
      readonly id: number
      readonly source: TemplateSource
      readonly dataJson: string
      /**
       * Fraction of the units of work that the render may use: 1, or less for an account whose renders recently
       * exceeded limits.
       */
      readonly share: number
    }
  | { readonly type: 'check'; readonly id: number; readonly source: TemplateSource }

export type FromRenderWorker =
  | { readonly type: 'ready' }
  | { readonly type: 'rendered'; readonly id: number; readonly outcome: RenderOutcome }
  | { readonly type: 'checked'; readonly id: number; readonly faults: readonly TemplateFault[] }
