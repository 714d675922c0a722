/** @module Copies a text to the clipboard, also where browsers offer no clipboard API: on pages without TLS. */
import { Button } from '@mantine/core'
import { useEffect, useState } from 'react'
import { IconCheck, IconCopy } from './icons.ts'

const SHOWN_MS = 2000

interface CopyProps {
  readonly value: string
  /** What is copied, for screen readers: "value of the SPF record". */
  readonly what: string
  /** Whether it has a sign instead of a word: in tables. */
  readonly isIcon?: boolean
}

export function Copy({ value, what, isIcon = false }: CopyProps) {
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle')
  useEffect(() => {
    if (state === 'idle') return
    const timer = setTimeout(() => setState('idle'), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [state])
  const copy = async () => setState((await copyText(value)) ? 'copied' : 'failed')
  const label = `${LABELS[state]}: ${what}`
  if (isIcon) {
    const Icon = state === 'copied' ? IconCheck : IconCopy
    return (
      <button type="button" className="icon-button copy-icon" onClick={copy} aria-label={label} title={LABELS[state]}>
        <Icon size="0.875rem" aria-hidden />
      </button>
    )
  }
  return (
    <Button size="compact-xs" variant="default" onClick={copy} aria-label={label}>
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

/** A text on one line with its sign beside it. */
export const CopyText = ({ value, what }: CopyProps) => (
  <span className="copy-text">
    <code title={value}>{value}</code>
    <Copy value={value} what={what} isIcon />
  </span>
)
