/** @module The Esc key on a screen. */
import { useEffect, useRef } from 'react'

/** Calls `onEscape` for Esc, unless a dialog, a menu or a field with text uses the key itself. */
export function useEscape(onEscape: () => void): void {
  const latest = useRef(onEscape)
  latest.current = onEscape
  useEffect(() => {
    const listener = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || event.defaultPrevented || isUsedElsewhere(event.target)) return
      latest.current()
    }
    document.addEventListener('keydown', listener)
    return () => document.removeEventListener('keydown', listener)
  }, [])
}

const isUsedElsewhere = (target: EventTarget | null): boolean =>
  document.querySelector('[role=dialog], [role=menu], [role=tooltip]') !== null ||
  (target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
