/** @module Publishes the records of a domain: `kill-child.ts DATA_DIR SERVER DOMAIN_ID`. The test kills it meanwhile. */

import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import type { DnsApi } from '#features/setup/dns-publish/dns-api.ts'
import type { DnsProviderEntry } from '#features/setup/dns-publish/dns-provider.ts'
import { publishDomain } from '#features/setup/dns-publish/publish.ts'
import { RFC2136 } from '#features/setup/dns-publish/rfc2136.ts'
import { createTestApp } from '#test/support/app.ts'
import { SECRET } from '#test/support/dns-daemons.ts'

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
const distant: DnsProviderEntry = {
  ...RFC2136,
  create(deps, fields) {
    const api = RFC2136.create(deps, fields)
    const write: DnsApi['write'] = async (zone, change) => {
      await Bun.sleep(LATENCY_MS)
      await api.write(zone, change)
      await Bun.sleep(LATENCY_MS)
    }
    return { findZone: (name) => api.findZone(name), read: (zone, names) => api.read(zone, names), write }
  },
}
console.log('ready')
await publishDomain(app, createSystemActor(account), id, { provider: 'rfc2136', credentials }, [distant])
console.log('done')
process.exit(0)
