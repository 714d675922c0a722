/** @module Received mail and its routes in words. Pure. */
import type { InboundRoute } from '#client/api.ts'
import type { State } from '../../parts/tone.ts'

export const INBOUND_STATES: Readonly<Record<string, State>> = {
  received: { word: 'Stored', tone: 'neutral', title: 'It is stored; no webhook has accepted it.' },
  delivered: { word: 'Passed on', tone: 'good', title: 'The webhook of its route accepted it.' },
  no_route: { word: 'No route', tone: 'neutral', title: 'No route matches its address.' },
  failed: { word: 'Unreadable', tone: 'bad', title: 'It could not be parsed.' },
}

/** By the verdict of rspamd. */
export const SPAM_STATES: Readonly<Record<string, State>> = {
  spam: { word: 'Spam', tone: 'bad', title: 'Rspamd would reject it.' },
  suspect: { word: 'Maybe spam', tone: 'warning', title: 'Rspamd would mark it.' },
  ham: { word: 'No spam', tone: 'good', title: 'Rspamd would accept it.' },
}

export const NOT_FORWARDED: State = { word: 'Not forwarded', tone: 'warning', title: 'An address did not get it.' }

export const ROUTE_DELIVERY_STATES: Readonly<Record<string, State>> = {
  pending: { word: 'Waiting', tone: 'waiting', title: 'Another attempt follows.' },
  delivered: { word: 'Accepted', tone: 'good', title: 'The response was a 2xx.' },
  undeliverable: { word: 'Given up', tone: 'bad', title: 'No further attempt follows.' },
}

/** The words of the match types, in the order in which they are tried. */
export const MATCH_TYPE_WORDS = {
  exact: 'This address',
  prefix: 'Addresses that begin so',
  catch_all: 'All addresses of the domain',
} as const satisfies Readonly<Record<InboundRoute['match_type'], string>>

type Described = Pick<InboundRoute, 'pattern' | 'match_type'>

/** The addresses of a route as one label, such as `support@example.com` or `sales-…@example.com`. */
export function formatRoute({ pattern, match_type: type }: Described, domain = 'unknown domain'): string {
  if (type === 'catch_all') return `all of ${domain}`
  // A pattern may be a whole address.
  const at = pattern.startsWith('"') && pattern.endsWith('"') ? -1 : pattern.lastIndexOf('@')
  const localPart = at < 0 ? pattern : pattern.slice(0, at)
  return `${localPart}${type === 'prefix' ? '…' : ''}@${domain}`
}

/** Whether failures deactivated the webhook of a route that is itself active. */
export const isDeactivated = ({
  is_active: isActive,
  webhook_url: url,
  last_failure_reason: reason,
}: Pick<InboundRoute, 'is_active' | 'webhook_url' | 'last_failure_reason'>): boolean =>
  isActive && url !== null && /^deactivated\b/.test(reason ?? '')
