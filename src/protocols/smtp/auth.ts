/**
 * @module Authenticates with AUTH (RFC 4954): PLAIN (RFC 4616) or, if the server does not offer PLAIN, LOGIN. The
 * caller decides whether the connection may carry a password.
 */
import { isReply, type ReplyOrFailure, type SmtpChannel } from './channel.ts'
import type { SmtpFailure } from './failures.ts'
import type { SmtpReply } from './replies.ts'

export interface SmtpCredentials {
  readonly user: string
  readonly password: string
}

export type AuthResult =
  | { readonly kind: 'authenticated' }
  | { readonly kind: 'refused'; readonly reply: SmtpReply }
  | { readonly kind: 'failed'; readonly failure: SmtpFailure }

/** Authenticates with the first of PLAIN and LOGIN that the server offers. Passwords never reach the transcript. */
export async function authenticate(
  channel: SmtpChannel,
  mechanisms: readonly string[],
  credentials: SmtpCredentials,
  timeoutMs: number,
): Promise<AuthResult> {
  const { user, password } = credentials
  let steps: Step[]
  if (mechanisms.includes('PLAIN')) {
    const response = encodeBase64(`\0${user}\0${password}`)
    steps = [{ line: `AUTH PLAIN ${response}`, transcriptText: 'AUTH PLAIN [credentials]' }]
  } else if (mechanisms.includes('LOGIN')) {
    steps = [
      { line: 'AUTH LOGIN', transcriptText: 'AUTH LOGIN' },
      { line: encodeBase64(user), transcriptText: '[user]' },
      { line: encodeBase64(password), transcriptText: '[password]' },
    ]
  } else {
    return {
      kind: 'failed',
      failure: { kind: 'other', message: 'The server offers neither AUTH PLAIN nor AUTH LOGIN' },
    }
  }
  for (const [index, step] of steps.entries()) {
    channel.writeCommand(`${step.line}\r\n`, 1, step.transcriptText)
    const answer = await channel.readReply(timeoutMs, 'AUTH')
    const failure = toFailure(answer, index < steps.length - 1)
    if (failure) return failure
  }
  return { kind: 'authenticated' }
}

interface Step {
  readonly line: string
  readonly transcriptText: string
}

/**
 * Returns the failure that a reply means; undefined when the reply is the expected one: 334, or 235 after the last
 * step.
 */
function toFailure(answer: ReplyOrFailure, hasMoreSteps: boolean): AuthResult | undefined {
  if (!isReply(answer)) return { kind: 'failed', failure: answer }
  if (answer.code >= 400) return { kind: 'refused', reply: answer }
  if (answer.code === (hasMoreSteps ? 334 : 235)) return undefined
  return { kind: 'failed', failure: { kind: 'protocol', message: `The server answered AUTH with ${answer.text}` } }
}

const encodeBase64 = (text: string): string => Buffer.from(text).toString('base64')
