/** @module What a tool is: a row that says which method of the client it calls, and what it shows of the response. */
import { type Static, type TObject, type TProperties, Type } from '@sinclair/typebox'
import type { Api } from '#client/api.ts'
import type { Scope } from '#features/setup/api-keys/scopes.ts'
import type { View, Whole } from './view.ts'

export interface Tool {
  readonly name: string
  readonly title: string
  /** For the model; its first sentence is also in the documentation. */
  readonly description: string
  /** All of these are needed to see and to call the tool; its routes need no further ones. */
  readonly scopes: readonly [Scope, ...Scope[]]
  readonly effect: Effect
  readonly input: TObject
  readonly view: View
  /** Calls the API with the caller's own key, so that every check, limit and audit entry is that of the route. */
  readonly run: (api: Api, input: never) => PromiseLike<unknown>
}

/**
 * `read`: changes nothing. `write`: changes something, and once more when repeated. `repeatable`: repeating it changes
 * nothing further.
 */
export type Effect = 'read' | 'write' | 'repeatable'

const withEffect =
  (effect: Effect) =>
  (...scopes: Tool['scopes']) => ({ effect, scopes })
export const reads = withEffect('read')
export const writes = withEffect('write')
export const repeats = withEffect('repeatable')

/** Declares a tool: `run` gets its input in the type of the schema, and the view fits what `run` returns. */
export const defineTool = <Input extends TProperties, Result>({
  input,
  ...tool
}: Omit<Tool, 'name' | 'title' | 'input' | 'view' | 'run'> & {
  readonly input: Input
  readonly run: (api: Api, input: Static<TObject<Input>>) => PromiseLike<Result>
  readonly view: View<Whole<NoInfer<Result>>>
}): Omit<Tool, 'name' | 'title'> => ({
  ...tool,
  input: Type.Object<TProperties>(input, { additionalProperties: false }),
})

export const pick = <T extends TObject, Name extends keyof T['properties'] & string>(
  { properties }: T,
  ...names: readonly Name[]
) => Object.fromEntries(names.map((name) => [name, properties[name]])) as Pick<T['properties'], Name>

const UUID = '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'

export const Id = (description: string) => Type.String({ pattern: UUID, description, errorMessage: 'a UUID' })

export const Words = (description: string) => Type.String({ maxLength: 1000, description })

export const maybe = Type.Optional

const MAX_ROWS = 50
const DEFAULT_ROWS = 20

export const PAGE = {
  limit: maybe(Type.Integer({ minimum: 1, maximum: MAX_ROWS, description: `Maximum rows; default ${DEFAULT_ROWS}.` })),
  cursor: maybe(Words('`next_cursor` of the previous answer, for the rows after it.')),
}

/** The query of a list from an input with PAGE. */
export const toQuery = <T extends { readonly limit?: number; readonly cursor?: string }>({
  limit = DEFAULT_ROWS,
  ...query
}: T) => ({ ...query, per_page: limit })
