/**
 * @module Checks the logins of SMTP clients. A password is an API key, whose hash is looked up, so that the time of a
 * check says nothing about a key; failures are limited by network and by key.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import type { Login, SubmissionHandlers } from '#features/receiving/inbound/listener/protocol.ts'
import type { Authenticator } from '#features/setup/api-keys/keys.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { AppError } from '#platform/errors.ts'
import { createNetworkLimiter, createRateLimiter, type Rate } from '#platform/http/rate-limit.ts'
import { createReply, INVALID_KEY, NO_KEY, type SmtpReply } from './replies.ts'

const FAILURES_OF_NETWORK: Rate = { burst: 20, ratePerSecond: 20 / 60 }
/** A key that was deleted stays in the settings of many machines. */
const FAILURES_OF_KEY: Rate = { burst: 10, ratePerSecond: 10 / 60 }

const NO_SCOPE = createReply(535, '5.7.8', 'This API key may not send; use one with the scope emails:send')
const createTooManyReply = (seconds: number): SmtpReply =>
  createReply(454, '4.7.0', `Too many failed logins; wait ${seconds} s, and correct the password`)

export function createLogins(
  app: Pick<App, 'clock'>,
  authenticator: Pick<Authenticator, 'authenticate'>,
): SubmissionHandlers['logIn'] {
  const networks = createNetworkLimiter(app.clock, FAILURES_OF_NETWORK)
  const keys = createRateLimiter(app.clock)
  return async ({ password }, sourceIp): Promise<Login | SmtpReply> => {
    const name = sha256(password).toHex()
    // The key first, so that one wrong key in a program does not use up the limit of its network.
    const ofKey = keys.take(name, 1, FAILURES_OF_KEY)
    if (!ofKey.ok) return createTooManyReply(ofKey.retryAfterSeconds)
    const ofNetwork = networks.take(sourceIp)
    if (!ofNetwork.ok) return createTooManyReply(ofNetwork.retryAfterSeconds)
    const actor = findActor(authenticator, password, sourceIp)
    if (!actor) return password === '' ? NO_KEY : INVALID_KEY
    if (actor instanceof AppError) return createReply(535, '5.7.8', actor.message)
    // Only failures count.
    networks.charge(sourceIp, -1)
    keys.charge(name, -1, FAILURES_OF_KEY)
    return hasScope(actor.scopes, 'emails:send') ? { accountId: actor.accountId } : NO_SCOPE
  }
}

/** The actor of a key, or why the key is not valid now or from here; undefined for an unknown key. */
export function findActor(
  authenticator: Pick<Authenticator, 'authenticate'>,
  key: string,
  sourceIp: string,
): Actor | AppError | undefined {
  try {
    return authenticator.authenticate(key, () => sourceIp)
  } catch (error) {
    if (error instanceof AppError) return error
    throw error
  }
}
