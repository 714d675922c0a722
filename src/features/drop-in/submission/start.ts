/** @module Starts the listener for SMTP submission, where addresses are configured. */
import { join } from 'node:path'
import type { App } from '#features/core/app/app.ts'
import { type ConfiguredEndpoint, startListener } from '#features/receiving/inbound/listener.ts'
import type { Endpoint } from '#features/receiving/inbound/listener-protocol.ts'
import { createParser } from '#features/receiving/inbound/parser.ts'
import type { TakeRate } from '#features/sending/accept/send-rate.ts'
import type { Authenticator } from '#features/setup/api-keys/keys.ts'
import { parseHostPort } from '#platform/setting-kinds.ts'
import { GiB, seconds } from '#platform/units.ts'
import { createLogins } from './logins.ts'
import { createSubmitter } from './submit.ts'

export interface RunningSubmission {
  /** Those that are configured: with STARTTLS, then with implicit TLS. */
  readonly endpoints: readonly Endpoint[]
  stop(): Promise<void>
}

/** How long stopping waits for a message that is arriving. */
const GRACE_MS = seconds(5)

export async function startSubmission(
  app: App,
  options: { readonly authenticator: Authenticator; readonly takeRate: TakeRate },
): Promise<RunningSubmission> {
  const { config, clock, log } = app
  const endpoints = listEndpoints(app)
  if (endpoints.length === 0) return { endpoints: [], stop: async () => undefined }
  const folder = join(config.dataDir, 'submission')
  const parser = createParser({ config, clock, log, resolver: app.resolver }, { filesFolder: join(folder, 'parsed') })
  const listener = await startListener(
    {
      endpoints,
      hostname: config.hostname,
      config: {
        ...config,
        inboundMaxMessageBytes: config.submissionMaxMessageBytes,
        inboundMaxRecipients: config.maxRecipients,
        inboundConnections: config.submissionConnections,
        inboundConnectionsPerIp: config.submissionConnectionsPerIp,
        // Accounts have limits of their own, which are those of the API.
        inboundMessagesPerMinute: 1,
        inboundBytesPerHour: GiB,
      },
      spoolFolder: join(folder, 'incoming'),
    },
    { logIn: createLogins(app, options.authenticator), submit: createSubmitter(app, { ...options, parser }) },
    { clock, log },
  )
  for (const { port } of listener.endpoints) app.ownPorts.add(port)
  return {
    endpoints: listener.endpoints,
    async stop() {
      await listener.close(GRACE_MS)
      parser.close()
    },
  }
}

function listEndpoints({ config }: Pick<App, 'config'>): ConfiguredEndpoint[] {
  const starttls = parseHostPort(config.submissionAddr)
  const tls = parseHostPort(config.submissionTlsAddr)
  return [
    ...(starttls ? [{ ...starttls, isTlsImplicit: false, setting: 'TASSIS_SUBMISSION_ADDR' }] : []),
    ...(tls ? [{ ...tls, isTlsImplicit: true, setting: 'TASSIS_SUBMISSION_TLS_ADDR' }] : []),
  ]
}
