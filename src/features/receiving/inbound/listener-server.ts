/**
 * @module The SMTP server that strangers speak to: who may connect, how fast, and what happens with a message when it is whole. Runs in the
 * listener's Worker and asks the main thread for everything that needs the database.
 */
import type { AddressInfo, Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { SMTPServer, type SMTPServerDataStream } from 'smtp-server'
import type { SMTPConnectionOptions } from 'smtp-server/lib/smtp-connection.js'
import type { Destination, Refusal, TakenMessage } from '#features/receiving/received/message.ts'
import type { Clock } from '#platform/clock.ts'
import { createNetworkLimiter } from '#platform/http/network-limit.ts'
import type { Rate } from '#platform/http/rate-limit.ts'
import { hours, MiB, minutes, seconds } from '#platform/units.ts'
import type { Certificate, ListenerSettings } from './listener-protocol.ts'
import { InboundSession, type SessionHost, SmtpReplyError } from './listener-session.ts'
import { ConnectionSlots } from './listener-slots.ts'
import { createSpool } from './listener-spool.ts'

export interface InboundServerOptions {
  readonly settings: ListenerSettings
  readonly clock: Clock
  readonly decide: (address: string, sourceIp: string) => Promise<Destination | Refusal>
  /** Null: it is on disk. */
  readonly receive: (message: TakenMessage) => Promise<Refusal | null>
  readonly onWarning: (event: string, detail: string) => void
  readonly onDebug: (event: string, detail: string) => void
}

export interface InboundServer {
  listen(): Promise<{ readonly host: string; readonly port: number }>
  useCertificate(certificate: Certificate): void
  /** Takes no new sessions and resolves when the last one is over; those with a message under way end with it. */
  drain(): Promise<void>
  /** Tells all sessions that it is over. */
  stop(): void
}

/** For who is refused at the door and does not leave by himself. */
const LINGER_MS = seconds(2)
/** So many may hear why they are refused at the same time; more are cut off. */
const MAX_LINGERING = 200
/**
 * What many sockets read at once is left behind faster than the collector looks: with a thousand senders that was half of 180 MB. With so many of them
 * it is told to look after each piece of this size, which takes 20 ms that only they wait for; without a crowd it needs no telling.
 */
const CLEAN_EVERY_BYTES = 4 * MiB
const CROWD_SESSIONS = 100
const TLS_LEAST_VERSION = 'TLSv1.2'

const outOfSpace: Refusal = { code: 452, text: '4.3.1 There is no room for the message; try again later' }
const ownTrouble: Refusal = { code: 451, text: '4.3.0 The message could not be taken in; try again later' }

/** Networks of each size whose rates are known; more of them evict those that came first. */
const MAX_NETWORKS = 50_000

/** As many at once, and as many again within each such time. */
const within = (ms: number, count: number): Rate => ({ burst: count, ratePerSecond: (count * 1000) / ms })

/** Makes the server; `listen` starts it. */
export function createInboundServer(options: InboundServerOptions): InboundServer {
  const { settings, clock } = options
  const { limits } = settings
  const slots = new ConnectionSlots<InboundSession>(
    { max: settings.maxConnections, maxPerNetwork: settings.maxConnectionsPerNetwork },
    (session) => evict(session),
  )
  const { maxMessagesPerMinute, maxBytesPerHour } = settings
  const messages = createNetworkLimiter(clock, within(minutes(1), maxMessagesPerMinute), MAX_NETWORKS)
  const octets = createNetworkLimiter(clock, within(hours(1), maxBytesPerHour), MAX_NETWORKS)
  const tooLargeForHost: Refusal = {
    code: 552,
    text: `5.3.4 A message to this address may have ${Math.floor(limits.hostMessageBytes / MiB)} MiB at most`,
  }
  let isDraining = false
  let drained: (() => void) | undefined
  let lingering = 0
  let octetsSinceCleaning = 0

  const sessions = new Map<string, InboundSession>()
  const sessionOf = (id: string): InboundSession | undefined => sessions.get(id)

  const host: Omit<SessionHost, 'onClosed' | 'network'> = {
    limits,
    maxMessageBytes: settings.maxMessageBytes,
    spool: createSpool({
      folder: settings.spoolFolder,
      filePrefix: settings.filePrefix,
      inlineBytes: limits.inlineBytes,
      bufferBytes: limits.bufferBytes,
      spoolBytes: limits.spoolBytes,
      minFreeBytes: settings.minFreeBytes,
      maxMessages: settings.maxConnections,
    }),
    isDraining: () => isDraining,
    monotonicMs: () => clock.monotonicMs(),
    onOctets(count) {
      octetsSinceCleaning += count
      if (octetsSinceCleaning < CLEAN_EVERY_BYTES || sessions.size < CROWD_SESSIONS) return
      octetsSinceCleaning = 0
      Bun.gc(true)
    },
  }

  const server = new (class extends SMTPServer {
    override connect(socket: Socket | TLSSocket, socketOptions?: SMTPConnectionOptions | null): void {
      const address = socket.remoteAddress
      // Without an address it is gone already.
      const slot = address === undefined ? 'gone' : slots.enter(address)
      if (typeof slot === 'string') {
        turnAway(socket, slot)
        return
      }
      const session = new InboundSession(this, socket, socketOptions ?? null, {
        ...host,
        network: slot.wideNetwork,
        onOctets(count) {
          octets.charge(address ?? '', count)
          host.onOctets(count)
        },
        onClosed() {
          sessions.delete(session.id)
          slot.release()
          if (isDraining && sessions.size === 0) drained?.()
        },
      })
      slot.holder = session
      this.connections.add(session)
      sessions.set(session.id, session)
      session.on('error', (error: Error) => this.emit('error', error))
      session.init()
    }
  })({
    name: settings.hostname,
    banner: '',
    heloResponse: '%s',
    authOptional: true,
    // AUTH is for those who send, at another listener; the rest is smtp-server's own humour.
    disabledCommands: ['AUTH', 'WIZ', 'SHELL', 'KILL', 'XCLIENT', 'XFORWARD'],
    hideENHANCEDSTATUSCODES: false,
    disableReverseLookup: true,
    logger: false,
    size: settings.maxMessageBytes,
    rejectOversized: true,
    maxRecipients: settings.maxRecipients,
    maxCommandLength: limits.commandLineBytes,
    socketTimeout: limits.idleMs,
    minVersion: TLS_LEAST_VERSION,
    ...settings.certificate,
    onMailFrom(_sender, session, done) {
      if (!octets.take(session.remoteAddress).ok) {
        options.onDebug('messages refused', `${session.remoteAddress} hands in too much mail`)
        return done(new SmtpReplyError({ code: 451, text: '4.7.1 Too much mail from your address; try again later' }))
      }
      if (messages.take(session.remoteAddress).ok) return done()
      options.onDebug('messages refused', `${session.remoteAddress} hands in too many messages`)
      done(new SmtpReplyError({ code: 451, text: '4.7.1 Too many messages from your address; try again later' }))
    },
    onRcptTo(recipient, session, done) {
      const connection = sessionOf(session.id)
      options.decide(recipient.address, session.remoteAddress).then((answer) => {
        if (!('code' in answer)) {
          if (answer.kind !== 'domain' && (connection?.announcedBytes ?? 0) > limits.hostMessageBytes)
            return done(new SmtpReplyError(tooLargeForHost))
          connection?.destinations.set(recipient.address.toLowerCase(), answer)
          return done()
        }
        if (answer.code >= 500) connection?.refuseRecipient()
        done(new SmtpReplyError(answer))
      })
    },
    onSecure(socket, session, done) {
      const connection = sessionOf(session.id)
      const cipher = 'getCipher' in socket ? socket.getCipher() : undefined
      const version = 'getProtocol' in socket ? socket.getProtocol() : undefined
      connection?.recordProgress()
      if (connection) connection.tls = `${version ?? 'TLS'} ${cipher?.standardName ?? cipher?.name ?? ''}`.trim()
      done()
    },
    onData(stream, session, done) {
      const connection = sessionOf(session.id)
      // The stream brings no content: it ends when the message is whole, and closes when the client is gone.
      stream.resume()
      stream.on('error', () => {})
      stream.once('end', () => {
        void take(stream, connection).then((refusal) => {
          connection?.recordProgress()
          if (refusal) done(new SmtpReplyError(refusal))
          else {
            if (!stream.sizeExceeded) connection?.forgive()
            done(null, '2.6.0 The message is taken in')
          }
          if (isDraining) connection?.drain()
        })
      })
    },
  })

  async function take(stream: SMTPServerDataStream, session: InboundSession | undefined): Promise<Refusal | null> {
    const draft = session?.draft
    if (!session || !draft) return ownTrouble
    try {
      // Of what nobody may send smtp-server says 552 itself.
      if (stream.sizeExceeded) return tooLargeForHost
      const { envelope, hostNameAppearsAs } = session.session
      const destinations = envelope.rcptTo.flatMap(({ address }) => {
        const destination = session.destinations.get(address.toLowerCase())
        return destination ? [destination] : []
      })
      return await options.receive({
        mailFrom: envelope.mailFrom === false ? '' : envelope.mailFrom.address,
        destinations,
        sourceIp: session.remoteAddress,
        helo: hostNameAppearsAs,
        tls: session.tls,
        sizeBytes: draft.sizeBytes,
        content: await draft.finish(),
      })
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined
      options.onWarning('a message could not be kept', String(error))
      return code === 'ENOSPC' || code === 'EDQUOT' ? outOfSpace : ownTrouble
    } finally {
      draft.drop()
    }
  }

  /** Ends a session whose slot another one has got; it has moments to hear why, without a slot. */
  function evict(session: InboundSession): void {
    options.onWarning('connections refused', 'as many clients are connected as may be; slow ones end')
    if (session.stage !== 'ended' && mayLinger(session.socket))
      session.send(421, '4.7.0 Too many connections, of which this one was the slowest; try again later')
    else session.socket.destroy()
  }

  function mayLinger(socket: Socket | TLSSocket): boolean {
    if (lingering >= MAX_LINGERING) return false
    lingering++
    socket.on('close', () => lingering--)
    return true
  }

  function turnAway(socket: Socket | TLSSocket, reason: 'all' | 'network' | 'gone'): void {
    socket.on('error', () => {})
    const text = reason === 'network' ? 'Too many connections from your address' : 'Too many connections'
    if (reason === 'all') options.onWarning('connections refused', 'as many clients are connected as may be')
    else options.onDebug('connection refused', `${socket.remoteAddress} has as many connections as it may have`)
    if (reason === 'gone' || !mayLinger(socket)) {
      socket.destroy()
      return
    }
    // What he says is thrown away: a socket that is closed with unread octets takes our word back.
    socket.resume()
    socket.end(`421 4.7.0 ${text}; try again later\r\n`)
    clock.after(LINGER_MS, () => socket.destroy())
  }

  server.on('error', (error) => options.onDebug('a session ended with an error', String(error)))
  // Between being accepted and having a session a connection has nobody who listens to its errors.
  server.server.prependListener('connection', (socket: Socket) => socket.on('error', () => {}))

  const sweep = () => {
    const nowMs = clock.monotonicMs()
    for (const session of sessions.values()) session.sweep(nowMs)
    clock.after(limits.sweepMs, sweep)
  }

  return {
    listen: () =>
      new Promise((resolve, reject) => {
        server.server.once('error', reject)
        server.listen(settings.port, settings.host, () => {
          server.server.off('error', reject)
          sweep()
          const { address, port } = server.server.address() as AddressInfo
          resolve({ host: address, port })
        })
      }),
    useCertificate: (certificate) => server.updateSecureContext(certificate),
    drain() {
      isDraining = true
      server.server.close()
      for (const session of sessions.values()) session.drain()
      if (sessions.size === 0) return Promise.resolve()
      return new Promise((resolve) => {
        drained = resolve
      })
    },
    stop() {
      isDraining = true
      server.server.close()
      for (const session of sessions.values()) session.send(421, '4.3.2 The service is stopping')
    },
  }
}
