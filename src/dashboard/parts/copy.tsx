/** @module Copies a text to the clipboard, also where browsers offer no clipboard API: on pages without TLS. */
import { Button } from '@mantine/core'
import { useEffect, useState } from 'react'

const SHOWN_MS = 2000

interface CopyProps {
  readonly value: string
  /** What is copied, for screen readers: "value of the SPF record". */
  readonly what: string
}

export function Copy({ value, what }: CopyProps) {
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle')
  useEffect(() => {
    if (state === 'idle') return
    const timer = setTimeout(() => setState('idle'), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [state])
  const copy = async () => setState((await copyText(value)) ? 'copied' : 'failed')
  return (
    <Button size="compact-xs" variant="default" onClick={copy} aria-label={`${LABELS[state]}: ${what}`}>
      {LABELS[state]}
    </Button>
  )
}

const LABELS = { idle: 'Copy', copied: 'Copied', failed: 'Select it yourself' } as const

async function copyText(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard === undefined) return copyBySelection(text)
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copyBySelection(text)
  }
}

function copyBySelection(text: string): boolean {
  const focused = document.activeElement
  const field = document.createElement('textarea')
  field.value = text
  field.setAttribute('aria-hidden', 'true')
  // Beside the focused element, because a dialog moves the focus back from elements outside of it.
  ;(focused?.parentElement ?? document.body).append(field)
  field.select()
  const isCopied = document.execCommand('copy')
  field.remove()
  if (focused instanceof HTMLElement) focused.focus()
  return isCopied
}
