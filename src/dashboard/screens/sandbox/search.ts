/** @module The filters of the inbox in its URL. Pure. */

export interface InboxSearch {
  readonly q?: string
  readonly unread?: true
  /** Cursor of a page after the first. */
  readonly cursor?: string
}

const MAX_TEXT_LENGTH = 200
const MAX_CURSOR_LENGTH = 500

/** Ignores what is not a filter. A number is what the router makes of a text of digits. */
export function parseInboxSearch(search: Readonly<Record<string, unknown>>): InboxSearch {
  const { q, unread, cursor } = search
  const text = typeof q === 'number' ? String(q) : typeof q === 'string' ? q.trim() : ''
  return {
    ...(text !== '' && { q: text.slice(0, MAX_TEXT_LENGTH) }),
    ...((unread === true || unread === 'true') && { unread: true as const }),
    ...(typeof cursor === 'string' && cursor !== '' && { cursor: cursor.slice(0, MAX_CURSOR_LENGTH) }),
  }
}
