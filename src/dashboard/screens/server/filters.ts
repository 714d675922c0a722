/** @module The filters in the URLs of the operator's screens; the routes add the page. */
import { keep, readKnown, readText, type Search } from '../../parts/search.ts'

export const ACCOUNT_STATES = ['active', 'paused', 'disabled'] as const
export type AccountState = (typeof ACCOUNT_STATES)[number]

export const MAIL_KINDS = ['postmaster', 'abuse', 'bounce', 'complaint', 'unsubscribe', 'report', 'other'] as const

export const parseQueueFilters = (search: Search) => ({
  ...keep('domain', readText(search['domain'])),
  ...keep('account', readText(search['account'])),
  ...keep('lane', readText(search['lane'])),
})

export const parseUnparsedFilters = (search: Search) => ({
  ...keep('after', /^\d{1,15}-\d{1,15}$/.exec(readText(search['after']) ?? '')?.[0]),
})

export const parseAccountFilters = (search: Search) => ({
  ...keep('q', readText(search['q'])),
  ...keep('state', readKnown(ACCOUNT_STATES, search['state'])),
})

export const toAccountQuery = ({ page, account }: { readonly page?: number; readonly account?: string }) => ({
  page,
  account_id: account,
})

export const parseMailFilters = (search: Search) => ({
  ...keep('kind', readKnown(MAIL_KINDS, search['kind'])),
})

export const parseSettingFilters = (search: Search) => ({
  ...keep('q', readText(search['q'])),
  ...keep('set', search['set'] === true || search['set'] === 'true' ? true : undefined),
})
