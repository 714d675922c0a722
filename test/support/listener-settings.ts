/** @module Settings of a mail listener in the process of a test, with a spool folder and a certificate of its own. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LISTENER_LIMITS, type ListenerSettings } from '#features/receiving/inbound/listener/protocol.ts'
import { openCertificate } from '#features/receiving/inbound/listener/tls-certificate.ts'
import { createLog } from '#platform/log/log.ts'
import { systemClock } from '#platform/time/clock.ts'
import { MiB } from '#platform/units.ts'

export interface TestListenerSettings {
  readonly settings: ListenerSettings
  /** Closes the certificate and removes the folder. */
  remove(): void
}

export async function createListenerSettings(change: Partial<ListenerSettings> = {}): Promise<TestListenerSettings> {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-listener-'))
  const spoolFolder = join(dataDir, 'spool')
  mkdirSync(spoolFolder)
  const hostname = 'mail.tassis.test'
  const certificate = await openCertificate({
    config: { dataDir, tlsCertFile: '', tlsKeyFile: '' },
    hostname,
    clock: systemClock,
    log: createLog('silent'),
    onChange: () => undefined,
  })
  return {
    settings: {
      endpoints: [{ host: '127.0.0.1', port: 0, isTlsImplicit: false }],
      isSubmission: false,
      hostname,
      spoolFolder,
      minFreeBytes: 0,
      filePrefix: '1',
      certificate: certificate.current,
      maxMessageBytes: MiB,
      maxRecipients: 3,
      maxConnections: 10,
      maxConnectionsPerNetwork: 10,
      maxMessagesPerMinute: 10,
      maxBytesPerHour: MiB,
      limits: LISTENER_LIMITS,
      logsDebug: false,
      ...change,
    },
    remove() {
      certificate.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
