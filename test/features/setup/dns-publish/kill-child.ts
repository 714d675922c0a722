/** @module Publishes the records of a domain: `kill-child.ts DATA_DIR SERVER DOMAIN_ID`. The test kills it meanwhile. */

import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { publishDomain } from '#features/setup/dns-publish/publish.ts'
import { createTestApp } from '#test/support/app.ts'
import { SECRET } from '#test/support/dns-daemons.ts'
import { changeRfc2136 } from './fixture.ts'

const LATENCY_MS = 30

const [dataDir = '', server = '', id = ''] = process.argv.slice(2)
const { app } = await createTestApp({
  dataDir,
  settings: { TASSIS_DNS_SERVERS: server, TASSIS_OUTBOUND_IPS: '192.0.2.25' },
})
const account = app.db
  .query<{ accountId: number; accountUuid: Uint8Array }, []>(
    'SELECT accounts.id AS accountId, accounts.uuid AS accountUuid FROM accounts JOIN domains ON account_id = accounts.id',
  )
  .get()
if (!account) throw new Error('no account')
const credentials = { server, key_name: 'full', secret: SECRET }
/** As far away as most servers are, so that kills come between the writes. */
const distant = changeRfc2136((api) => ({
  async write(zone, change) {
    await Bun.sleep(LATENCY_MS)
    await api.write(zone, change)
    await Bun.sleep(LATENCY_MS)
  },
}))
console.log('ready')
await publishDomain(app, createSystemActor(account), id, { provider: 'rfc2136', credentials }, [distant])
console.log('done')
process.exit(0)
