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
import { findStreamId } from '#features/setup/streams/streams.ts'
import { COMPLAINT, HARD_BOUNCE, UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import { isMarketingStream, toSlug } from '#features/webhooks/webhooks/payload/postmark.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { streamJson } from '#platform/http/download.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { type Call, createFieldReader, isInTime, on, readTimes } from './route.ts'

/** Rows read at a time: about 1 ms. */
const BATCH_SIZE = 250
/** As in Postmark. */
const MAX_CHANGES = 50
const FORM = 'The body must be {"Suppressions": [{"EmailAddress": "a@example.com"}]}.'
const readEntries = createFieldReader(['Suppressions'], FORM)
const readEntry = createFieldReader(['EmailAddress'], FORM)

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

/** The slug of the stream in the path. Throws `stream_not_found`. */
function requireSlug({ app, accountId, id }: Call): string {
  const slug = toSlug(id)
  if (findStreamId(app.db, accountId, slug) === undefined)
    throw invalid(
      'stream',
      `There is no stream "${id.slice(0, 63)}" on this account; POST /v1/streams creates one.`,
      'stream_not_found',
    )
  return slug
}

/** Creates the condition of a list. */
function createFilter(call: Call): (row: Suppression) => boolean {
  const slug = requireSlug(call)
  const times = readTimes(call, 'validation_failed')
  const isOfStream = ({ reason, stream, listUuid }: Suppression): boolean =>
    reason !== UNSUBSCRIBE ||
    (listUuid === null && (stream === slug || (stream === null && isMarketingStream(call.id))))
  const is = (name: string, value: string) => (call.read(name) ?? value).toLowerCase() === value.toLowerCase()
  return (row) => {
    const { SuppressionReason, Origin, EmailAddress } = toEntry(row)
    return (
      isOfStream(row) &&
      is('suppressionreason', SuppressionReason) &&
      is('origin', Origin) &&
      is('emailaddress', EmailAddress) &&
      isInTime(row.createdAt, times)
    )
  }
}

/** The JSON of all entries of a stream. Errors come before the first piece. */
function dumpSuppressions(call: Call): Response {
  const { app, accountId, request } = call
  const isListed = createFilter(call)
  const pieces = function* () {
    let separator = '{"Suppressions":['
    for (let after: number | undefined = 0; after !== undefined; ) {
      const rows = listSuppressionsAfter(app.db, accountId, after, BATCH_SIZE)
      const texts = rows.filter(isListed).map((row) => JSON.stringify(toEntry(row)))
      yield texts.length === 0 ? '' : separator + texts.join()
      if (texts.length > 0) separator = ','
      after = rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id
    }
    yield separator === ',' ? ']}' : `${separator}]}`
  }
  return streamJson(app, request, pieces(), { filename: 'suppressions.json', onEnded: () => undefined })
}

/** Changes the list for each address of a request, one after the other. */
async function changeEach<Status extends 'Suppressed' | 'Deleted'>(
  call: Call,
  status: Status,
  change: (address: string) => Promise<unknown>,
) {
  const { body, ignored } = call
  requireSlug(call)
  const { Suppressions: entries } = readEntries(body, ignored)
  if (!Array.isArray(entries)) throw invalid('body', FORM, 'incompatible_json')
  if (entries.length > MAX_CHANGES)
    throw invalid('Suppressions', `A request has at most ${MAX_CHANGES} addresses; this one has ${entries.length}.`)
  const Suppressions: { EmailAddress: string; Status: Status | 'Failed'; Message: string }[] = []
  for (const entry of entries.map((given) => readEntry(given, ignored, 'Suppressions.'))) {
    const EmailAddress = typeof entry['EmailAddress'] === 'string' ? entry['EmailAddress'] : ''
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
export function createSuppressions(call: Call) {
  const reason = isMarketingStream(call.id) ? UNSUBSCRIBE : null
  return changeEach(call, 'Suppressed', (address) => addSuppression(call.app, call.actor, { address, reason }))
}

/** Removes addresses from the list, for all streams. */
const deleteSuppressions = (call: Call) =>
  changeEach(call, 'Deleted', (address) => removeSuppression(call.app, call.actor, address))

const PATH = '/message-streams/:id/suppressions'

export const suppressionRoutes = [
  on(`GET ${PATH}/dump`, 'suppressions:read', dumpSuppressions),
  on(`POST ${PATH}`, 'suppressions:write', createSuppressions),
  on(`POST ${PATH}/delete`, 'suppressions:write', deleteSuppressions),
]
