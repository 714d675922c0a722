/**
 * @module The SMTP listener with its Worker on a free loopback port, and the messages that it received; and its server
 * without a Worker, on a clock that only the test moves. For tests.
 */
import { afterAll, beforeAll, beforeEach } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Listener, type ListenerOptions, startListener } from '#features/receiving/inbound/listener/listener.ts'
import { LISTENER_LIMITS, type ListenerSettings } from '#features/receiving/inbound/listener/protocol.ts'
import { InboundServer } from '#features/receiving/inbound/listener/server.ts'
import type { CompleteMessage, ListenerHandlers } from '#features/receiving/received/message.ts'
import { createLog } from '#platform/log/log.ts'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { GiB, MiB } from '#platform/units.ts'
import { createListenerSettings } from '#test/support/listener-settings.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { connectSmtp, type RawSmtp, type RawSmtpOptions } from '#test/support/smtp-client.ts'

/** Greets without delay, so that no test waits for greetings. */
const FAST_LIMITS = { greetingDelayMs: 0 } as const

export interface ListenerFixture extends AsyncDisposable {
  readonly listener: Listener
  readonly port: number
  readonly dataDir: string
  /** Received messages, with their uncompressed content. */
  readonly received: (Omit<CompleteMessage, 'content'> & { readonly kind: string; readonly text: string })[]
  /** Log lines as objects. */
  readonly logged: Record<string, unknown>[]
  /** Files of arriving messages. */
  listSpooled(): string[]
  /** A connection after its greeting and EHLO. */
  connectGreeted(options?: RawSmtpOptions): Promise<RawSmtp>
  connect(options?: RawSmtpOptions): Promise<RawSmtp>
}

export interface ListenerFixtureOptions extends Omit<Partial<ListenerOptions>, 'config' | 'traffic' | 'endpoints'> {
  /** Default: any free port. */
  readonly port?: number
  readonly config?: Partial<ListenerOptions['config']>
  readonly traffic?: Partial<ListenerOptions['traffic']>
  readonly decide?: ListenerHandlers['decide']
  readonly receive?: ListenerHandlers['receive']
  readonly clock?: Clock
  readonly dataDir?: string
}

export async function startTestListener(options: ListenerFixtureOptions = {}): Promise<ListenerFixture> {
  const { config, traffic, decide, receive, clock = systemClock, port = 0, limits, ...rest } = options
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), 'tassis-listener-'))
  const spoolFolder = options.spoolFolder ?? join(dataDir, 'spool')
  const received: ListenerFixture['received'] = []
  const logged: Record<string, unknown>[] = []
  const listener = await startListener(
    {
      endpoints: [{ host: '127.0.0.1', port, isTlsImplicit: false, setting: 'TASSIS_INBOUND_ADDR' }],
      hostname: 'mx.tassis.test',
      spoolFolder,
      limits: { ...FAST_LIMITS, ...limits },
      ...rest,
      config: {
        dataDir,
        tlsCertFile: '',
        tlsKeyFile: '',
        minFreeDisk: 0,
        ...config,
      },
      traffic: {
        maxMessageBytes: 2 * MiB,
        maxRecipients: 3,
        maxConnections: 100,
        maxConnectionsPerNetwork: 100,
        maxMessagesPerMinute: 1_000,
        maxBytesPerHour: 1 * GiB,
        ...traffic,
      },
    },
    {
      decide:
        decide ??
        ((address) =>
          address.startsWith('nobody') ? { code: 550, text: '5.1.1 User unknown' } : { kind: 'host', address }),
      async receive(message) {
        await receive?.(message)
        const { content, ...others } = message
        received.push({ ...others, kind: content.kind, text: readContent(message).toString('latin1') })
      },
    },
    {
      clock,
      log: createLog('debug', { write: (line) => void logged.push(JSON.parse(line) as Record<string, unknown>) }),
    },
  )
  const boundPort = listener.endpoints[0]?.port ?? 0
  const connect = (connectOptions?: RawSmtpOptions) => connectSmtp(boundPort, '127.0.0.1', connectOptions)
  return {
    listener,
    port: boundPort,
    dataDir,
    received,
    logged,
    listSpooled: () => (existsSync(spoolFolder) ? readdirSync(spoolFolder) : []),
    connect,
    async connectGreeted(connectOptions) {
      const client = await connect(connectOptions)
      await client.reply()
      await client.say('EHLO client.test')
      return client
    },
    async [Symbol.asyncDispose]() {
      await listener.close(0)
      if (options.dataDir === undefined) rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** One listener with the usual options for the tests of a file; each finds no received message and no log line. */
export function shareTestListener(): ListenerFixture {
  let fixture: ListenerFixture | undefined
  beforeAll(async () => {
    fixture = await startTestListener()
  })
  beforeEach(() => {
    fixture?.received.splice(0)
    fixture?.logged.splice(0)
  })
  afterAll(() => fixture?.[Symbol.asyncDispose]())
  return new Proxy({} as ListenerFixture, { get: (_, name) => fixture && Reflect.get(fixture, name) })
}

export interface ServerFixture extends AsyncDisposable {
  /** The clock of all limits of time. */
  readonly clock: ManualClock
  /** Files of arriving messages. */
  listSpooled(): string[]
  /** A connection after its greeting and EHLO. */
  connectGreeted(): Promise<RawSmtp>
}

export interface ServerFixtureOptions extends Omit<Partial<ListenerSettings>, 'limits'> {
  readonly limits?: Partial<ListenerSettings['limits']>
  readonly decide?: ConstructorParameters<typeof InboundServer>[0]['decide']
  readonly receive?: ConstructorParameters<typeof InboundServer>[0]['receive']
}

/** For tests of limits of time, which no other load on the machine can then exceed. */
export async function startTestServer(options: ServerFixtureOptions = {}): Promise<ServerFixture> {
  const { limits, decide, receive, ...change } = options
  const { settings, remove } = await createListenerSettings({
    ...change,
    limits: { ...LISTENER_LIMITS, ...FAST_LIMITS, ...limits },
  })
  const clock = new ManualClock()
  const server = new InboundServer({
    settings,
    clock,
    decide: decide ?? (async (address) => ({ kind: 'host', address })),
    receive: receive ?? (async () => null),
    onWarning: () => undefined,
    onDebug: () => undefined,
  })
  const [{ port } = { port: 0 }] = await server.listen()
  return {
    clock,
    listSpooled: () => readdirSync(settings.spoolFolder),
    async connectGreeted() {
      const client = await connectSmtp(port)
      await client.reply()
      await client.say('EHLO client.test')
      return client
    },
    async [Symbol.asyncDispose]() {
      server.stop()
      await server.drain()
      remove()
    },
  }
}

/** The content of a message. */
export const readContent = ({ content }: CompleteMessage): Buffer =>
  Buffer.from(content.kind === 'bytes' ? content.bytes : Bun.zstdDecompressSync(readFileSync(content.path)))

/** Sends MAIL, RCPT and DATA up to the 354; returns the reply to DATA. */
export async function beginMessage(client: RawSmtp, to = 'postmaster@tassis.test'): Promise<string> {
  await client.say('MAIL FROM:<ada@sender.test>')
  await client.say(`RCPT TO:<${to}>`)
  return client.say('DATA')
}

/** Runs a complete transaction; returns the reply to the final dot. */
export async function sendMessage(client: RawSmtp, message: string | Uint8Array): Promise<string> {
  const reply = await beginMessage(client)
  if (!reply.startsWith('354')) return reply
  await client.write(message)
  return client.say('.')
}
