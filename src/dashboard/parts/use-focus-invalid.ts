/** @module Moves the focus to the first invalid field of a form, which may be scrolled out of sight. */
import { type RefObject, useCallback, useEffect, useRef } from 'react'

/**
 * Focuses whenever there is a new `error` of a request. `focusInvalid` does it for problems found before a request; they
 * must be rendered already.
 */
export function useFocusInvalid(error: unknown): {
  readonly form: RefObject<HTMLFormElement | null>
  focusInvalid(): void
} {
  const form = useRef<HTMLFormElement>(null)
  const focusInvalid = useCallback(() => {
    form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus()
  }, [])
  useEffect(() => {
    if (error) focusInvalid()
  }, [error, focusInvalid])
  return { form, focusInvalid }
}
