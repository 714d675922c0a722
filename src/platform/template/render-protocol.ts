/** @module Types of the messages between the main thread and the render Worker. */
import type { RenderOutcome, TemplateFault, TemplateSource } from './renderer.ts'

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
