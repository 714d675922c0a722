/**
 * @module The service that receives hostile messages, in a process of its own with its own data directory, account and
 * route.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '#app/settings.ts'
import { SENDER_DOMAIN } from '#bench/mails.ts'
import { routeSupportMail } from '#bench/receiving.ts'
import { seedDataDirectory } from '#bench/seed.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { findFreePort } from '#test/support/free-port.ts'

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

/** @param main entry file of the service */
export async function startAttackedService(main: string): Promise<AttackedService> {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-fuzz-parse-'))
  const dns = await startDnsServer({})
  const settings = { TASSIS_DATA_DIR: dataDir, TASSIS_HOSTNAME: 'mail.fuzz.test', TASSIS_LOG_LEVEL: 'error' }
  const key = await seedDataDirectory(loadConfig(settings).config, { emails: 0, before: routeSupportMail })
  const smtpPort = await findFreePort()
  const child = Bun.spawn([process.execPath, main, 'serve'], {
    env: {
      ...settings,
      TASSIS_HTTP_ADDR: '127.0.0.1:0',
      TASSIS_INBOUND_ADDR: `127.0.0.1:${smtpPort}`,
      TASSIS_INBOUND_MESSAGES_PER_MINUTE: '100000',
      TASSIS_INBOUND_BYTES_PER_HOUR: '1000GiB',
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_MIN_FREE_DISK: '0',
    },
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const reader = child.stdout.getReader()
  let output = ''
  while (!output.includes('\n')) output += new TextDecoder().decode((await reader.read()).value)
  reader.releaseLock()
  const url = /http:\/\/127\.0\.0\.1:\d+/.exec(output)?.[0]
  if (url === undefined) throw new Error(`the service did not print its address: ${output}`)
  const readProcStatus = (name: string): number => {
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? Number.NaN) * 1024
  }
  return {
    smtpPort,
    get: (path) =>
      fetch(`${url}${path}`, { headers: { authorization: `Bearer ${key}` }, signal: AbortSignal.timeout(10_000) }),
    memoryBytes: () => readProcStatus('VmRSS'),
    takePeakBytes() {
      const peak = readProcStatus('VmHWM')
      // Resets the peak: proc(5).
      writeFileSync(`/proc/${child.pid}/clear_refs`, '5')
      return peak
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      await child.exited
      await dns.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
