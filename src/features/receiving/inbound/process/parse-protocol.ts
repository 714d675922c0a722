/**
 * @module The messages between the main thread and a parse Worker, the names of attachment files, and the result for a
 * message that no Worker could parse.
 */
import type { CompleteMessage, ParsedReport, SessionFacts } from '#features/receiving/received/message.ts'
import { type AuthenticationResult, UNKNOWN_AUTHENTICATION } from '#protocols/authentication/result.ts'
import type { Answer, Resolver } from '#protocols/dns/resolver.ts'
import type { ParsedMessage } from '#protocols/mime/parsed.ts'

/** A message in the store of raw messages, and facts from its session. */
export interface ParseRequest extends SessionFacts {
  readonly rawRef: number
  /** A message that a client submits, in place of a stored one: without authentication and files. */
  readonly submitted?: CompleteMessage['content']
  /** Our hostname, which authentication results name. */
  readonly hostname: string
  /** Whether to look for a delivery, feedback or aggregate report. */
  readonly wantsReport: boolean
}

export interface ParsedContent {
  /** Absent: it cannot be parsed, for the reason in `problem`. */
  readonly message?: ParsedMessage
  readonly problem?: string
  /** Text without quoted replies; null: nothing was quoted. */
  readonly strippedText: string | null
  readonly report?: ParsedReport
  /** Why the message's aggregate report cannot be read. */
  readonly reportProblem?: string
}

export interface ParseResult extends ParsedContent {
  readonly authentication: AuthenticationResult
  /** True: parsing was attempted and failed, but the message may be fine, so another attempt may succeed. */
  readonly isGivenUp?: boolean
}

/** The result, with a sentence, for a message that is stored unparsed because parsing failed repeatedly. */
export const createGivenUpResult = (problem: string): ParseResult => ({
  problem,
  strippedText: null,
  authentication: UNKNOWN_AUTHENTICATION,
  isGivenUp: true,
})

/** Prefix of the files written for a request, by which unused ones are found. */
export const filePrefix = (id: number): string => `${id}-`

/** DNS queries that the Worker sends to the main thread's resolver. */
export type DnsQueryKind = Exclude<keyof Resolver, 'close' | symbol>

/** The main thread numbers requests; the Worker numbers its DNS queries. */
export type ToParseWorker =
  /** Sent first. */
  | { readonly type: 'settings'; readonly rawFolder: string; readonly filesFolder: string }
  /** One at a time: the next one follows `parsed`. */
  | { readonly type: 'parse'; readonly id: number; readonly request: ParseRequest }
  | { readonly type: 'dns'; readonly id: number; readonly answer: Answer<unknown> }

export type FromParseWorker =
  /** Reply to the settings: the Worker has started. */
  | { readonly type: 'ready' }
  /** Small attachments are transferred buffers; files of large ones now belong to the main thread. */
  | { readonly type: 'parsed'; readonly id: number; readonly content: ParsedContent }
  /** Follows `parsed`. */
  | { readonly type: 'authenticated'; readonly id: number; readonly authentication: AuthenticationResult }
  /**
   * The message could not be read from the store, or its attachments could not be written; no other reply follows.
   * `isRawLost`: it is missing or corrupt there; otherwise storage failed, with the system's `code`.
   */
  | {
      readonly type: 'unreadable'
      readonly id: number
      readonly error: string
      readonly isRawLost: boolean
      readonly code: string | undefined
    }
  | { readonly type: 'dns'; readonly id: number; readonly kind: DnsQueryKind; readonly name: string }
  /** A local error; work continues. */
  | { readonly type: 'warning'; readonly id: number; readonly error: string }
