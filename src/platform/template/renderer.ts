/**
 * @module What renders templates, as the rest of the service sees it; `start-renderer.ts` makes it. Templates and data are of tenants who are
 * not trusted: every render has a bound on time, memory and output, and none holds up another account for long.
 */

/** The sources of a message, in Jinja's syntax; parts that are left out are not rendered. */
export interface TemplateSource {
  readonly subject?: string | undefined
  /** Escapes what it prints as HTML. */
  readonly html?: string | undefined
  readonly text?: string | undefined
}

export type TemplatePart = 'subject' | 'html_body' | 'text_body'

/** What a template made; the parts that its source has. */
export interface RenderedParts {
  readonly subject?: string
  readonly html?: string
  readonly text?: string
}

/** Why a template cannot be used, for people: one sentence that says how to mend it, with the part and, where known, the line. */
export interface TemplateFault {
  /** Undefined: it concerns no part by itself, such as the time that all took. */
  readonly part: TemplatePart | undefined
  /** 1 is the first. */
  readonly line: number | undefined
  /** The variable that is missing, as it stands in the source: `user.name`. */
  readonly variable: string | undefined
  /** `syntax`: never works. `undefined`: data is missing. `limit`: time, memory or output ran out. `error`: anything else in it. */
  readonly kind: 'syntax' | 'undefined' | 'limit' | 'error'
  /** Such as `html_body, line 3: the variable "user.name" is missing in template_data.` */
  readonly message: string
}

export type RenderOutcome =
  | { readonly kind: 'rendered'; readonly parts: RenderedParts }
  | { readonly kind: 'fault'; readonly fault: TemplateFault }

export interface RenderRequest {
  /** Whose template it is: each account waits for its own. */
  readonly accountId: number
  /** `bulk` waits while anything else does. */
  readonly urgency: 'now' | 'bulk'
  readonly source: TemplateSource
  /** JSON text of an object: the variables. */
  readonly dataJson: string
}

/** Code of the error with which a `bulk` request is rejected that the renderer did not survive. Several times in a row it is the template's fault. */
export const RENDER_INTERRUPTED = 'render_interrupted'

export interface Renderer {
  /** Renders, with the same result for the same request for good. Rejects only when the renderer has no room, was closed or broke down; tried again it may work. */
  render(request: RenderRequest): Promise<RenderOutcome>
  /** Faults of syntax, all parts. */
  check(request: Pick<RenderRequest, 'accountId' | 'source'>): Promise<readonly TemplateFault[]>
  /** Throws the 503 of a request of the account, of so many bytes, that would not be taken now: asked before they are read. */
  requireRenderCapacity(accountId: number, sizeBytes: number): void
  /** Refuses from now on, and whoever waits; what is being rendered is still answered. */
  drain(): void
  close(): void
}
