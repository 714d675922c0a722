/**
 * @module Bounces, complaints and unsubscriptions: the entries with that reason in the suppression list of the account,
 * whatever the domain in the path.
 */
import {
  addSuppression,
  listSuppressions,
  listSuppressionsAfter,
  parseSuppressedAddress,
  removeSuppression,
  type Suppression,
} from '#features/audience/suppressions/suppressions.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { COMPLAINT, HARD_BOUNCE, UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { parseQueryInteger } from '#platform/http/schemas.ts'
import { isJsonObject } from '#platform/json-object.ts'

/** Of a page, and of the addresses of a request. */
const MAX_ENTRIES = 1000
const DEFAULT_LIMIT = 100
/** Rows removed at a time. */
const BATCH_SIZE = 250

const REASONS = { bounces: HARD_BOUNCE, complaints: COMPLAINT, unsubscribes: UNSUBSCRIBE } as const
export type ListName = keyof typeof REASONS
export const LIST_NAMES = Object.keys(REASONS) as readonly ListName[]

const toEntry = (list: ListName, { address, createdAt }: Suppression) => ({
  ...{ address, created_at: new Date(createdAt).toUTCString().replace('GMT', 'UTC') },
  ...(list === 'bounces' && { code: '550', error: '' }),
  ...(list === 'unsubscribes' && { tags: ['*'] }),
})

type Query = Readonly<Record<string, string | undefined>>

/** A page, oldest first, after or before the row `pivot`. @param url of the list, without a query */
export function listEntries({ db }: App, accountId: number, list: ListName, query: Query, url: string) {
  const number = (name: string, fallback: number, minimum: number, maximum: number) =>
    parseQueryInteger(name, query[name], { fallback, minimum, maximum })
  const limit = number('limit', DEFAULT_LIMIT, 1, MAX_ENTRIES)
  const pivot = number('pivot', 0, 0, Number.MAX_SAFE_INTEGER)
  const reason = REASONS[list]
  const window = { limit, offset: 0, ...(pivot > 0 && { after: [pivot] }) }
  const rows = /^(?:previous|last)$/.test(query['page'] ?? '')
    ? listSuppressions(db, accountId, { reason }, window).suppressions.toReversed()
    : listSuppressionsAfter(db, accountId, pivot, limit, reason)
  const toUrl = (page: string, { address, id }: Partial<Suppression> = {}) =>
    `${url}?${new URLSearchParams({ page, limit: String(limit), address: address ?? '', pivot: String(id ?? 0) })}`
  return {
    items: rows.map((row) => toEntry(list, row)),
    paging: {
      ...{ first: toUrl('first'), last: toUrl('last') },
      ...{ next: toUrl('next', rows.at(-1) ?? { id: pivot }), previous: toUrl('previous', rows[0] ?? { id: pivot }) },
    },
  }
}

export function getEntry({ db }: App, accountId: number, list: ListName, address: string) {
  const { suppressions } = listSuppressions(db, accountId, { reason: REASONS[list], address }, { limit: 1, offset: 0 })
  if (!suppressions[0]) throw notFound('suppression_not_found', `Address not found in ${list} table`)
  return toEntry(list, suppressions[0])
}

/** Adds the address of a form or those of a JSON array. All are checked before the first is added. */
export async function addEntries(app: App, actor: Actor, list: ListName, body: unknown, ignored: Set<string>) {
  const entries = Array.isArray(body) ? body : [body]
  if (entries.length > MAX_ENTRIES) throw invalid('address', `A request has at most ${MAX_ENTRIES} addresses.`)
  const addresses = entries.map((entry: unknown) => {
    const { address, ...others } = isJsonObject(entry) ? entry : {}
    const listed = parseSuppressedAddress(typeof address === 'string' ? address : '')
    if ('reason' in listed) throw invalid('address', `address: ${listed.reason}`, 'invalid_address')
    for (const name of Object.keys(others)) ignored.add(name)
    return listed.address
  })
  await Promise.all(addresses.map((address) => addSuppression(app, actor, { address, reason: REASONS[list] })))
  const [address] = addresses
  return addresses.length === 1
    ? { message: `Address has been added to the ${list} table`, address }
    : { message: `${addresses.length} addresses have been added to the ${list} table` }
}

export async function removeEntry(app: App, actor: Actor, list: ListName, given: string) {
  const { address } = getEntry(app, actor.accountId, list, given)
  await removeSuppression(app, actor, given, REASONS[list])
  return { message: 'The address has been removed', value: address, address }
}

export async function removeAllEntries(app: App, actor: Actor, list: ListName) {
  for (;;) {
    const rows = listSuppressionsAfter(app.db, actor.accountId, 0, BATCH_SIZE, REASONS[list])
    if (rows.length === 0) return { message: `All ${list} have been removed` }
    await Promise.all(rows.map(({ address }) => removeSuppression(app, actor, address, REASONS[list])))
  }
}
