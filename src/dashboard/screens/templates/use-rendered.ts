/** @module The live preview: renders the text a moment after it changed, and drops what came too late. */
import { useEffect, useState } from 'react'
import type { RenderTemplateTextRequest, RenderTemplateTextResult } from '#client/api.ts'
import { api } from '../../api/client.ts'

/** A pause in typing. */
const DELAY_MS = 400

export interface Rendering {
  /** What was rendered last, perhaps from an older text. */
  readonly result: RenderTemplateTextResult | undefined
  /** The last result that has HTML, for the time while the HTML has an error. */
  readonly lastShown: RenderTemplateTextResult | undefined
  /** Whether the result is that of the text as it is now. */
  readonly isCurrent: boolean
  readonly error: unknown
  retry(): void
}

interface State extends Pick<Rendering, 'result' | 'lastShown' | 'error'> {
  readonly source: RenderTemplateTextRequest | undefined
}

const NOTHING: State = { source: undefined, result: undefined, lastShown: undefined, error: undefined }

/** @param source undefined: there is nothing to render; what was shown last stays. Must be memoised. */
export function useRendered(source: RenderTemplateTextRequest | undefined): Rendering {
  const [state, setState] = useState(NOTHING)
  const [attempts, setAttempts] = useState(0)
  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt renders the same again
  useEffect(() => {
    if (!source) return
    const controller = new AbortController()
    const timer = setTimeout(() => {
      api.templates.renderText(source, { signal: controller.signal }).then(
        ({ data: result }) => {
          if (controller.signal.aborted) return
          setState((before) => ({
            source,
            result,
            lastShown: result.preview_id === null ? before.lastShown : result,
            error: undefined,
          }))
        },
        (error: unknown) => {
          if (!controller.signal.aborted) setState((before) => ({ ...before, error }))
        },
      )
    }, DELAY_MS)
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [source, attempts])
  return {
    ...state,
    isCurrent: source !== undefined && state.source === source && state.error === undefined,
    retry: () => setAttempts((count) => count + 1),
  }
}
