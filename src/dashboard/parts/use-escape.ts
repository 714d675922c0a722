/** @module The Esc key on a screen. */
import { useEffect, useRef } from 'react'

/** Calls `onEscape` for Esc, unless a dialog, a menu or a field with text uses the key itself. */
export function useEscape(onEscape: () => void): void {
  const latest = useRef(onEscape)
  latest.current = onEscape
  useEffect(() => {
    const listener = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || isUsedElsewhere(event.target)) return
      latest.current()
    }
    // Before the listeners of a dialog, which would be gone already.
    window.addEventListener('keydown', listener, { capture: true })
    return () => window.removeEventListener('keydown', listener, { capture: true })
  }, [])
}

const isUsedElsewhere = (target: EventTarget | null): boolean =>
  document.querySelector('[role=dialog], [role=menu], [role=tooltip]') !== null ||
  (target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)))
