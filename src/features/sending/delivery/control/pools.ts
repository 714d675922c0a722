/** @module Pools of outgoing addresses: which an account and its streams have, and how an operator chooses them. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { getAccount, requireAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { type AuditActor, auditChange, toServiceActor } from '#features/core/audit-logs/audit.ts'
import { addRule, findPool, removeRules } from '#features/sending/queue/queue-rules.ts'
import { findStreamId, listStreamPools, setStreamPool } from '#features/setup/streams/streams.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { dataBody } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { listSources } from '../providers/outbound-sources.ts'
import { wakeSelected } from './queue-control.ts'

export const POOL_FIELDS = {
  pool: S.TextOrNull(
    'Pool of outgoing addresses of its mail; null: that of its parent, else the addresses without a pool.',
  ),
  stream_pools: Type.Array(Type.Object({ stream: S.Text('Slug of the stream.'), pool: S.Text('Its pool.') }), {
    description: 'The streams with a pool of their own.',
  }),
}
export const AccountPools = Type.Object(POOL_FIELDS)
export type AccountPools = Static<typeof AccountPools>
const PoolRequest = S.StrictObject({
  pool: S.Nullable(Type.String({ maxLength: S.MAX_FILTER_LENGTH }), {
    description: 'Name of a pool in TASSIS_OUTBOUND_IPS; null: none.',
  }),
  stream: S.Filter('Slug of a stream: only its mail.'),
})

export const operatorPoolRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' }).use(authenticated).put(
    '/accounts/:id/pool',
    async ({ actor, body, params: { id } }) => {
      const account = requireAccount(app, id)
      await setPool(app, toServiceActor(actor), account.id, body)
      return dataBody(readPools(app, account.id))
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the account.' }) }),
      body: PoolRequest,
      response: S.DataBody(AccountPools),
      detail: operatorRoute(
        'Choose the outgoing addresses of an account or stream',
        'Its mail leaves from the addresses of the pool. The pool of a stream wins over that of its account, and holds for mail accepted from then on; a sub-account without a pool has that of its parent.',
        { 404: ['account_not_found', 'No account has this id; for a stream, `stream_not_found`.'] },
      ),
    },
  )

/** The pools of outgoing addresses of an account and of its streams. */
export const readPools = ({ db }: Pick<App, 'db'>, accountId: number): AccountPools => ({
  pool: findPool(db, accountId) ?? null,
  stream_pools: listStreamPools(db, accountId),
})

/**
 * Sets the pool of outgoing addresses of an account, or of one of its streams; null: none. Throws 422 for a pool that no
 * address is in: a typing error would send its mail from the addresses of all others. Throws 404 for an unknown stream.
 */
export async function setPool(
  app: App,
  actor: AuditActor,
  accountId: number,
  { stream, pool }: { readonly stream?: string | undefined; readonly pool: string | null },
): Promise<void> {
  const pools = listSources(app.config).flatMap((source) => source.pool ?? [])
  if (pool !== null && !pools.includes(pool))
    throw invalid(
      'pool',
      `No address of TASSIS_OUTBOUND_IPS is in the pool "${pool}"; ${pools.length === 0 ? 'add one such as 192.0.2.1@news' : `there are ${[...new Set(pools)].join(', ')}`}.`,
    )
  const { uuid, name } = getAccount(app.config, app.db, accountId)
  await app.commit.writeFromReserve((tx) => {
    if (stream !== undefined) {
      const streamId = findStreamId(tx.db, accountId, stream)
      if (streamId === undefined)
        throw notFound('stream_not_found', `The account ${name} has no stream "${stream}"; use the slug of the stream.`)
      setStreamPool(tx, streamId, pool)
    } else if (pool === null) removeRules(tx, { accountId }, 'pool')
    else {
      const createdAt = app.clock.now()
      addRule(tx, { kind: 'pool', selector: { accountId }, target: pool, reason: '', createdBy: actor.id, createdAt })
    }
    const metadata = { pool, ...(stream !== undefined && { stream }) }
    auditChange(app, tx, actor, 'operator.account_pool_set', uuid, metadata, 'account')
  })
  // Mail that waits for a suspended address may now leave from another one.
  await wakeSelected(app, { accountId })
}
