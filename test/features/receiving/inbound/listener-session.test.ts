import { expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LISTENER_LIMITS } from '#features/receiving/inbound/listener-protocol.ts'
import { InboundServer } from '#features/receiving/inbound/listener-server.ts'
import { openCertificate } from '#features/receiving/inbound/tls-certificate.ts'
import type { Destination, Rejection } from '#features/receiving/received/message.ts'
import { systemClock } from '#platform/clock.ts'
import { createLog } from '#platform/log.ts'
import { MiB } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'

const { idleMs, sweepMs } = LISTENER_LIMITS

test('waiting for a reply, of any kind, does not count as idle time', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-session-'))
  const spoolFolder = join(dataDir, 'spool')
  mkdirSync(spoolFolder)
  const clock = new ManualClock()
  let asked = Promise.withResolvers<void>()
  let decided = Promise.withResolvers<Destination | Rejection>()
  const certificate = await openCertificate({
    config: { dataDir, tlsCertFile: '', tlsKeyFile: '' },
    hostname: 'mx.tassis.test',
    clock: systemClock,
    log: createLog('silent'),
    onChange: () => undefined,
  })
  const server = new InboundServer({
    settings: {
      endpoints: [{ host: '127.0.0.1', port: 0, isTlsImplicit: false }],
      isSubmission: false,
      hostname: 'mx.tassis.test',
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
    },
    clock,
    decide() {
      asked.resolve()
      return decided.promise
    },
    receive: async () => null,
    onWarning: () => undefined,
    onDebug: () => undefined,
  })
  const [{ port } = { port: 0 }] = await server.listen()
  try {
    await using client = await connectSmtp(port, '127.0.0.1')
    const replies = [await client.reply(), await client.say('HELO client.test'), await client.say('MAIL FROM:<>')]
    for (const code of [452, 550]) {
      const reply = client.say('RCPT TO:<ada@x.test>')
      await Promise.race([asked.promise, reply])
      clock.advance(2 * idleMs)
      decided.resolve({ code, text: '4.3.1 Not now' })
      replies.push(await reply)
      clock.advance(sweepMs)
      replies.push(await client.say('NOOP'))
      asked = Promise.withResolvers()
      decided = Promise.withResolvers()
    }
    clock.advance(idleMs)
    replies.push(await client.reply())
    expect(replies.map((reply) => reply.slice(0, 3))).toEqual(['220', '250', '250', '452', '250', '550', '250', '421'])
  } finally {
    server.stop()
    await server.drain()
    certificate.close()
    rmSync(dataDir, { recursive: true, force: true })
  }
})
