/** @module Starts the listener for SMTP submission, where addresses are configured. */
import { join } from 'node:path'
import type { App } from '#features/core/app/app.ts'
import { type ConfiguredEndpoint, startListener } from '#features/receiving/inbound/listener/listener.ts'
import type { Endpoint } from '#features/receiving/inbound/listener/protocol.ts'
import { createParser } from '#features/receiving/inbound/process/parser.ts'
import { MAX_RECIPIENTS } from '#features/sending/accept/draft.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import type { Authenticator } from '#features/setup/api-keys/keys.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { GiB, seconds } from '#platform/units.ts'
import { createLogins } from './logins.ts'
import { recordCommand } from './record.ts'
import { createSubmitter } from './submit.ts'

export type RunningSubmission = Awaited<ReturnType<typeof startSubmission>>

/** Of all clients; one account may have half of them. */
const MAX_CONNECTIONS = 500
/** From one address, such as that of an office or of a server farm. */
const MAX_CONNECTIONS_PER_NETWORK = 50
/** How long stopping waits for a message that is arriving. */
const GRACE_MS = seconds(5)

/** Deferred messages got a 4xx, after which clients send them again, rejected ones a 5xx. */
const NOTHING = { accepted: 0, deferred: 0, rejected: 0, failed_logins: 0 }

export async function startSubmission(
  app: App,
  options: { readonly authenticator: Authenticator; readonly takeRate: TakeRate },
): Promise<{
  /** Those that are configured: with STARTTLS, then with implicit TLS. */
  readonly endpoints: readonly Endpoint[]
  /** Counted since the start; `sessions` are those that were open some seconds ago. */
  readonly stats: () => Readonly<Record<'sessions' | keyof typeof NOTHING, number>>
  readonly stop: () => Promise<void>
}> {
  const { config, clock, log } = app
  const endpoints = listEndpoints(app)
  const counts = { ...NOTHING }
  if (endpoints.length === 0)
    return { endpoints: [], stats: () => ({ sessions: 0, ...counts }), stop: async () => undefined }
  const folder = join(config.dataDir, 'submission')
  const parser = createParser({ config, clock, log, resolver: app.resolver }, { filesFolder: join(folder, 'parsed') })
  const logIn = createLogins(app, options.authenticator)
  const submit = createSubmitter(app, { ...options, parser })
  const listener = await startListener(
    {
      endpoints,
      hostname: config.hostname,
      config,
      traffic: {
        maxMessageBytes: config.maxBodyBytes,
        maxRecipients: MAX_RECIPIENTS,
        maxConnections: MAX_CONNECTIONS,
        maxConnectionsPerNetwork: MAX_CONNECTIONS_PER_NETWORK,
        // Accounts have limits of their own, which are those of the API.
        maxMessagesPerMinute: 1,
        maxBytesPerHour: GiB,
      },
      spoolFolder: join(folder, 'incoming'),
    },
    {
      async logIn(credentials, sourceIp) {
        const startedAtMs = clock.monotonicMs()
        const login = await logIn(credentials, sourceIp)
        if (!('code' in login)) return login
        counts.failed_logins++
        const { password } = credentials
        const ended = { method: 'AUTH', actor: undefined, password, sourceIp, startedAtMs, reply: login } as const
        recordCommand(app, options.authenticator, ended)
        return login
      },
      async submit(message) {
        const reply = await submit(message)
        counts[reply.code < 400 ? 'accepted' : reply.code < 500 ? 'deferred' : 'rejected']++
        return reply
      },
    },
    { clock, log },
  )
  for (const { port } of listener.endpoints) app.ownPorts.add(port)
  return {
    endpoints: listener.endpoints,
    stats: () => ({ sessions: listener.sessions, ...counts }),
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
