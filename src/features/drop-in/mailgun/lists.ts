/**
 * @module Bounces, complaints and unsubscriptions: the entries with that reason in the suppression list of the account,
 * whatever the domain in the path. Whole lists are not removed, as they have the entries of all domains.
 */
import * as suppressions from '#features/audience/suppressions/suppressions.ts'
import { COMPLAINT, HARD_BOUNCE, UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { parseQueryInteger } from '#platform/http/schemas.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { type Call, on } from './route.ts'

/** Of a page, and of the addresses of a request. */
const MAX_ENTRIES = 1000
const DEFAULT_LIMIT = 100

const REASONS = { bounces: HARD_BOUNCE, complaints: COMPLAINT, unsubscribes: UNSUBSCRIBE } as const
type ListName = keyof typeof REASONS

const READS = 'suppressions:read'
const WRITES = 'suppressions:write'

export const listRoutes = (Object.keys(REASONS) as ListName[]).flatMap((list) => {
  const path = `/v3/:domain/${list}`
  return [
    on(`GET ${path}`, READS, (call) => listEntries(call, list)),
    on(`GET ${path}/:name`, READS, (call) => getEntry(call, list)),
    on(`POST ${path}`, WRITES, (call) => addEntries(call, list)),
    on(`DELETE ${path}/:name`, WRITES, async (call) => {
      const { address } = getEntry(call, list)
      await suppressions.removeSuppression(call.app, call.actor, address, REASONS[list])
      return { message: 'The address has been removed', value: address, address }
    }),
  ]
})

const toEntry = (list: ListName, { address, createdAt }: suppressions.Suppression) => ({
  ...{ address, created_at: new Date(createdAt).toUTCString().replace('GMT', 'UTC') },
  ...(list === 'bounces' && { code: '550', error: '' }),
  ...(list === 'unsubscribes' && { tags: ['*'] }),
})

/** A page, oldest first, after or before the row `pivot`. */
function listEntries({ app: { db }, actor: { accountId }, query, url }: Call, list: ListName) {
  const number = (name: string, fallback: number, minimum: number, maximum: number) =>
    parseQueryInteger(name, query[name], { fallback, minimum, maximum })
  const limit = number('limit', DEFAULT_LIMIT, 1, MAX_ENTRIES)
  const pivot = number('pivot', 0, 0, Number.MAX_SAFE_INTEGER)
  const reason = REASONS[list]
  const window = { limit, offset: 0, ...(pivot > 0 && { after: [pivot] }) }
  const rows = /^(?:previous|last)$/.test(query['page'] ?? '')
    ? suppressions.listSuppressions(db, accountId, { reason }, window).suppressions.toReversed()
    : suppressions.listSuppressionsAfter(db, accountId, pivot, limit, reason)
  // Clients read the name of the page from its URL, and some of them an address.
  const toUrl = (page: string, { address = '', id = 0 }: Partial<suppressions.Suppression> = {}) =>
    `${url}?${new URLSearchParams({ page, limit: String(limit), address, pivot: String(id) })}`
  return {
    items: rows.map((row) => toEntry(list, row)),
    paging: {
      ...{ first: toUrl('first'), last: toUrl('last') },
      ...{ next: toUrl('next', rows.at(-1) ?? { id: pivot }), previous: toUrl('previous', rows[0] ?? { id: pivot }) },
    },
  }
}

function getEntry({ app: { db }, actor: { accountId }, name: address = '' }: Call, list: ListName) {
  const filter = { reason: REASONS[list], address }
  const [found] = suppressions.listSuppressions(db, accountId, filter, { limit: 1, offset: 0 }).suppressions
  if (!found) throw notFound('suppression_not_found', `Address not found in ${list} table`)
  return toEntry(list, found)
}

/** Adds the address of a form or those of a JSON array. All are checked before the first is added. */
async function addEntries({ app, actor, body, ignored }: Call, list: ListName) {
  const entries = Array.isArray(body) ? body : [body]
  if (entries.length > MAX_ENTRIES) throw invalid('address', `A request has at most ${MAX_ENTRIES} addresses.`)
  const addresses = entries.map((entry: unknown) => {
    const { address, ...others } = isJsonObject(entry) ? entry : {}
    const listed = suppressions.parseSuppressedAddress(typeof address === 'string' ? address : '')
    if ('reason' in listed) throw invalid('address', `address: ${listed.reason}`, 'invalid_address')
    for (const name of Object.keys(others)) ignored.add(name)
    return listed.address
  })
  const reason = REASONS[list]
  await Promise.all(addresses.map((address) => suppressions.addSuppression(app, actor, { address, reason })))
  const [address] = addresses
  return addresses.length === 1
    ? { message: `Address has been added to the ${list} table`, address }
    : { message: `${addresses.length} addresses have been added to the ${list} table` }
}
