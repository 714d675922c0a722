/** @module What each scope allows, in plain words; and common choices of scopes. `analytics:write` allows nothing yet. */
import { toWords } from './fields.ts'

export const SCOPE_TEXTS = {
  'emails:send':
    'Send, cancel and repeat emails, change streams; broadcasts and newsletters also need to read contacts',
  'emails:read': 'Read emails with their content, events and captured mail; validate addresses',
  'drafts:release': 'Release drafts: emails of keys and mailboxes that must ask a person',
  'domains:read': 'See domains and their DNS records',
  'domains:write': 'Add, verify, change and delete domains',
  'templates:read': 'Read templates',
  'templates:write': 'Create, change and delete templates',
  'webhooks:read': 'See webhooks and their deliveries',
  'webhooks:write': 'Create, change, replay and delete webhooks',
  'suppressions:read': 'Read and export the suppression list',
  'suppressions:write': 'Add, import and remove suppressed addresses',
  'contacts:read': 'Read contact lists, contacts, forms and newsletters',
  'contacts:write': 'Change contact lists, contacts, forms and newsletters',
  'inbound:read': 'Read received emails and inbound routes',
  'inbound:write': 'Change inbound routes, delete received emails',
  'analytics:read': 'Read the stats of the account',
  'mailboxes:read': 'Read agent mailboxes and their messages',
  'mailboxes:write': 'Change agent mailboxes and label messages; replies also need to send emails',
  'sub_accounts:manage': 'Create, change and delete sub-accounts and read their stats',
  'account:read': 'Read the account, its team, subscription and audit log',
  'account:admin':
    'Do everything above, and alone: API keys, team, settings, insights, billing, export and deletion of the account',
} as const

type Scope = keyof typeof SCOPE_TEXTS

export const ALL_SCOPES = Object.keys(SCOPE_TEXTS) as readonly Scope[]

/** Implies every other scope. */
export const ADMIN_SCOPE: Scope = 'account:admin'

/** Of the areas whose label is not their name. */
const GROUP_LABELS: Readonly<Record<string, string>> = {
  contacts: 'Audience',
  inbound: 'Inbound mail',
  mailboxes: 'Agent mailboxes',
  sub_accounts: 'Sub-accounts',
}

const areaOf = (scope: Scope): string => scope.slice(0, scope.indexOf(':'))

export const SCOPE_GROUPS = [...new Set(ALL_SCOPES.map(areaOf))].map((area) => ({
  label: GROUP_LABELS[area] ?? toWords(area),
  scopes: ALL_SCOPES.filter((scope) => areaOf(scope) === area),
}))

interface ScopePreset {
  readonly label: string
  readonly text: string
  readonly scopes: readonly Scope[]
}

const SENDING: ScopePreset = { label: 'Sending', text: 'Send, cancel and repeat emails.', scopes: ['emails:send'] }
const FULL_ACCESS: ScopePreset = {
  label: 'Full access',
  text: 'Everything, also keys, team and settings.',
  scopes: ALL_SCOPES,
}
export const SCOPE_PRESETS: readonly ScopePreset[] = [SENDING, FULL_ACCESS]

const isSame = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((scope) => b.includes(scope))

/** The preset with exactly these scopes; `account:admin` is full access. */
export const findPreset = (scopes: readonly string[]): ScopePreset | undefined =>
  scopes.includes(ADMIN_SCOPE) ? FULL_ACCESS : SCOPE_PRESETS.find((preset) => isSame(preset.scopes, scopes))

/** Scopes in a few words: "Sending", or their names. */
export function summariseScopes(scopes: readonly string[]): string {
  const preset = findPreset(scopes)
  if (preset) return preset.label
  const shown = scopes.slice(0, 3).join(', ')
  return scopes.length > 3 ? `${shown} and ${scopes.length - 3} more` : shown || 'Nothing'
}
