/**
 * @module The suppression list: add, read, list, remove, one address or many. The ids of this interface are sealed row
 * ids, because suppressions are not found by their public id.
 */
import * as list from '#features/audience/suppressions/suppressions.ts'
import type { App } from '#features/core/app/app.ts'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import { openSealedToken, sealedTokenLength, sealToken } from '#platform/crypto/sealed-token.ts'
import { encodeVarint, MAX_VARINT_BYTES } from '#platform/crypto/token-bytes.ts'
import type { RowWindow } from '#platform/db/open.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { OptionalNullable } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { Fields, on, takes } from '../dialects/routes.ts'
import { missingField } from './dialect.ts'
import { readPage, TEXT, TEXTS } from './route.ts'

const READS = 'suppressions:read'
const WRITES = 'suppressions:write'

const ADDED = Fields({ email: TEXT })
const ALL_ADDED = Fields({ emails: TEXTS })
const ALL_REMOVED = Fields({ emails: OptionalNullable(TEXTS), ids: OptionalNullable(TEXTS) })

export const suppressionRoutes = [
  on('GET /suppressions', READS, ({ app, accountId, query }) => {
    const reason = parseOrigin(query['origin'])
    const source = {
      find: (id: string) => findById(app, accountId, id),
      listBelow: (window: RowWindow) => list.listSuppressions(app.db, accountId, { reason }, window).suppressions,
      listAbove: ({ id }: list.Suppression, limit: number) =>
        list.listSuppressionsAfter(app.db, accountId, id, limit, reason).toReversed(),
    }
    return readPage(query, source, (suppression) => toListedSuppression(app.keys, suppression))
  }),
  takes('POST /suppressions', WRITES, ADDED, async ({ app, actor, body }) =>
    toReference(app.keys, await list.addSuppression(app, actor, { address: body.email })),
  ),
  takes('POST /suppressions/batch/add', WRITES, ALL_ADDED, async ({ app, actor, body: { emails } }) => {
    // All are checked before the first is added.
    for (const [index, email] of emails.entries()) {
      const listed = list.parseSuppressedAddress(email)
      if ('reason' in listed) throw invalid(`emails.${index}`, `emails.${index}: ${listed.reason}`, 'invalid_address')
    }
    const added = await Promise.all(emails.map((address) => list.addSuppression(app, actor, { address })))
    return { data: added.map((suppression) => toReference(app.keys, suppression)) }
  }),
  takes('POST /suppressions/batch/remove', WRITES, ALL_REMOVED, async ({ app, actor, accountId, body }) => {
    const names = body.emails ?? body.ids
    if (!names) throw missingField('emails')
    if (body.emails && body.ids) throw invalid('ids', 'emails and ids cannot be combined; set only one of them.')
    const data = await Promise.all(
      names.map(async (name) => {
        const found = findSuppression(app, accountId, name)
        const removed = found ? await list.removeSuppression(app, actor, found.address) : 0
        const reference = found ? toReference(app.keys, found) : { object: 'suppression', id: name }
        return { ...reference, deleted: removed > 0 }
      }),
    )
    return { data }
  }),
  on('GET /suppressions/:id', READS, ({ app, accountId, id }) => ({
    object: 'suppression',
    ...toListedSuppression(app.keys, requireSuppression(app, accountId, id)),
  })),
  on('DELETE /suppressions/:id', WRITES, async ({ app, actor, accountId, id }) => {
    const found = requireSuppression(app, accountId, id)
    await list.removeSuppression(app, actor, found.address)
    return { ...toReference(app.keys, found), deleted: true }
  }),
]

const CONTEXT = 'resend suppression id'
const MAX_ID_LENGTH = sealedTokenLength(MAX_VARINT_BYTES)

const toId = (keys: KeyRing, { id }: list.Suppression): string => sealToken(keys, CONTEXT, [encodeVarint(id)])

function findById(app: App, accountId: number, id: string): list.Suppression | undefined {
  const facts = openSealedToken(app.keys, CONTEXT, id, MAX_ID_LENGTH)
  return facts && list.findSuppressionById(app.db, accountId, facts.takeInteger())
}

/** The suppression with an id, or the newest of an address. */
function findSuppression(app: App, accountId: number, idOrEmail: string): list.Suppression | undefined {
  const found = findById(app, accountId, idOrEmail)
  if (found) return found
  const window = { limit: 1, offset: 0 }
  return list.listSuppressions(app.db, accountId, { address: idOrEmail }, window).suppressions[0]
}

function requireSuppression(app: App, accountId: number, idOrEmail: string): list.Suppression {
  const found = findSuppression(app, accountId, idOrEmail)
  if (!found) throw notFound('suppression_not_found', 'Suppression not found; name it by its id or its address.')
  return found
}

type Origin = 'bounce' | 'complaint' | 'manual'

const REASONS: Readonly<Record<Origin, string>> = { bounce: 'hard_bounce', complaint: 'complaint', manual: 'manual' }

function parseOrigin(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  if (!Object.hasOwn(REASONS, text)) throw invalid('origin', 'origin must be bounce, complaint or manual.')
  return REASONS[text as Origin]
}

const toReference = (keys: KeyRing, suppression: list.Suppression) => ({
  object: 'suppression' as const,
  id: toId(keys, suppression),
})

export const toListedSuppression = (keys: KeyRing, suppression: list.Suppression) => ({
  id: toId(keys, suppression),
  email: suppression.address,
  origin: toOrigin(suppression.reason),
  source_id: suppression.sourceUuid === null ? null : formatUuid(suppression.sourceUuid),
  created_at: isoTime(suppression.createdAt),
})

/** Every reason that is neither a bounce nor a complaint was given by the account or by the recipient. */
const toOrigin = (reason: string): Origin =>
  reason === REASONS.bounce ? 'bounce' : reason === REASONS.complaint ? 'complaint' : 'manual'
