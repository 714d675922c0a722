/** @module Starts the listener for incoming mail, and what processes it. */
import { join } from 'node:path'
import type { App } from '#features/core/app/app.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { seconds } from '#platform/units.ts'
import { getInboundLimits, startListener } from './listener/listener.ts'
import { createRecipientDecider } from './process/decide.ts'
import type { Parser } from './process/parser.ts'
import { InboundProcessor } from './process/process.ts'
import { receiveMessage } from './process/queue.ts'

/** How long stopping waits for a message that is arriving. */
const GRACE_MS = seconds(5)

export interface RunningInbound {
  /** Undefined if no inbound address is configured. */
  readonly listener: { readonly host: string; readonly port: number } | undefined
  /** Open sessions, some seconds ago. */
  readonly sessions: () => number
  process(): void
  stop(): Promise<void>
}

/** Listens if an address is configured; received mail waits on disk until `process` is called. */
export async function startInbound({
  app,
  parser,
}: {
  readonly app: App
  readonly parser: Parser
}): Promise<RunningInbound> {
  const { config, clock, log, metrics } = app
  const address = parseHostPort(config.inboundAddr)
  const decide = createRecipientDecider(app)
  let processor: InboundProcessor | undefined
  const listener =
    address &&
    (await startListener(
      {
        endpoints: [{ ...address, isTlsImplicit: false, setting: 'TASSIS_INBOUND_ADDR' }],
        hostname: config.hostname,
        config,
        traffic: getInboundLimits(config),
        spoolFolder: join(config.dataDir, 'raw-mail', 'incoming'),
        isDiskLow: () => app.disk.isLow(),
      },
      {
        decide(address, sourceIp) {
          const decision = processor?.findRejection(sourceIp) ?? decide(address)
          metrics.recipientDecided('code' in decision ? decision.code : 250)
          return decision
        },
        async receive(message) {
          try {
            await receiveMessage(app, message)
            metrics.messageReceived('accepted')
          } catch (error) {
            metrics.messageReceived('deferred')
            throw error
          }
        },
      },
      { clock, log },
    ))
  const endpoint = listener?.endpoints[0]
  if (endpoint) app.ownPorts.add(endpoint.port)
  return {
    listener: endpoint,
    sessions: () => listener?.sessions ?? 0,
    process() {
      processor ??= new InboundProcessor(app, parser)
      processor.start()
    },
    async stop() {
      await listener?.close(GRACE_MS)
      await processor?.stop()
    },
  }
}
