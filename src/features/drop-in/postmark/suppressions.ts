/**
 * @module The suppression list in Postmark's form, by message stream. An address that is suppressed in our list for all
 * mail is in each stream; an unsubscription is only in streams of mail that one can unsubscribe from.
 */

import {
  addSuppression,
  listSuppressionsAfter,
  removeSuppression,
  type Suppression,
} from '#features/audience/suppressions/suppressions.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { COMPLAINT, HARD_BOUNCE, UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import { isMarketingStream, toSlug } from '#features/webhooks/webhooks/payload/postmark.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { createFieldReader, createQueryReader, isInTime, type Query, readTimes } from './fields.ts'

/** Rows read at a time: about 1 ms. */
const BATCH_SIZE = 250
/** As in Postmark. */
const MAX_CHANGES = 50
const readEntries = createFieldReader(['Suppressions'])
const readEntry = createFieldReader(['EmailAddress'])

export type SuppressionEntry = ReturnType<typeof toEntry>

const REASONS: ReadonlyMap<string, 'HardBounce' | 'SpamComplaint'> = new Map([
  [HARD_BOUNCE, 'HardBounce'],
  [COMPLAINT, 'SpamComplaint'],
])

const toEntry = ({ address, reason, createdAt }: Suppression) => ({
  EmailAddress: address,
  SuppressionReason: REASONS.get(reason) ?? ('ManualSuppression' as const),
  Origin: REASONS.has(reason) || reason === UNSUBSCRIBE ? ('Recipient' as const) : ('Customer' as const),
  CreatedAt: isoTime(createdAt),
})

/** The slug of a stream of the account. Throws `stream_not_found`. */
export function requireSlug(app: App, accountId: number, stream: string): string {
  const slug = toSlug(stream)
  if (findStreamId(app.db, accountId, slug) === undefined)
    throw invalid(
      'stream',
      `There is no stream "${stream.slice(0, 63)}" on this account; POST /v1/streams creates one.`,
      'stream_not_found',
    )
  return slug
}

export function* dumpSuppressions(
  app: App,
  accountId: number,
  stream: string,
  query: Query,
): Generator<string, void, undefined> {
  const read = createQueryReader(query)
  const [reason, origin, email] = [read('suppressionreason'), read('origin'), read('emailaddress')?.toLowerCase()]
  const times = readTimes(read, 'validation_failed')
  const slug = requireSlug(app, accountId, stream)
  const isOfStream = ({ reason, stream: of, listUuid }: Suppression): boolean =>
    reason !== UNSUBSCRIBE || (listUuid === null && (of === slug || (of === null && isMarketingStream(stream))))
  const isListed = (row: Suppression, entry: SuppressionEntry): boolean =>
    isOfStream(row) &&
    (reason === undefined || entry.SuppressionReason.toLowerCase() === reason.toLowerCase()) &&
    (origin === undefined || entry.Origin.toLowerCase() === origin.toLowerCase()) &&
    (email === undefined || entry.EmailAddress.toLowerCase() === email) &&
    isInTime(row.createdAt, times)
  yield '{"Suppressions":['
  let isFirst = true
  for (let after: number | undefined = 0; after !== undefined; ) {
    const rows = listSuppressionsAfter(app.db, accountId, after, BATCH_SIZE)
    const texts = rows.flatMap((row) => {
      const entry = toEntry(row)
      return isListed(row, entry) ? [JSON.stringify(entry)] : []
    })
    yield texts.length === 0 ? '' : `${isFirst ? '' : ','}${texts.join(',')}`
    if (texts.length > 0) isFirst = false
    after = rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id
  }
  yield ']}'
}

interface SuppressionStatus {
  readonly EmailAddress: string
  readonly Status: 'Suppressed' | 'Deleted' | 'Failed'
  readonly Message: string
}

/** The addresses of a request. Throws a 422 for another form and for too many. */
function readAddresses(body: unknown, ignored: Set<string>): string[] {
  const entries = isJsonObject(body) ? readEntries(body, ignored)['Suppressions'] : undefined
  if (!Array.isArray(entries))
    throw invalid(
      'body',
      'The body must be {"Suppressions": [{"EmailAddress": "a@example.com"}]}.',
      'incompatible_json',
    )
  if (entries.length > MAX_CHANGES)
    throw invalid('Suppressions', `A request has at most ${MAX_CHANGES} addresses; this one has ${entries.length}.`)
  return entries.map((entry: unknown) => {
    const address = isJsonObject(entry) ? readEntry(entry, ignored, 'Suppressions.')['EmailAddress'] : undefined
    return typeof address === 'string' ? address : ''
  })
}

/** Changes the list for each address of a request, one after the other. */
async function changeEach(
  body: unknown,
  status: SuppressionStatus['Status'],
  ignored: Set<string>,
  change: (address: string) => Promise<unknown>,
): Promise<{ Suppressions: SuppressionStatus[] }> {
  const Suppressions: SuppressionStatus[] = []
  for (const EmailAddress of readAddresses(body, ignored)) {
    try {
      await change(EmailAddress)
      Suppressions.push({ EmailAddress, Status: status, Message: '' })
    } catch (error) {
      if (!(error instanceof AppError && error.status < 500)) throw error
      Suppressions.push({ EmailAddress, Status: 'Failed', Message: error.message })
    }
  }
  return { Suppressions }
}

/**
 * Suppresses addresses. In the stream of broadcasts they get no mail any more that one can unsubscribe from; in any
 * other stream they get none at all, since our list has no narrower form for mail that is transactional.
 */
export function createSuppressions(app: App, actor: Actor, stream: string, body: unknown, ignored: Set<string>) {
  requireSlug(app, actor.accountId, stream)
  const reason = isMarketingStream(stream) ? UNSUBSCRIBE : null
  return changeEach(body, 'Suppressed', ignored, (address) => addSuppression(app, actor, { address, reason }))
}

/** Removes addresses from the list, for all streams. */
export function deleteSuppressions(app: App, actor: Actor, stream: string, body: unknown, ignored: Set<string>) {
  requireSlug(app, actor.accountId, stream)
  return changeEach(body, 'Deleted', ignored, (address) => removeSuppression(app, actor, address))
}
