/**
 * @module Orders a certificate for one host name (RFC 8555 §7.4, §7.5, §8): order, challenge, finalisation, download.
 */
import { parseRetryAfter } from '../http/retry-after.ts'
import { AcmeError, type AcmeResponse, type AcmeSession, describeProblem, type JsonObject } from './session.ts'

/** How a host is validated: RFC 8555 §8.3, RFC 8737. */
export type ChallengeType = 'http-01' | 'tls-alpn-01'

export interface Challenge {
  readonly type: ChallengeType
  readonly host: string
  readonly token: string
  readonly keyAuthorization: string
}

export interface OrderOptions {
  /** A name in A-labels and lower case. */
  readonly host: string
  /** The request for the certificate (PKCS #10, DER). */
  readonly csr: Uint8Array
  /** The first of these that the server offers is used. */
  readonly challengeTypes: readonly ChallengeType[]
  /** Begins to answer a challenge; the returned function ends that. */
  readonly answer: (challenge: Challenge) => Promise<() => void>
  /** Waits between two looks at a resource; rejects when the order has to end. */
  readonly sleep: (ms: number) => Promise<void>
}

const MAX_AUTHORIZATIONS = 4
/** Limits a server that stays `pending`; `sleep` has a limit too. */
const MAX_POLLS = 60
const MIN_POLL_MS = 500
const MAX_POLL_MS = 10_000
const DEFAULT_POLL_MS = 1000

/**
 * Returns the certificate chain in PEM, unchecked. Throws `AcmeError`: of scope `order` when the host could not be
 * validated or the server refused.
 */
export async function orderCertificate(session: AcmeSession, options: OrderOptions): Promise<string> {
  const { host, csr } = options
  const created = await session.post(session.endpoint('newOrder'), { identifiers: [{ type: 'dns', value: host }] })
  const orderUrl = created.response.header('location')
  const { authorizations, finalize } = created.object
  if (!Array.isArray(authorizations) || authorizations.length > MAX_AUTHORIZATIONS)
    throw new AcmeError('server', 'The ACME server sent an order without usable authorizations.')
  for (const url of authorizations) await authorise(session, url, options)
  await waitFor(session, orderUrl, options, ['ready', 'valid'], ['pending'], 'The order')
  await session.post(finalize, { csr: Buffer.from(csr).toString('base64url') })
  const done = await waitFor(session, orderUrl, options, ['valid'], ['ready', 'processing'], 'The order')
  return await session.readCertificate(done['certificate'])
}

async function authorise(session: AcmeSession, url: unknown, options: OrderOptions): Promise<void> {
  const { host, challengeTypes } = options
  const { object } = await session.post(url)
  const identifier = toObject(object['identifier'])
  if (identifier['type'] !== 'dns' || identifier['value'] !== host)
    throw new AcmeError('server', `The ACME server wants proof for a name other than ${host}.`)
  if (object['status'] === 'valid') return
  const offered = (Array.isArray(object['challenges']) ? object['challenges'] : []).map(toObject)
  const challenge = challengeTypes
    .map((type) => offered.find((one) => one['type'] === type))
    .find((found) => found !== undefined)
  const token = challenge?.['token']
  // RFC 8555 §8.1: base64url. It becomes part of a path, and of the answer.
  if (challenge === undefined || typeof token !== 'string' || !/^[\w-]{20,256}$/.test(token))
    throw new AcmeError(
      'order',
      `The ACME server offers no usable challenge for ${host} (${challengeTypes.join(', ')}).`,
    )
  const keyAuthorization = session.key.authorise(token)
  const type = challenge['type'] as ChallengeType
  const stop = await options.answer({ type, host, token, keyAuthorization })
  try {
    await session.post(challenge['url'], {})
    await waitFor(session, url, options, ['valid'], ['pending', 'processing'], `Validation by ${type}`)
  } finally {
    stop()
  }
}

/** Reads a resource until it has one of the `wanted` states. Throws when its state is neither one of them nor `open`. */
async function waitFor(
  session: AcmeSession,
  url: unknown,
  { sleep, host }: OrderOptions,
  wanted: readonly string[],
  open: readonly string[],
  what: string,
): Promise<JsonObject> {
  for (let poll = 0; poll < MAX_POLLS; poll++) {
    const { response, object } = await session.post(url)
    const { status } = object
    if (typeof status === 'string' && wanted.includes(status)) return object
    if (typeof status !== 'string' || !open.includes(status)) {
      const { type, message } = findProblem(object)
      throw new AcmeError('order', `${what} for ${host} failed: ${message ?? 'the ACME server gives no reason'}`, {
        ...(type !== undefined && { type }),
      })
    }
    await sleep(pollDelay(response, session))
  }
  throw new AcmeError('server', `${what} for ${host} did not end.`)
}

const pollDelay = (response: AcmeResponse, session: AcmeSession): number =>
  Math.min(
    Math.max(parseRetryAfter(response.header('retry-after'), session.now()) ?? DEFAULT_POLL_MS, MIN_POLL_MS),
    MAX_POLL_MS,
  )

/** The problem of an order, or of the challenge that failed. */
function findProblem(object: JsonObject): ReturnType<typeof describeProblem> {
  const challenges = Array.isArray(object['challenges']) ? object['challenges'] : []
  for (const source of [object, ...challenges.map(toObject)]) {
    const problem = describeProblem(source['error'])
    if (problem.message !== undefined) return problem
  }
  return {}
}

const toObject = (value: unknown): JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {}
