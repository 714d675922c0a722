/** @module Why an address is suppressed and what that stops, in words. */
import type { Suppression } from '#client/api.ts'
import type { State } from '../../parts/tone.ts'

export const UNSUBSCRIBE = 'unsubscribe'
/** The reason of addresses that the account added. */
export const MANUAL = 'manual'

interface KnownReason extends State {
  /** Why it should not be removed; undefined when that does no harm. */
  readonly warning?: string
}

/** The reasons that the service itself sets. */
export const KNOWN_REASONS: Readonly<Record<string, KnownReason>> = {
  hard_bounce: {
    word: 'Hard bounce',
    tone: 'bad',
    title: 'The receiving server said permanently that there is no such mailbox.',
    warning:
      'A server said that this mailbox does not exist. If that is still so, the next email bounces again, and many bounces make receivers refuse your other mail.',
  },
  complaint: {
    word: 'Spam complaint',
    tone: 'bad',
    title: 'The recipient reported an email as spam.',
    warning:
      'This person reported your mail as spam. Write again only if they asked you to: further complaints can pause this account and harm all its mail.',
  },
  manual: { word: 'Added by hand', tone: 'neutral', title: 'Somebody of this account added it.' },
  [UNSUBSCRIBE]: {
    word: 'Unsubscribed',
    tone: 'neutral',
    title: 'The recipient unsubscribed.',
    warning: 'This person unsubscribed. Write again only if they asked you to; in many countries the law says so, too.',
  },
}

/** To choose a reason of any text. */
export const OTHER = 'other'
export const REASON_OPTIONS = Object.entries(KNOWN_REASONS).map(([value, { word }]) => ({ value, label: word }))
export const OTHER_OPTION = { value: OTHER, label: 'Another text …' }

export const findReason = (reason: string): KnownReason | undefined =>
  Object.hasOwn(KNOWN_REASONS, reason) ? KNOWN_REASONS[reason] : undefined

export const ALL_MAIL = 'All mail'

export function describeScope({
  reason,
  stream,
  list_id: listId,
}: Pick<Suppression, 'reason' | 'stream' | 'list_id'>): string {
  if (reason !== UNSUBSCRIBE) return ALL_MAIL
  if (stream !== null) return `Mail of the stream ${stream}`
  return listId === null ? 'All but transactional mail' : 'Mail to one contact list'
}

export const listWarnings = (suppressions: readonly Pick<Suppression, 'reason'>[]): string[] => [
  ...new Set(suppressions.flatMap(({ reason }) => findReason(reason)?.warning ?? [])),
]

/** An erased person: the list has a key in place of the address. */
export const isErased = (address: string): boolean => address.startsWith('erased:')
