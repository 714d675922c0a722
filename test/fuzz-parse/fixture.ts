/**
 * @module The service that receives hostile messages, in a process of its own with its own data directory, account and
 * route.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SENDER_DOMAIN } from '#bench/mails.ts'
import { loadBenchConfig } from '#bench/measure.ts'
import { findFreePort, readUsage, startService } from '#bench/processes.ts'
import { INBOUND_SETTINGS, routeSupportMail } from '#bench/receiving.ts'
import { seedDataDirectory } from '#bench/seed.ts'
import { MiB } from '#platform/units.ts'
import { startDnsServer } from '#test/support/dns-server.ts'

export const RECIPIENT = `support@${SENDER_DOMAIN}`

export interface AttackedService extends AsyncDisposable {
  readonly smtpPort: number
  /** Sends a request to the HTTP API with the account's key. */
  get(path: string): Promise<Response>
  /** Resident memory now, in octets. */
  memoryBytes(): number
  /** Peak of resident memory since the last call, in octets. */
  takePeakBytes(): number
}

export async function startAttackedService(): Promise<AttackedService> {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-fuzz-parse-'))
  const dns = await startDnsServer({})
  const key = await seedDataDirectory(loadBenchConfig(dataDir), { emails: 0, before: routeSupportMail })
  const smtpPort = findFreePort()
  const service = await startService(dataDir, {
    ...INBOUND_SETTINGS,
    TASSIS_INBOUND_ADDR: `127.0.0.1:${smtpPort}`,
    TASSIS_DNS_SERVERS: dns.address,
    TASSIS_MIN_FREE_DISK: '0',
  })
  return {
    smtpPort,
    get: (path) =>
      fetch(`http://127.0.0.1:${service.port}${path}`, {
        headers: { authorization: `Bearer ${key}` },
        signal: AbortSignal.timeout(10_000),
      }),
    memoryBytes: () => readUsage(service.pid).rssMiB * MiB,
    takePeakBytes() {
      const peak = readUsage(service.pid).peakRssMiB * MiB
      // Resets the peak: proc(5).
      writeFileSync(`/proc/${service.pid}/clear_refs`, '5')
      return peak
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await dns.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
