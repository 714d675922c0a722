/** @module Names the sealed columns of webhooks, so that they can be sealed again under a new master key. */

import type { SealedColumns } from '#platform/crypto/sealed-columns.ts'
import { formatUuid } from '#platform/ids.ts'
import { toInboundSealContext } from './inbound-secret.ts'
import { toSealContext } from './webhooks.ts'

const toAccountContext = (uuid: Uint8Array): string => toInboundSealContext(formatUuid(uuid))

export const SEALED_COLUMNS: readonly SealedColumns[] = [
  { table: 'webhooks', id: 'id', owner: 'uuid', columns: { secret: toSealContext, previous_secret: toSealContext } },
  {
    table: 'inbound_secrets',
    id: 'account_id',
    owner: '(SELECT uuid FROM accounts WHERE accounts.id = account_id)',
    columns: { secret: toAccountContext, previous_secret: toAccountContext },
  },
]
