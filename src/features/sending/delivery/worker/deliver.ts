/**
 * @module One delivery attempt to one recipient: composes (`compose.ts`), signs, and runs a transaction at the first
 * host that accepts the connection. Runs in a Worker. Never classifies a reply and never touches the main database.
 */
import type { ContentReader } from '#platform/content/read.ts'
import { KiB } from '#platform/units.ts'
import { RelaxedBodyHash } from '#protocols/dkim/body-hash.ts'
import { createSignatureFields } from '#protocols/dkim/sign.ts'
import { isUnencoded } from '#protocols/mime/attachment.ts'
import type { TransactionResult } from '#protocols/smtp/client.ts'
import { composeUnsigned, type SharedBody } from '../message/compose.ts'
import type { AttemptResult, AttemptSession, DeliverJob, TrackingSettings } from '../model/protocol.ts'
import type { AttemptTrace } from './attempt-trace.ts'
import { ATTEMPT_TIMEOUT, type Connection, type Connections, listTargets } from './connections.ts'
import type { SessionPool } from './session-pool.ts'
import type { SigningKeys } from './signing-keys.ts'

export interface TransmitOptions {
  /** Resolves when the start of DATA is durable; rejects when nothing may be sent. */
  readonly beforeBody: () => Promise<void>
  /** Aborted when the attempt takes too long: the session of the attempt is closed, and no other is opened. */
  readonly signal: AbortSignal
  readonly trace: AttemptTrace
}

export interface Attempt {
  readonly result: AttemptResult
  readonly session: AttemptSession | undefined
}

/**
 * Composes and signs the message of a job; the same job always produces the same bytes. Yields regularly, so that a
 * large message does not block the SMTP sessions of other accounts in this Worker.
 * @param shared the parts that recipients of this email share
 */
export function* prepareMessage(
  job: DeliverJob,
  shared: SharedBody,
  content: ContentReader,
  keys: Pick<SigningKeys, 'get'>,
  tracking: TrackingSettings,
): Generator<void, readonly Buffer[]> {
  const { dkim } = job
  const { header, body, isAllShared } = yield* composeUnsigned(job, shared, content, tracking)
  const bodyHash = (isAllShared ? shared.bodyHash : undefined) ?? (yield* hashBody(body))
  if (isAllShared) shared.bodyHash = bodyHash
  const signatures = dkim.keys.map(({ id, selector }) => ({ domain: dkim.domain, selector, signer: keys.get(id) }))
  return [createSignatureFields(header, bodyHash, signatures), header, ...body]
}

/** Octets hashed between two yields. */
const HASH_CHUNK_BYTES = 128 * KiB

function* hashBody(body: readonly Buffer[]): Generator<void, string> {
  const hash = new RelaxedBodyHash()
  let hashedBytes = 0
  for (const piece of body) {
    for (let from = 0; from < piece.length; from += HASH_CHUNK_BYTES) {
      const chunk = piece.subarray(from, from + HASH_CHUNK_BYTES)
      hash.update(chunk)
      hashedBytes += chunk.length
      if (hashedBytes < HASH_CHUNK_BYTES) continue
      hashedBytes = 0
      yield
    }
  }
  return hash.digest()
}

/**
 * How many hosts may reject an attempt with a 4xx before the attempt ends. RFC 5321 §5.1 asks to try each host, but
 * greylisting, full mailboxes and throttling are the same at all hosts of a site, so trying more hosts would cost
 * sessions without effect.
 */
const MAX_REJECTING_HOSTS = 3

/**
 * Sends a prepared message over an idle session of the site, or else over a new session to the first address of the
 * route that accepts one. As long as no octet of the message was sent, a lost session is followed by the next address,
 * and a 4xx rejection by the next host. A reused session that the server ended is simply replaced. A 5xx is final for
 * the domain, whichever host returns it.
 */
export async function transmit(
  job: DeliverJob,
  message: readonly Uint8Array[],
  connections: Connections,
  sessions: SessionPool,
  { beforeBody, signal, trace }: TransmitOptions,
): Promise<Attempt> {
  const { route } = job
  const targets = listTargets(route)
  const rejectingHosts = new Set<string>()
  let rejection: Attempt | undefined
  let next = 0
  let connection = sessions.reuse(route.site)
  for (;;) {
    if (!connection) {
      await sessions.waitForCapacity()
      const opened = await connections.open(route, next, rejectingHosts, signal, trace)
      next = opened.next
      if (opened.kind !== 'open') {
        if (rejection) return rejection
        // We ended the attempt because the site was slow. The site is not reported as unreachable, because that would
        // cause a backoff for other mail.
        const ended = signal.aborted ? ({ kind: 'lost', phase: 'mail', failure: ATTEMPT_TIMEOUT } as const) : opened
        return { result: ended, session: undefined }
      }
      connection = opened.connection
    }
    let result: TransactionResult
    const { client, session, isReused } = connection
    connection.user.trace = trace
    if (isReused) trace.beginServer(session.host, session.address, 'reusing the session with')
    const close = () => client.destroy(ATTEMPT_TIMEOUT)
    signal.addEventListener('abort', close)
    try {
      result = await sendOverConnection(connection, job, message, beforeBody, trace)
    } finally {
      signal.removeEventListener('abort', close)
      // This host was tried only after another one had rejected the message. The session ends, because the messages
      // that follow must go to the hosts in order of preference (RFC 5321 §5.1).
      connection.user.trace = undefined
      if (rejection) sessions.close(connection)
      else sessions.release(route.site, connection)
    }
    if ('failure' in result) trace.note(result.failure.message)
    const attempt = { result, session: isReused ? toReusedSession(session) : session }
    // Servers end sessions that were idle or carried many messages; that is not a failure of the host.
    const isStaleSession = isReused && hasEndedSession(result)
    const isRejected = isTemporaryRejection(result) && !isStaleSession
    if (isRejected) {
      rejectingHosts.add(session.host)
      rejection = attempt
    }
    if (signal.aborted || !(result.kind === 'lost' || isTemporaryRejection(result))) return attempt
    const hasNext = targets.slice(next).some(({ host }) => !rejectingHosts.has(host))
    if (!(isStaleSession || hasNext) || rejectingHosts.size >= MAX_REJECTING_HOSTS) return rejection ?? attempt
    connection = rejection ? undefined : sessions.reuse(route.site)
  }
}

/** Its TLS was counted with the first message. */
function toReusedSession({ tlsFailures: _, ...session }: AttemptSession): AttemptSession {
  return { ...session, isReused: true }
}

const hasEndedSession = (result: TransactionResult): boolean =>
  result.kind === 'lost' || (result.kind === 'refused' && result.reply.code === 421)

/** Whether a 4xx came before any octet of the message was sent: then the next host may accept the message. */
const isTemporaryRejection = (result: TransactionResult): boolean =>
  result.kind === 'refused' && result.phase !== 'body' && result.reply.code < 500

const sendOverConnection = (
  { client }: Connection,
  job: DeliverJob,
  message: readonly Uint8Array[],
  beforeBody: () => Promise<void>,
  trace: AttemptTrace,
) =>
  client.send({
    mailFrom: job.mailFrom,
    rcptTo: job.rcptTo,
    message,
    smtpUtf8: job.smtpUtf8,
    eightBit: job.compose.attachments.some(isUnencoded),
    beforeBody,
    onPhaseEnd: trace.endPhase,
  })
