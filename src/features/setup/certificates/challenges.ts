/** @module The answers to challenges of running orders: HTTP-01 (RFC 8555 §8.3) and TLS-ALPN-01 (RFC 8737). */
import { createHash } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { AppError } from '#platform/errors.ts'
import { createSelfSigned } from '#platform/net/self-signed.ts'
import type { Clock } from '#platform/time/clock.ts'
import type { Challenge } from '#protocols/acme/order.ts'

/** RFC 8737 §6.2. */
export const ACME_TLS_PROTOCOL = 'acme-tls/1'
/** id-pe-acmeIdentifier, RFC 8737 §6.1. */
const ACME_IDENTIFIER = '1.3.6.1.5.5.7.1.31'
const ALPN_CERTIFICATE_DAYS = 7

/** Path prefix of HTTP-01. */
export const CHALLENGE_PATH = '/.well-known/acme-challenge/'

export class Challenges {
  readonly #byToken = new Map<string, string>()
  #alpn: SecureContext | undefined

  /** The key authorisation for a token of a running order. */
  find(token: string): string | undefined {
    return this.#byToken.get(token)
  }

  /** For the TLS listener: the certificate that answers a running TLS-ALPN-01 challenge. */
  probe(): { readonly protocol: string; readonly context: SecureContext } | undefined {
    return this.#alpn && { protocol: ACME_TLS_PROTOCOL, context: this.#alpn }
  }

  /** Answers a challenge until the returned function is called. Orders run one at a time. */
  async answer({ type, host, token, keyAuthorization }: Challenge, clock: Pick<Clock, 'now'>): Promise<() => void> {
    if (type === 'http-01') {
      this.#byToken.set(token, keyAuthorization)
      return () => void this.#byToken.delete(token)
    }
    const digest = createHash('sha256').update(keyAuthorization).digest()
    this.#alpn = createSecureContext(
      await createSelfSigned({
        hostname: host,
        now: clock.now(),
        validDays: ALPN_CERTIFICATE_DAYS,
        // A DER octet string of 32 octets.
        extension: { id: ACME_IDENTIFIER, value: Buffer.concat([Buffer.from([0x04, digest.length]), digest]) },
      }),
    )
    return () => {
      this.#alpn = undefined
    }
  }
}

const UNKNOWN_TOKEN = new AppError(404, 'not_found', 'No certificate order is waiting for this token.')

/** The public route of HTTP-01: 404 except while an order runs. */
export const challengePages = (challenges: Pick<Challenges, 'find'>) =>
  new Elysia().get(
    `${CHALLENGE_PATH}:token`,
    ({ params, set }) => {
      const keyAuthorization = challenges.find(params.token)
      if (keyAuthorization === undefined) throw UNKNOWN_TOKEN
      set.headers['content-type'] = 'application/octet-stream'
      set.headers['cache-control'] = 'no-store'
      return keyAuthorization
    },
    { params: Type.Object({ token: Type.String() }), detail: { hide: true } },
  )
