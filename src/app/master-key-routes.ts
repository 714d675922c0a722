/** @module /v1/operator/master-keys: the keys under which the secrets in the database are sealed. For commands only. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, commandRoute } from '#features/core/app/http.ts'
import { toServiceActor } from '#features/core/audit-logs/audit.ts'
import { dataBody, isoTimeOrNull } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { Count, DataBody, Nullable, Text, TextOrNull, Timestamp } from '#platform/http/schemas.ts'
import { listMasterKeys, rotateMasterKey } from './master-key.ts'

const MasterKey = Type.Object({
  key: TextOrNull('Fingerprint, shortened; null: secrets whose key is not there.'),
  is_newest: Type.Boolean({ description: 'Whether it seals and signs everything new.' }),
  secrets: Count('Number of secrets in the database that are sealed under it.'),
  is_needed: Type.Boolean({
    description: 'Whether it may still seal something; without a key: whether anything is lost.',
  }),
})

const RotatedMasterKey = Type.Object({
  key: Text('Fingerprint of the newest key, shortened.'),
  former: Type.Array(Type.String(), { description: 'Fingerprints of the former keys, newest first.' }),
  path: TextOrNull('File that now holds the keys; null: they are in TASSIS_MASTER_KEY.'),
  was_begun: Type.Boolean({ description: 'True: a rotation that had begun before was finished; no key was created.' }),
  resealed: Count('Number of secrets that were sealed again.'),
  unreadable: Count('Number of secrets that no key opens; they stay as they are.'),
})

export const masterKeyRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/master-keys' })
    .use(authenticated)
    .get(
      '/',
      async () => {
        const { keys, newest_since: since } = await listMasterKeys(app)
        return { ...dataBody(keys), newest_since: isoTimeOrNull(since) }
      },
      {
        response: Type.Object({
          data: Type.Array(MasterKey),
          newest_since: Nullable(Timestamp(), { description: 'When the newest became that; null: it is the first.' }),
        }),
        detail: commandRoute('List the master keys', 'Newest first.'),
      },
    )
    .post(
      '/rotate',
      async ({ actor, request }) =>
        dataBody(await withoutTimeLimit(request, () => rotateMasterKey(app, toServiceActor(actor)))),
      {
        response: DataBody(RotatedMasterKey),
        detail: commandRoute(
          'Rotate the master key',
          'Creates a key and seals every stored secret again under it; finishes a rotation that had begun instead.',
          { 409: ['master_key_not_writable', 'The keys are where the service cannot write, or there are too many.'] },
        ),
      },
    )
