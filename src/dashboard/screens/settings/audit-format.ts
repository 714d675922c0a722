/** @module Entries of the audit log in words: who, what, to which thing, and the difference; a browser in words. */
import { linkOptions } from '@tanstack/react-router'
import type { AuditLog } from '#client/api.ts'
import { toWords } from '../../parts/fields.ts'
import type { Target } from '../../parts/filters.ts'

/** Actions whose name does not read as a sentence. Other ones are read from their name. */
const ACTIONS: Readonly<Record<string, string>> = {
  'account.auto_paused': 'Sending was paused',
  'account.paused': 'Sending was paused',
  'account.resumed': 'Sending was resumed',
  'domain.vouched_for': 'Domain verified without a DNS check',
  'email.repeated': 'Email sent again',
  'invitation.deleted': 'Invitation revoked',
  'mailbox_message.acked': 'Mailbox message handled',
  'mailbox_message.nacked': 'Mailbox message returned to its queue',
  'person.erased': 'Erasure of a person begun',
  'session.account_changed': 'Switched to this account',
  'session.created': 'Signed in',
  'session.deleted': 'Signed out',
  'user.login_failed': 'Sign-in failed',
  'user.recovery_codes_renewed': 'Recovery codes renewed',
  'user.totp_disabled': 'Authenticator app turned off',
  'user.totp_enabled': 'Authenticator app set up',
  'webhook.tested': 'Test event sent to a webhook',
}

const RESOURCES: Readonly<Record<string, string>> = {
  api_key: 'API key',
  signup_form: 'Sign-up form',
  sub_account: 'Sub-account',
}

export const toResourceWord = (type: string): string => RESOURCES[type] ?? toWords(type)

/** What was done. An unknown action is read from its name: "template.updated" is "Template updated". */
export function toActionWords(action: string): string {
  const known = ACTIONS[action]
  if (known !== undefined) return known
  const [resource = '', ...verb] = action.split('.')
  return `${toResourceWord(resource)} ${verb.join(' ').replaceAll('_', ' ')}`.trim()
}

export function toActorWords({
  actor_type: type,
  actor_id: id,
  actor_name: name,
}: Pick<AuditLog, 'actor_type' | 'actor_id' | 'actor_name'>): string {
  if (id === 'stripe') return 'Payment provider'
  if (id === 'erased') return type === 'user' ? 'An erased user' : 'An erased key'
  if (type === 'api_key') return name ? `API key ${name}` : 'A deleted key'
  return name ?? 'A former member'
}

const toValueWords = (value: unknown): string => {
  if (value === null || value === undefined || value === '') return 'nothing'
  if (typeof value === 'boolean') return value ? 'on' : 'off'
  if (Array.isArray(value)) return value.length === 0 ? 'nothing' : value.map(toValueWords).join(', ')
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** `name: Receipts → Invoices`, one for each field. */
export const listChanges = ({ changes }: Pick<AuditLog, 'changes'>): string[] =>
  changes.map(({ field, from, to }) => `${field.replaceAll('_', ' ')}: ${toValueWords(from)} → ${toValueWords(to)}`)

const SCREENS: Readonly<Record<string, (params: { readonly id: string }) => Target>> = {
  api_key: (params) => linkOptions({ to: '/keys/$id', params }),
  contact_list: (params) => linkOptions({ to: '/audience/lists/$id', params }),
  domain: (params) => linkOptions({ to: '/domains/$id', params }),
  email: (params) => linkOptions({ to: '/emails/$id', params }),
  signup_form: (params) => linkOptions({ to: '/audience/forms/$id', params }),
  stream: (params) => linkOptions({ to: '/settings/streams/$id', params }),
  template: (params) => linkOptions({ to: '/templates/$id', params }),
  webhook: (params) => linkOptions({ to: '/webhooks/$id', params }),
}

/** The screen of what an entry is about; undefined: it has none, or it exists no more. */
export const findResourceScreen = ({
  resource_type: type,
  resource_id: id,
  resource_exists: exists,
}: Pick<AuditLog, 'resource_type' | 'resource_id' | 'resource_exists'>): Target | undefined =>
  id !== null && exists === true ? SCREENS[type ?? '']?.({ id }) : undefined

export function listDetails(metadata: unknown): (readonly [name: string, value: string])[] {
  if (metadata === null || metadata === undefined) return []
  if (typeof metadata !== 'object') return [['details', String(metadata)]]
  return Object.entries(metadata).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : JSON.stringify(value),
  ])
}

/** The first that is found counts: browsers also name those that they descend from. */
const BROWSERS: readonly (readonly [pattern: RegExp, word: string])[] = [
  [/\bEdgA?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(Firefox|FxiOS)\//, 'Firefox'],
  [/\b(Chrome|CriOS|HeadlessChrome|Chromium)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
  [/^curl\//, 'curl'],
]

const SYSTEMS: readonly (readonly [pattern: RegExp, word: string])[] = [
  [/\b(iPhone|iPad|iPod)\b/, 'iOS'],
  [/\bAndroid\b/, 'Android'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bLinux\b/, 'Linux'],
]

const findWord = (words: typeof BROWSERS, text: string): string | undefined =>
  words.find(([pattern]) => pattern.test(text))?.[1]

/** Such as "Firefox on Linux"; the text itself when nothing of it is known. */
export function toBrowserWords(userAgent: string | null): string {
  if (userAgent === null || userAgent.trim() === '') return 'Unknown browser'
  const browser = findWord(BROWSERS, userAgent)
  const system = findWord(SYSTEMS, userAgent)
  if (browser === undefined) return system === undefined ? userAgent : `Unknown browser on ${system}`
  return system === undefined ? browser : `${browser} on ${system}`
}
