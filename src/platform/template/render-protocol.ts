/** @module What the main thread and the render Worker say to each other. Types. */
import type { RenderOutcome, TemplateFault, TemplateSource } from './renderer.ts'

/** One at a time; each is answered before the next is asked. */
export type ToRenderWorker =
  | {
      readonly type: 'render'
      readonly id: number
      readonly source: TemplateSource
      readonly dataJson: string
      /** Of the units of work that a render may take: 1, or less for an account that wasted too many. */
      readonly share: number
    }
  | { readonly type: 'check'; readonly id: number; readonly source: TemplateSource }

export type FromRenderWorker =
  | { readonly type: 'ready' }
  | { readonly type: 'rendered'; readonly id: number; readonly outcome: RenderOutcome }
  | { readonly type: 'checked'; readonly id: number; readonly faults: readonly TemplateFault[] }
