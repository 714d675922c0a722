/** @module Lists the scopes and which scope implies which. */
import type { Actor } from '#features/core/app/app.ts'
import { insufficientScope } from '#platform/http/error-response.ts'

const RESOURCES = [
  'domains',
  'templates',
  'webhooks',
  'suppressions',
  'contacts',
  'inbound',
  'analytics',
  'mailboxes',
] as const

/** A scope by its name. */
export type Scope =
  | 'emails:send'
  | 'emails:read'
  | 'drafts:release'
  | `${(typeof RESOURCES)[number]}:${'read' | 'write'}`
  | 'sub_accounts:manage'
  | 'account:read'
  | 'account:admin'

const ALL_SCOPES: readonly Scope[] = [
  'emails:send',
  'emails:read',
  ...RESOURCES.flatMap((resource) => [`${resource}:read`, `${resource}:write`] as const),
  'sub_accounts:manage',
  'account:read',
  'account:admin',
  'drafts:release',
]

/**
 * What a key may have whose sends are restricted: nothing by which it could lift its restriction, release its drafts,
 * have mail sent for it, or read mail to the people of the account.
 */
export const RESTRICTED_SCOPES: readonly string[] =
  'emails:send emails:read mailboxes:read mailboxes:write domains:read templates:read suppressions:read contacts:read analytics:read webhooks:read'.split(
    ' ',
  )

/** Of these, what a key for one mailbox may have. */
export const MAILBOX_SCOPES: readonly string[] = ['emails:send', 'mailboxes:read', 'mailboxes:write']

/** All scopes, compared with text from requests. */
export const SCOPES: readonly string[] = ALL_SCOPES

/** Implies every other scope. */
export const ADMIN_SCOPE = 'account:admin'

export const hasScope = (scopes: ReadonlySet<string>, scope: string): boolean =>
  scopes.has(scope) || scopes.has(ADMIN_SCOPE)

/** Whether the actor may read what the account's mail contains; the role support, which has no scope, may not. */
export const mayReadContent = ({ scopes }: Pick<Actor, 'scopes'>): boolean => hasScope(scopes, 'emails:read')

/**
 * Throws 403 `insufficient_scope` unless the actor has a scope that this request needs beyond the scope of its route.
 * @param purpose ends the sentence "which is needed …"
 */
export function requireScope({ scopes }: Actor, scope: string, purpose: string): void {
  if (!hasScope(scopes, scope)) throw insufficientScope(scope, purpose)
}
