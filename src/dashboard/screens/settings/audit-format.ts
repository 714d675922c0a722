/** @module Entries of the audit log in words: who, what, to which thing. */
import type { AuditLog } from '#client/api.ts'

export interface KnownActors {
  readonly users: ReadonlyMap<string, string>
  /** Names of API keys, by id; empty for roles that may not see them. */
  readonly keys: ReadonlyMap<string, string>
}

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

const toCapital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

export const toResourceWord = (type: string): string => RESOURCES[type] ?? toCapital(type.replaceAll('_', ' '))

/** What was done. An unknown action is read from its name: "template.updated" is "Template updated". */
export function toActionWords(action: string): string {
  const known = ACTIONS[action]
  if (known !== undefined) return known
  const [resource = '', ...verb] = action.split('.')
  return `${toResourceWord(resource)} ${verb.join(' ').replaceAll('_', ' ')}`.trim()
}

/** Fields of the metadata by which people know a thing, the best first. */
const NAME_FIELDS = ['name', 'domain', 'email', 'email_address', 'address', 'slug', 'subject', 'url'] as const

/** What people know the changed thing by; undefined when the entry does not say. */
export function findResourceName(
  { metadata, resource_id: id }: Pick<AuditLog, 'metadata' | 'resource_id'>,
  { users, keys }: KnownActors,
): string | undefined {
  const fields: Readonly<Record<string, unknown>> = typeof metadata === 'object' ? { ...metadata } : {}
  for (const name of NAME_FIELDS) {
    const value = fields[name]
    if (typeof value === 'string' && value !== '') return value
  }
  return id === null ? undefined : (users.get(id) ?? keys.get(id))
}

const SERVICE_ACTORS: Readonly<Record<string, string>> = {
  stripe: 'The payment provider',
  system: 'The service, or somebody who was not signed in',
}

export function toActorWords(
  { actor_type: type, actor_id: id }: Pick<AuditLog, 'actor_type' | 'actor_id'>,
  { users, keys }: KnownActors,
): string {
  if (type === 'operator') return 'The operator of this server'
  if (type === 'system') return SERVICE_ACTORS[id] ?? 'The service'
  if (id === 'erased') return type === 'user' ? 'A user whose data was erased' : 'An API key (erased)'
  if (type === 'user') return users.get(id) ?? `A former member (${id})`
  if (type === 'api_key') return `API key ${keys.get(id) ?? id}`
  return `${type} ${id}`
}

export function listDetails(metadata: unknown): (readonly [name: string, value: string])[] {
  if (metadata === null || metadata === undefined) return []
  if (typeof metadata !== 'object') return [['details', String(metadata)]]
  return Object.entries(metadata).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : JSON.stringify(value),
  ])
}
