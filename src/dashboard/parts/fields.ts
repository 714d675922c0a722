/** @module The fields of a form as a table: what an input shows of the API, and what becomes of it in the body of a request. */
import type { ReactNode } from 'react'
import { TassisError } from '#client/client.ts'
import { toLocalMinute } from './format.ts'
import { toInstant } from './zone.ts'

type TextKind = 'text' | 'code' | 'email' | 'password' | 'lines' | 'source' | 'json' | 'words' | 'time' | 'choice'

interface Option {
  readonly value: string
  readonly label: string
  readonly description?: string
  readonly disabled?: boolean
}

export interface Field<Name extends string = string> {
  /** In the body of the request, and in its errors; a dot separates an object from the name in it. */
  readonly name: Name
  /** Another name that it has in errors. */
  readonly errorName?: string
  /** Default: its name in words. */
  readonly label?: ReactNode
  /** Default: text. Words become an array, an empty time or number becomes null. */
  readonly kind?: TextKind | 'number' | 'check' | 'switch' | 'radio'
  readonly hint?: ReactNode
  readonly placeholder?: string
  readonly isRequired?: boolean
  /** Whether nobody may change it. */
  readonly isFixed?: boolean
  readonly options?: readonly (string | Option)[]
  readonly autoComplete?: string
  readonly inputMode?: 'numeric'
  readonly maxLength?: number
  /** Of lines: at least and at most. */
  readonly rows?: readonly [number, number]
  readonly lang?: string
  /** Of a time: whether it means the end of its minute. */
  readonly isEnd?: true
  /** Shows it in a way of its own. */
  render?(input: Input): ReactNode
}

/** The values of inputs, by the names of their fields. */
export type Values = Readonly<Record<string, unknown>>

export interface Input {
  readonly value: unknown
  readonly error: string | undefined
  readonly isReadOnly: boolean
  set(value: unknown): void
}

/** What an address, a name for programs or a URL is typed into. */
export const CODE_INPUT = { autoComplete: 'off', autoCapitalize: 'none', spellCheck: false } as const
export const MONOSPACE = { input: { fontFamily: 'var(--mantine-font-family-monospace)' } }

/** `double_opt_in`: "Double opt in". */
export const toWords = (name: string): string => {
  const words = name.replace(/^.*\./, '').replaceAll('_', ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** A name alone is a field whose label is its name in words. */
export const toField = <Name extends string>(
  field: Name | Field<Name>,
): Field<Name> & { readonly label: ReactNode } => {
  const given: Field<Name> = typeof field === 'string' ? { name: field } : field
  return { ...given, label: given.label ?? toWords(given.name) }
}

export const toOption = (option: string | Option): Option =>
  typeof option === 'string' ? { value: option, label: option } : option

/** What an input shows for a value of the API. */
export function toInput({ kind = 'text', options: [first] = [], render }: Field, value: unknown): unknown {
  if (render) return value
  if (kind === 'check' || kind === 'switch') return value ?? false
  if (kind === 'json') return Object.keys(value ?? {}).length === 0 ? '' : JSON.stringify(value, null, 2)
  if (kind === 'words') return (value as readonly string[] | null | undefined)?.join(', ') ?? ''
  if (kind === 'time') return value ? toLocalMinute(new Date(String(value))) : ''
  if (kind === 'choice' || kind === 'radio') return value ?? (first === undefined ? '' : toOption(first).value)
  return value ?? ''
}

/** What the body of a request has for an input; null: it is empty. */
function toValue({ kind = 'text', name, isRequired = false, isEnd, render }: Field, input: unknown): unknown {
  if (render || typeof input !== 'string') return input
  const text = kind === 'password' || kind === 'source' ? input : input.trim()
  if (kind === 'json') return text === '' ? {} : parseJson(name, text)
  if (kind === 'words') return text === '' ? null : text.split(/[\s,]+/).filter((word) => word !== '')
  if (text === '') return isRequired ? input : null
  return kind === 'time' ? toInstant(isEnd ? `${text}:59.999` : text) : text
}

/** @throws TassisError like that of the API for a wrong field */
export function parseJson(field: string, text: string): Readonly<Record<string, unknown>> {
  let message = 'This must be a JSON object, such as {"first_name": "Ada"}.'
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch (error) {
    message = `This is not JSON: ${error instanceof Error ? error.message : String(error)}`
  }
  throw new TassisError(422, { code: 'validation_error', message, details: [{ field, message }] })
}

/** @param isEdit whether what is empty is removed from what is stored; else it is left out */
export const toBody = (fields: readonly Field[], inputs: Values, isEdit: boolean): Values =>
  Object.fromEntries(
    fields
      .map((field) => [field.name, toValue(field, inputs[field.name])] as const)
      .filter(([, value]) => isEdit || value !== null),
  )
