/** @module What the request log has of mail submission: messages, and logins that failed with a known key. */
import type { Actor, App } from '#features/core/app/app.ts'
import { getRequestLog } from '#features/reporting/logs/request-log.ts'
import type { Authenticator } from '#features/setup/api-keys/keys.ts'
import { attempt } from '#platform/errors.ts'
import type { SmtpReply } from './replies.ts'

export interface EndedCommand {
  readonly method: 'AUTH' | 'DATA'
  /** Undefined: the key was refused. */
  readonly actor: Actor | undefined
  readonly password: string
  readonly sourceIp: string
  /** The name in EHLO. */
  readonly helo?: string | undefined
  readonly startedAtMs: number
  readonly reply: SmtpReply
  /** The code that the API has for the error. */
  readonly errorCode?: string | undefined
  readonly emailId?: string | undefined
  readonly body?: string | undefined
}

const ENHANCED_CODE = /^(\d\.\d{1,3}\.\d{1,3}) /

/** Never throws: a client whose message was accepted would send it again. */
export const recordCommand = (...parameters: Parameters<typeof record>): void =>
  void attempt(() => record(...parameters))

function record(
  app: App,
  { findOwner }: Pick<Authenticator, 'findOwner'>,
  { method, actor, password, sourceIp, helo, startedAtMs, reply, errorCode, emailId, body }: EndedCommand,
): void {
  const owner = actor ?? findOwner(password)
  if (!owner) return
  const [prefix = '', enhancedCode = ''] = ENHANCED_CODE.exec(reply.text) ?? []
  getRequestLog(app).add({
    accountId: owner.accountId,
    kind: 'smtp',
    method,
    path: null,
    status: reply.code,
    error: reply.code < 400 ? undefined : { code: errorCode ?? enhancedCode, message: reply.text.slice(prefix.length) },
    durationMs: app.clock.monotonicMs() - startedAtMs,
    actorId: owner.id,
    ipAddress: sourceIp,
    userAgent: helo ?? null,
    requestId: null,
    emailId,
    body,
  })
}
