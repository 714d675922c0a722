/**
 * @module The custom fields of a form: which ones an account may define, and how a visitor's answers are cleaned and
 * stored. Pure.
 */
import { invalid } from '#platform/errors.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

export const FIELD_TYPES = ['text', 'textarea', 'email', 'number', 'tel', 'url', 'date', 'checkbox'] as const
export type FieldType = (typeof FIELD_TYPES)[number]

export interface CustomField {
  /** Name in the contact's metadata. */
  readonly name: string
  readonly label: string
  readonly type: FieldType
  readonly required: boolean
}

export const MAX_FIELDS = 20
export const MAX_LABEL_LENGTH = 200
/** Maximum length of one answer. */
export const MAX_ANSWER_LENGTH = 1000
/** Maximum length that is read: an answer may have spaces around it, and two characters per line break. */
const MAX_POSTED_LENGTH = 4 * MAX_ANSWER_LENGTH

const NAME_PATTERN = /^[a-z][a-z0-9_]{0,63}$/
/** The form itself asks for the address. */
const EMAIL = 'email'

/** The fields in their stored form. Throws 422 for a name that is invalid or repeated. */
export function readFields(
  provided: readonly {
    readonly name: string
    readonly label: string
    readonly type?: FieldType | undefined
    readonly required?: boolean | null | undefined
  }[],
): CustomField[] {
  const names = new Set<string>([EMAIL])
  return provided.map(({ name, label, type = 'text', required }, index) => {
    const field = `custom_fields.${index}`
    if (!NAME_PATTERN.test(name))
      throw invalid(
        `${field}.name`,
        `${field}.name must have 1 to 64 of a to z, 0 to 9 and "_", and begin with a letter.`,
      )
    if (names.has(name))
      throw invalid(
        `${field}.name`,
        name === EMAIL
          ? `${field}.name must not be "${EMAIL}": the form asks for the address itself.`
          : `${field}.name must not be "${name}" again: use a different name for each field.`,
      )
    names.add(name)
    if (label.trim() === '') throw invalid(`${field}.label`, `${field}.label must not be empty.`)
    return { name, label: label.trim(), type, required: required ?? false }
  })
}

/** A visitor's answer: a value for the metadata, nothing, or what is wrong with it in one sentence. */
export type Answer =
  | { readonly kind: 'value'; readonly value: string | number | boolean }
  | { readonly kind: 'nothing' }
  | { readonly kind: 'fault'; readonly message: string }

const invalidAnswer = (message: string): Answer => ({ kind: 'fault', message })
const TOO_LONG = invalidAnswer(`This must have at most ${MAX_ANSWER_LENGTH} characters.`)
const NOTHING: Answer = { kind: 'nothing' }

/** Reads the value that a form or JSON has for a field. Accepts anything. */
export function readAnswer({ type, required }: CustomField, provided: unknown): Answer {
  if (isOverlong(provided)) return TOO_LONG
  if (type === 'checkbox') {
    const isChecked = isTicked(provided)
    return required && !isChecked ? invalidAnswer('This box must be ticked.') : { kind: 'value', value: isChecked }
  }
  const text = cleanAnswer(provided, type === 'textarea')
  if (text === undefined) return invalidAnswer('This answer cannot be read.')
  if (text === '') return required ? invalidAnswer('This field is required.') : NOTHING
  if (text.length > MAX_ANSWER_LENGTH) return TOO_LONG
  return parseAnswer(type, text)
}

const isOverlong = (provided: unknown): boolean => typeof provided === 'string' && provided.length > MAX_POSTED_LENGTH

const UNTICKED: ReadonlySet<string> = new Set(['', '0', 'off', 'no', 'false'])

/** A browser posts a ticked box with its value, and does not post an unticked one. */
export const isTicked = (provided: unknown): boolean =>
  provided === true ||
  provided === 1 ||
  (typeof provided === 'string' && !isOverlong(provided) && !UNTICKED.has(provided.trim().toLowerCase()))

/** The text without control characters, on one line unless `isMultiline`; undefined: no text, or too long to read. */
export function cleanAnswer(provided: unknown, isMultiline = false): string | undefined {
  if (provided === undefined || provided === null) return ''
  if (typeof provided === 'number') return String(provided)
  if (typeof provided !== 'string' || isOverlong(provided)) return undefined
  const text = provided.toWellFormed().replace(/\r\n?/g, '\n')
  return text.replace(isMultiline ? /[\0-\x08\x0b-\x1f\x7f-\x9f]/g : /[\0-\x1f\x7f-\x9f\u2028\u2029]/g, ' ').trim()
}

function parseAnswer(type: Exclude<FieldType, 'checkbox'>, text: string): Answer {
  switch (type) {
    case 'text':
    case 'textarea':
      return { kind: 'value', value: text }
    case 'email': {
      const mailbox = parseMailbox(text)
      return mailbox.kind === 'ok' && mailbox.name === undefined
        ? { kind: 'value', value: mailbox.address }
        : invalidAnswer('This is not an email address.')
    }
    case 'number': {
      const value = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?$/i.test(text) ? Number(text) : Number.NaN
      return Number.isFinite(value) ? { kind: 'value', value } : invalidAnswer('This is not a number.')
    }
    case 'tel':
      return /^[+()\d\s./#x-]{3,40}$/.test(text) && /\d/.test(text)
        ? { kind: 'value', value: text }
        : invalidAnswer('This is not a telephone number.')
    case 'url': {
      const url = URL.parse(text)
      return url && /^https?:$/.test(url.protocol)
        ? { kind: 'value', value: text }
        : invalidAnswer('This is not a web address.')
    }
    case 'date':
      return isDate(text) ? { kind: 'value', value: text } : invalidAnswer('This is not a date such as 2026-01-31.')
  }
}

/** A calendar date as browsers send it. */
function isDate(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false
  const time = Date.parse(`${text}T00:00:00Z`)
  return Number.isFinite(time) && new Date(time).toISOString().startsWith(text)
}
