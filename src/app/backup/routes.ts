/** @module What `tassis backup` asks of a running service, below /v1/operator/backups. For commands only. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { authenticated, commandRoute } from '#features/core/app/http.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { Bytes, Count, DataBody, StrictObject, Text, Uuid } from '#platform/http/schemas.ts'
import type { OpenedApp } from '../create.ts'
import { recordSuccess } from './state.ts'

const BackupParams = Type.Object({ id: Uuid({ description: 'Id that the command chose for the backup.' }) })

const BackupReport = StrictObject({
  path: Text('Where it is.'),
  total_bytes: Bytes('Size of its files'),
  duration_ms: Count('How long it took, in milliseconds.'),
  warnings: Type.Array(Type.String(), { description: 'What it found, as sentences.' }),
})

export const backupRoutes = ({ app, deletionHold }: OpenedApp) =>
  new Elysia({ prefix: '/v1/operator/backups' })
    .use(authenticated)
    .post('/:id/hold', ({ params }) => dataBody({ is_held: deletionHold.renew(params.id) }), {
      params: BackupParams,
      response: DataBody(
        Type.Object({ is_held: Type.Boolean({ description: 'False: it was held off for too long already.' }) }),
      ),
      detail: commandRoute(
        'Hold off the deletion of content',
        'While a backup copies it; lasts for two minutes, and is renewed by another request.',
      ),
    })
    .post(
      '/:id/release',
      ({ params, set }) => {
        deletionHold.release(params.id)
        set.status = 204
      },
      {
        params: BackupParams,
        detail: commandRoute('Let content be deleted again'),
      },
    )
    .post(
      '/',
      async ({ body, set }) => {
        await app.commit.writeFromReserve((tx) => recordSuccess(tx.db, app.clock.now(), body))
        set.status = 204
      },
      {
        body: BackupReport,
        detail: commandRoute(
          'Record a backup in the places of scheduled backups',
          'Its age and its warnings are part of the state of the service.',
        ),
      },
    )
