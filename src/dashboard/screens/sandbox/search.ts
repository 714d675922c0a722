/** @module The filters of the inbox in its URL. Pure. */
import { keep, parseCursor, readText, type Search } from '../../parts/search.ts'

export const CAPTURED_TABS = ['html', 'text', 'headers', 'source', 'attachments', 'links'] as const
export type CapturedTab = (typeof CAPTURED_TABS)[number]

export interface InboxSearch {
  readonly q?: string
  readonly unread?: true
  readonly cursor?: string
}

const MAX_WORDS_LENGTH = 200

export function parseInboxSearch(search: Search): InboxSearch {
  const { q, unread } = search
  return {
    ...keep('q', readText(q, MAX_WORDS_LENGTH)),
    ...((unread === true || unread === 'true') && { unread: true as const }),
    ...parseCursor(search),
  }
}
