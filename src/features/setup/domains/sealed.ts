/** @module Names the sealed columns of domains, so that they can be sealed again under a new master key. */
import type { SealedColumns } from '#platform/crypto/sealed-columns.ts'
import { toDkimKeyContext, toEd25519KeyContext } from './sending.ts'

export const SEALED_COLUMNS: readonly SealedColumns[] = [
  {
    table: 'domains',
    id: 'id',
    owner: 'uuid',
    columns: { dkim_private_key: toDkimKeyContext, ed25519_private_key: toEd25519KeyContext },
  },
  {
    table: 'dkim_keys',
    id: 'id',
    owner: '(SELECT uuid FROM domains WHERE domains.id = domain_id)',
    columns: { dkim_private_key: toDkimKeyContext, ed25519_private_key: toEd25519KeyContext },
  },
]
