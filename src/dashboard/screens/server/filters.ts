/** @module The filters in the URLs of the operator's screens; the routes add the page. */
type Search = Readonly<Record<string, unknown>>

const MAX_LENGTH = 320

export const ACCOUNT_STATES = ['active', 'paused', 'disabled'] as const
export type AccountState = (typeof ACCOUNT_STATES)[number]

export const MAIL_KINDS = ['postmaster', 'abuse', 'bounce', 'complaint', 'unsubscribe', 'report', 'other'] as const
export type MailKind = (typeof MAIL_KINDS)[number]

/** A text of the query; undefined when it is empty. The router reads numbers and such as values of their types. */
function readText(search: Search, name: string): string | undefined {
  const value = search[name]
  const text = typeof value === 'string' ? value : typeof value === 'number' ? String(value) : ''
  return text.trim() === '' ? undefined : text.trim().slice(0, MAX_LENGTH)
}

const keep = <Name extends string, Value>(name: Name, value: Value | undefined): { readonly [K in Name]?: Value } =>
  (value === undefined ? {} : { [name]: value }) as { readonly [K in Name]?: Value }

export const parseQueueFilters = (search: Search) => ({
  ...keep('domain', readText(search, 'domain')),
  ...keep('account', readText(search, 'account')),
  ...keep('lane', readText(search, 'lane')),
})

export const parseProviderFilters = (search: Search) => ({
  ...keep('provider', readText(search, 'provider')),
})

export const parseUnparsedFilters = (search: Search) => ({
  ...keep('after', /^\d{1,15}-\d{1,15}$/.exec(readText(search, 'after') ?? '')?.[0]),
})

export const parseAccountFilters = (search: Search) => ({
  ...keep('q', readText(search, 'q')),
  ...keep(
    'state',
    ACCOUNT_STATES.find((state) => state === search['state']),
  ),
})

export const parseOfAccount = (search: Search) => ({
  ...keep('account', readText(search, 'account')),
})

export const parseReportFilters = (search: Search) => ({
  ...keep('domain', readText(search, 'domain')),
})

export const parseMailFilters = (search: Search) => ({
  ...keep(
    'kind',
    MAIL_KINDS.find((kind) => kind === search['kind']),
  ),
})

export const parseSettingFilters = (search: Search) => ({
  ...keep('q', readText(search, 'q')),
  ...keep('set', search['set'] === true || search['set'] === 'true' ? true : undefined),
})
