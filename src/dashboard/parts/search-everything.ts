/** @module What the palette finds in the account. One hook, which asks for what was typed. */
import { linkOptions } from '@tanstack/react-router'
import { IconMail } from './icons.ts'
import type { Target } from './target.ts'

export interface FoundItem {
  readonly key: string
  readonly label: string
  /** At its end, such as a state or a time. */
  readonly note?: string
  readonly icon?: typeof IconMail
  readonly target: Target
}

export interface Found {
  readonly label: string
  readonly items: readonly FoundItem[]
}

interface Search {
  readonly groups: readonly Found[]
  /** Such as "Searching…", or what is closest when nothing was found. */
  readonly note?: string
}

/** @param text as it was typed, without spaces around it; may be empty */
export function useSearch(text: string): Search {
  if (!text.includes('@')) return { groups: [] }
  const target = linkOptions({ to: '/emails', search: { to: text } })
  return {
    groups: [{ label: 'Emails', items: [{ key: 'emails', label: `Emails to ${text}`, icon: IconMail, target }] }],
  }
}
