/** @module What a tool is, and how it calls the API. */
import { type Static, type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { Scope } from '#features/setup/api-keys/scopes.ts'
import type { View } from './view.ts'

/** A request to /v1 with the caller's own key, so that every check, limit and audit entry is that of the route. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** The path below /v1, such as `/emails`; made with `path`. */
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | undefined>>
  readonly body?: object
  /** For the header `Idempotency-Key`. */
  readonly idempotencyKey?: string
}

/** Calls the API; throws `ApiError` for any response that is not a success. Undefined: a response without a body. */
export type CallApi = (request: ApiRequest) => Promise<unknown>

/** An error of the API. Its message is ours and says how to fix the problem. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly retryAfterSeconds: number | undefined

  constructor(status: number, { code, message, retry_after: retryAfter }: Partial<ApiErrorBody>) {
    super(message ?? `The service responded with status ${status}.`)
    this.status = status
    this.code = code ?? 'unknown'
    this.retryAfterSeconds = retryAfter
  }
}

interface ApiErrorBody {
  readonly code: string
  readonly message: string
  readonly retry_after: number
}

export interface Tool {
  readonly name: string
  readonly title: string
  readonly description: string
  /** All of these are needed to see and to call the tool; further ones may be needed by its routes. */
  readonly scopes: readonly [Scope, ...Scope[]]
  readonly effect: Effect
  readonly input: TObject
  readonly view: View
  readonly run: (call: CallApi, input: never) => Promise<unknown>
}

/**
 * `read`: changes nothing. `write`: changes something, and once more when repeated. `repeatable`: repeating it changes
 * nothing further.
 */
export type Effect = 'read' | 'write' | 'repeatable'

/** Declares a tool; `run` gets its input in the type of the schema. */
export const defineTool = <Input extends TObject>(
  tool: Omit<Tool, 'input' | 'run'> & {
    readonly input: Input
    readonly run: (call: CallApi, input: Static<Input>) => Promise<unknown>
  },
): Tool => tool

/** A path with parts of the input, encoded, so that no part can lead to another route. */
export const path = (parts: TemplateStringsArray, ...inputs: readonly string[]): string =>
  parts.reduce((whole, part, i) => `${whole}${encodeURIComponent(inputs[i - 1] ?? '')}${part}`)

export const input = <T extends Record<string, TSchema>>(properties: T) =>
  Type.Object(properties, { additionalProperties: false })

const UUID = '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'

export const Id = (description: string) => Type.String({ pattern: UUID, description, errorMessage: 'a UUID' })

/** A short text, as a filter takes it. */
export const Words = (description: string) => Type.String({ maxLength: 1000, description })

export const maybe = Type.Optional

const MAX_ROWS = 50

/** Input fields of every list. */
export const PAGE = {
  limit: maybe(Type.Integer({ minimum: 1, maximum: MAX_ROWS, description: 'Maximum rows; default 20.' })),
  cursor: maybe(Words('`next_cursor` of the previous answer, for the rows after it.')),
}

/** The query for PAGE. */
export const pageQuery = (limit = 20, cursor?: string) => ({ per_page: limit, cursor })

/** `data` of a response. */
export const dataOf = (body: unknown): unknown => (body as { readonly data?: unknown } | undefined)?.data
