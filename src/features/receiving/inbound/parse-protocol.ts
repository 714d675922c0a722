/**
 * @module The messages between the main thread and a parse Worker. Types, how attachment files are named, and the
 * answer for a message that no Worker could parse.
 */
import type { ParsedReport } from '#features/receiving/received/message.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/unknown.ts'
import type { Answer, Resolver } from '#protocols/dns/resolver.ts'
import type { ParsedMessage } from '#protocols/mime/parsed.ts'

/** A message in the store of raw messages, and what the session that brought it knew. */
export interface ParseRequest {
  readonly rawRef: number
  readonly sizeBytes: number
  /** `''`: the null reverse-path. */
  readonly mailFrom: string
  readonly sourceIp: string
  readonly helo: string
  readonly tls: string | null
  /** Our own name: what checks authentication. */
  readonly hostname: string
  /** Whether to look for a delivery, feedback or aggregate report in it. */
  readonly wantsReport: boolean
  /** How long DNS is waited for; as long as the checks have unless told. */
  readonly authenticationMs?: number
}

/** What is in a message. */
export interface ParsedContent {
  /** Left out: it cannot be parsed, for the reason in `problem`. */
  readonly message?: ParsedMessage
  readonly problem?: string
  /** Text without quoted replies; null: nothing was quoted. */
  readonly strippedText: string | null
  readonly report?: ParsedReport
  /** Why an aggregate report that it carries cannot be read. */
  readonly reportProblem?: string
}

export interface ParseResult extends ParsedContent {
  readonly authentication: AuthenticationResult
  /** True: nothing was found wrong with the message; the attempts at it failed, so another one may succeed. */
  readonly isGivenUp?: boolean
}

/** Of a message that is stored as it is, because the attempts at parsing it failed. @param problem a sentence */
export const createGivenUpResult = (problem: string): ParseResult => ({
  problem,
  strippedText: null,
  authentication: UNKNOWN_AUTHENTICATION,
  isGivenUp: true,
})

/** How the files begin that are written for a request: whoever has no use for them finds them by it. */
export const filePrefix = (id: number): string => `${id}-`

/** What the Worker asks of the main thread's resolver. */
export type DnsQueryKind = Exclude<keyof Resolver, 'close' | symbol>

/** Numbers are the main thread's for requests, and the Worker's own for questions. */
export type ToParseWorker =
  /** Before everything else. */
  | { readonly type: 'settings'; readonly rawFolder: string; readonly filesFolder: string }
  /** One at a time until it is `parsed`. */
  | { readonly type: 'parse'; readonly id: number; readonly request: ParseRequest }
  | { readonly type: 'dns'; readonly id: number; readonly answer: Answer<unknown> }

export type FromParseWorker =
  /** The answer to the settings: it has started. */
  | { readonly type: 'ready' }
  /**
   * It holds small attachments as transferred buffers, and names the files of large ones, which the main thread then
   * has.
   */
  | { readonly type: 'parsed'; readonly id: number; readonly content: ParsedContent }
  /** After `parsed`. */
  | { readonly type: 'authenticated'; readonly id: number; readonly authentication: AuthenticationResult }
  /**
   * The message could not be read from the store, or its attachments not be written; neither of the others follows.
   * `isOfRaw`: it is missing or damaged there; else storage failed, with what the system says as `code`.
   */
  | {
      readonly type: 'unreadable'
      readonly id: number
      readonly error: string
      readonly isRawLost: boolean
      readonly code: string | undefined
    }
  | { readonly type: 'dns'; readonly id: number; readonly kind: DnsQueryKind; readonly name: string }
  /** Something of our own went wrong; it goes on. */
  | { readonly type: 'warning'; readonly id: number; readonly error: string }
