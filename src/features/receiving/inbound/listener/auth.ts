/**
 * @module The AUTH exchange of an SMTP session (RFC 4954) with the mechanisms PLAIN (RFC 4616) and LOGIN. Pure: reads
 * what the client sends, and never decides whether its credentials are right.
 */
import type { Credentials } from './protocol.ts'
import { REPLIES, type Reply } from './replies.ts'

export type AuthStep =
  /** The client is asked for more: a 334 with this text. */
  | { readonly kind: 'challenge'; readonly text: string }
  | { readonly kind: 'credentials'; readonly credentials: Credentials }
  | { readonly kind: 'rejected'; readonly reply: Reply }

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

export class AuthExchange {
  readonly #mechanism: 'PLAIN' | 'LOGIN'
  /** Of LOGIN, once the client sent it. */
  #username: string | undefined

  private constructor(mechanism: 'PLAIN' | 'LOGIN') {
    this.#mechanism = mechanism
  }

  /** Begins with the line `AUTH mechanism [initial-response]`. */
  static begin(line: string): { readonly exchange: AuthExchange; readonly step: AuthStep } | Reply {
    const [, mechanism = '', initial, ...others] = line.trim().split(/\s+/)
    if (mechanism === '' || others.length > 0) return REPLIES.authSyntax
    const name = mechanism.toUpperCase()
    if (name !== 'PLAIN' && name !== 'LOGIN') return REPLIES.unknownMechanism
    const exchange = new AuthExchange(name)
    return { exchange, step: initial === undefined ? exchange.#ask() : exchange.read(initial) }
  }

  /** Reads the client's answer to a challenge. */
  read(line: string): AuthStep {
    if (line === '*') return { kind: 'rejected', reply: REPLIES.authAborted }
    // RFC 4954 §4: an empty initial response is a single "=".
    const text = line === '=' ? '' : decode(line)
    if (text === undefined) return { kind: 'rejected', reply: REPLIES.badBase64 }
    if (this.#mechanism === 'PLAIN') return readPlain(text)
    if (this.#username === undefined) {
      this.#username = text
      return this.#ask()
    }
    return { kind: 'credentials', credentials: { username: this.#username, password: text } }
  }

  #ask(): AuthStep {
    if (this.#mechanism === 'PLAIN') return { kind: 'challenge', text: '' }
    const prompt = this.#username === undefined ? 'Username:' : 'Password:'
    return { kind: 'challenge', text: Buffer.from(prompt).toString('base64') }
  }
}

/** RFC 4616 §2: authorisation identity, NUL, user name, NUL, password. */
function readPlain(text: string): AuthStep {
  const [, username, password, ...others] = text.split('\0')
  if (username === undefined || password === undefined || others.length > 0)
    return { kind: 'rejected', reply: REPLIES.badBase64 }
  return { kind: 'credentials', credentials: { username, password } }
}

const decode = (text: string): string | undefined =>
  BASE64.test(text) && text.length % 4 === 0 ? Buffer.from(text, 'base64').toString('utf8') : undefined
