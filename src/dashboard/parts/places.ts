/** @module The screens and settings that the palette finds by their words. */
import { linkOptions } from '@tanstack/react-router'
import { IconArrowRight } from './icons.ts'
import { listNavigation, type Reader } from './navigation.ts'
import type { FoundItem } from './search-everything.ts'

/** Below the screens of the navigation: label, other words for it, and where it is. */
const SETTINGS = [
  ['Add a domain', 'new dns dkim spf', linkOptions({ to: '/domains/new' })],
  ['Create an API key', 'new token secret', linkOptions({ to: '/keys/new' })],
  ['Add a webhook', 'new endpoint', linkOptions({ to: '/webhooks/new' })],
  ['Refused requests', 'logs errors 422 401 api smtp', linkOptions({ to: '/logs', search: { status: '4xx' } })],
  ['New template', 'create', linkOptions({ to: '/templates/new' })],
  ['New broadcast', 'create newsletter campaign', linkOptions({ to: '/broadcasts/new' })],
  ['Import suppressions', 'csv bounce list', linkOptions({ to: '/suppressions/import' })],
  ['Sign-up forms', 'audience subscribe', linkOptions({ to: '/audience/forms' })],
  ['Sequences', 'audience drip automation welcome', linkOptions({ to: '/audience/sequences' })],
  ['Inbound routes', 'receive forward', linkOptions({ to: '/inbound/routes' })],
  ['Mailboxes', 'inbound agent', linkOptions({ to: '/inbound/mailboxes' })],
  ['Insights', 'analytics report', linkOptions({ to: '/analytics/insights' })],
  ['Team', 'members invite people roles settings', linkOptions({ to: '/settings/team' })],
  ['Account', 'name time zone tracking settings', linkOptions({ to: '/settings' })],
  [
    'Your sign-in',
    'profile password passkeys authenticator two factor sessions settings',
    linkOptions({ to: '/settings/profile' }),
  ],
  ['Streams', 'settings', linkOptions({ to: '/settings/streams' })],
  ['Texts and logo', 'wording branding settings', linkOptions({ to: '/settings/wording' })],
  ['Sub-accounts', 'customers settings', linkOptions({ to: '/settings/accounts' })],
  ['Plan', 'quota usage billing settings', linkOptions({ to: '/settings/plan' })],
  ['Audit log', 'history settings', linkOptions({ to: '/settings/audit' })],
  ['Privacy', 'export erase delete gdpr settings', linkOptions({ to: '/settings/privacy' })],
] as const

/** What the role support may read. */
export const SUPPORT_PLACES: readonly string[] = ['/settings', '/settings/profile']

/** All words that were typed must be in the words of a place. */
export function findPlaces(text: string, reader: Reader): readonly FoundItem[] {
  const typed = text.toLowerCase().split(/\s+/)
  const isFound = (words: string) => typed.every((word) => words.includes(word))
  const screens = listNavigation(reader)
    .filter(({ label }) => isFound(label.toLowerCase()))
    .map(({ label, to, icon, key }) => ({ key: label, label, icon, note: `g ${key}`, target: { to } }))
  if (text === '') return screens
  const settings = SETTINGS.filter(
    ([label, words, { to }]) =>
      isFound(`${label.toLowerCase()} ${words}`) && (reader.role !== 'support' || SUPPORT_PLACES.includes(to)),
  )
  return [...screens, ...settings.map(([label, , target]) => ({ key: label, label, icon: IconArrowRight, target }))]
}
