/** @module The names of scopes and what implies what. */

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

export const SCOPES: readonly string[] = [
  'emails:send',
  'emails:read',
  ...RESOURCES.flatMap((resource) => [`${resource}:read`, `${resource}:write`]),
  'sub_accounts:manage',
  'account:read',
  'account:admin',
]

/** Implies every other scope. */
export const ADMIN_SCOPE = 'account:admin'

export const hasScope = (scopes: ReadonlySet<string>, scope: string): boolean =>
  scopes.has(scope) || scopes.has(ADMIN_SCOPE)
