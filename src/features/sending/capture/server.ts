/**
 * @module The SMTP server that receives captured mail: loopback only, no AUTH, no TLS, one recipient per transaction.
 * Accepts a message only if its MAIL FROM is a VERP address of this service, so no other program on the machine can
 * write to the store. Never relays.
 */
import type { AddressInfo, Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import {
  SMTPServer,
  type SMTPServerAddress,
  type SMTPServerDataStream,
  type SMTPServerOptions,
  type SMTPServerSession,
} from 'smtp-server'
import { SMTPConnection, type SMTPConnectionOptions } from 'smtp-server/lib/smtp-connection.js'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import { AppError } from '#platform/errors.ts'
import type { Log } from '#platform/log/log.ts'
import { seconds } from '#platform/units.ts'
import { toALabels } from '#protocols/address/domain.ts'
import { decodeVerp } from '#protocols/address/verp.ts'
import type { CaptureStore, NewCapture } from './store.ts'

export interface CaptureServerOptions {
  readonly store: Pick<CaptureStore, 'save'>
  readonly keys: Pick<KeyRing, 'subkeys'>
  /**
   * The email of a recipient, the owner whose share of the store this email uses, and the account whose inbox lists it;
   * undefined for an unknown recipient.
   */
  readonly findEmail: (recipientId: number) => Pick<NewCapture, 'emailId' | 'ownerId' | 'accountId'> | undefined
  /** Host name in the greeting. */
  readonly hostname: string
  /** Larger messages are rejected with 552; also limits the memory of one session. */
  readonly maxMessageBytes: number
  readonly log: Log
}

/** An SMTP server of this process. */
export interface LocalServer {
  readonly host: string
  readonly port: number
  /** Ends the sessions and, of the capture server, waits for pending writes. */
  close(): Promise<void>
  /** Closes the connection of a session without a reply. */
  drop(session: SMTPServerSession): void
}

const HOST = '127.0.0.1'
/** How long `close` waits for a session that is receiving a message. */
const CLOSE_TIMEOUT_MS = seconds(2)

/** The caller closes the store after the server. */
export async function startCaptureServer(options: CaptureServerOptions): Promise<LocalServer> {
  const { store, log, maxMessageBytes } = options
  const saving = new Set<Promise<void>>()

  const findRecipient = (mailFrom: SMTPServerAddress | false) => {
    const localPart = mailFrom === false ? '' : mailFrom.address.slice(0, mailFrom.address.lastIndexOf('@'))
    const recipientId = decodeVerp(localPart, options.keys.subkeys('verp'))?.recipientId
    const email = recipientId === undefined ? undefined : options.findEmail(recipientId)
    return recipientId === undefined || email === undefined ? undefined : { recipientId, ...email }
  }

  const save = async ({ envelope }: SMTPServerSession, raw: Uint8Array): Promise<void> => {
    const recipient = findRecipient(envelope.mailFrom)
    if (!recipient || envelope.mailFrom === false) throw createForeignSenderError()
    const [rcptTo] = envelope.rcptTo
    if (!rcptTo) throw new Error('DATA without a recipient')
    const message = { mailFrom: toEnvelopeAddress(envelope.mailFrom), rcptTo: toEnvelopeAddress(rcptTo), raw }
    await store.save({ ...recipient, ...message })
  }

  const toReplyError = (error: unknown): SmtpReplyError => {
    if (error instanceof SmtpReplyError) return error
    log.warn({ err: error }, 'captured message not stored; its delivery will be retried')
    return error instanceof AppError && error.code === 'insufficient_storage'
      ? new SmtpReplyError(452, '4.3.1 Insufficient system storage')
      : new SmtpReplyError(451, '4.3.0 Local error in processing')
  }

  const server = await startLocalServer(log, {
    name: options.hostname,
    banner: 'capture',
    size: maxMessageBytes,
    onMailFrom(mailFrom, _session, done) {
      let rejection: SmtpReplyError | null
      try {
        rejection = findRecipient(mailFrom) ? null : createForeignSenderError()
      } catch (error) {
        rejection = toReplyError(error)
      }
      done(rejection)
    },
    onData(stream, session, done) {
      collectMessage(stream, (raw) => {
        const saved = raw ? save(session, raw) : Promise.reject(createTooLargeError(maxMessageBytes))
        const answered = saved
          .then(
            () => done(null, '2.6.0 Captured'),
            (error: unknown) => done(toReplyError(error)),
          )
          .finally(() => saving.delete(answered))
        saving.add(answered)
      })
    },
  })
  return {
    ...server,
    async close() {
      await server.close()
      await Promise.all(saving)
    },
  }
}

/**
 * Starts a server for mail from this process: on a free port of the loopback address, without AUTH and TLS, for one
 * recipient in a transaction. Rejects with the system error.
 */
export async function startLocalServer(log: Log, options: SMTPServerOptions): Promise<LocalServer> {
  const server = new PromptSmtpServer({
    authOptional: true,
    disabledCommands: ['AUTH', 'STARTTLS'],
    disableReverseLookup: true,
    logger: false,
    maxRecipients: 1,
    closeTimeout: CLOSE_TIMEOUT_MS,
    ...options,
  })
  server.on('error', (error) => log.debug({ err: error }, 'session of this process failed'))
  await new Promise<void>((resolve, reject) => {
    server.server.once('error', reject)
    server.listen(0, HOST, () => {
      server.server.off('error', reject)
      resolve()
    })
  })
  return {
    host: HOST,
    port: (server.server.address() as AddressInfo).port,
    close: () => new Promise((resolve) => server.close(resolve)),
    drop(session) {
      for (const connection of server.connections) if (connection.session === session) connection.close()
    },
  }
}

/** The reply that smtp-server sends; the message starts with the enhanced status code (RFC 3463). */
export class SmtpReplyError extends Error {
  readonly responseCode: number

  constructor(responseCode: number, message: string) {
    super(message)
    this.responseCode = responseCode
  }
}

const createForeignSenderError = () => new SmtpReplyError(550, '5.7.1 Only mail from this service is accepted')
const createTooLargeError = (maxBytes: number) =>
  new SmtpReplyError(552, `5.3.4 Message size exceeds limit of ${maxBytes} octets`)

/** smtp-server returns domains in Unicode; the envelope has A-labels. */
function toEnvelopeAddress({ address }: SMTPServerAddress): string {
  const at = address.lastIndexOf('@')
  const domain = address.slice(at + 1)
  return `${address.slice(0, at + 1)}${toALabels(domain) ?? domain}`
}

/**
 * Calls `done` with the whole message, or with undefined if it was too large; does not call it if the connection was
 * lost early. Copies the chunks into one buffer: smtp-server emits a chunk for each line that starts with a dot, and a
 * list of such chunks can use a hundred times the memory of the message.
 */
function collectMessage(stream: SMTPServerDataStream, done: (raw: Uint8Array | undefined) => void): void {
  const sink = new Bun.ArrayBufferSink()
  sink.start({ asUint8Array: true })
  stream.on('data', (chunk: Uint8Array) => {
    if (!stream.sizeExceeded) sink.write(chunk)
  })
  stream.on('error', () => sink.end())
  stream.on('end', () => {
    const raw = sink.end()
    done(stream.sizeExceeded ? undefined : raw instanceof Uint8Array ? raw : new Uint8Array(raw))
  })
}

/** Greets immediately. Not for listeners that remote clients can reach. */
class PromptSmtpServer extends SMTPServer {
  override connect(socket: Socket | TLSSocket, options?: SMTPConnectionOptions | null): void {
    const connection = new PromptConnection(this, socket, options)
    this.connections.add(connection)
    connection.on('error', (error: Error) => this.emit('error', error))
    connection.init()
  }
}

class PromptConnection extends SMTPConnection {
  #isReady = false

  override init(): void {
    super.init()
    this.connectionReady()
  }

  /** Called by `init` above, and by smtp-server when the delay that `init` started has ended. */
  override connectionReady(next?: () => void): void {
    if (this.#isReady) return
    this.#isReady = true
    super.connectionReady(next)
  }
}
