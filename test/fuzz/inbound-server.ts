/**
 * @module The attacked process: the SMTP listener with its real limits, except that it has slots for all attackers, and
 * an HTTP server on the same main thread. `main.ts` starts it; it prints its ports and ends when its standard input
 * closes.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getInboundLimits, startListener } from '#features/receiving/inbound/listener/listener.ts'
import { createLog } from '#platform/log/log.ts'
import { systemClock } from '#platform/time/clock.ts'
import { MiB, seconds } from '#platform/units.ts'

const connections = Number(process.argv[2] ?? 1_000)
const dataDir = mkdtempSync(join(tmpdir(), 'tassis-fuzz-'))
let acceptedCount = 0
const listener = await startListener(
  {
    endpoints: [{ host: '127.0.0.1', port: 0, isTlsImplicit: false, setting: 'TASSIS_INBOUND_ADDR' }],
    hostname: 'mx.tassis.test',
    spoolFolder: join(dataDir, 'spool'),
    config: {
      dataDir,
      tlsCertFile: '',
      tlsKeyFile: '',
      minFreeDisk: 0,
    },
    traffic: {
      ...getInboundLimits({
        maxBodyBytes: 40 * MiB,
        inboundConnectionsPerIp: connections,
        inboundMessagesPerMinute: 1_000_000,
      }),
      maxConnections: connections,
    },
  },
  {
    decide: (address) =>
      address.startsWith('nobody')
        ? { code: 550, text: '5.1.1 No such address' }
        : { kind: 'domain', address, accountId: 1, domainId: 1 },
    async receive() {
      acceptedCount++
      // About the duration of a commit.
      await systemClock.sleep(5)
    },
  },
  { clock: systemClock, log: createLog('warn') },
)
const http = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => Response.json({ taken: acceptedCount }) })
console.log(JSON.stringify({ smtp: listener.endpoints[0]?.port, http: http.port }))
await Bun.stdin.text()
await listener.close(seconds(1))
await http.stop(true)
rmSync(dataDir, { recursive: true, force: true })
process.exit(0)
