/**
 * @module Resend's placeholders, `{{{NAME|fallback}}}`, in our template syntax and back. All else of a text is literal in
 * Resend, so what would begin a tag of ours is escaped. Values and fallbacks are escaped in HTML like all variables.
 */
import { attempt, invalid } from '#platform/errors.ts'

export type Fallback = string | number | null | undefined

const PLACEHOLDER = /\{\{\{\s*([A-Za-z_][\w.]*)\s*(?:\|([^{}]*))?\}\}\}/g
/** A brace that would begin a tag of ours, also together with the tag that follows the text. */
const OPENING = /\{(?=[{%#]|$)/g
const ESCAPED = '{{ "{" }}'
/** What `toSource` writes. */
const WRITTEN = /\{\{ "\{" \}\}|\{\{ ([A-Za-z_][\w.]*)(?:\|default\(("(?:[^"\\]|\\.)*"|-?\d[\d.e+-]*), true\))? \}\}/g

const write = (variable: string, fallback: Fallback): string =>
  `{{ ${variable}${fallback == null ? '' : `|default(${JSON.stringify(fallback)}, true)`} }}`

type Resolve = (name: string, fallback: string | undefined) => readonly [variable: string, fallback: Fallback]

export function toSource(text: string, resolve: Resolve): string {
  let source = ''
  let end = 0
  for (const match of text.matchAll(PLACEHOLDER)) {
    const [variable, fallback] = resolve(match[1] ?? '', match[2])
    source += text.slice(end, match.index).replace(OPENING, ESCAPED) + write(variable, fallback)
    end = match.index + match[0].length
  }
  return source + text.slice(end).replace(OPENING, ESCAPED)
}

/** Replaces what `toSource` writes. A fallback that JSON has not, as texts of /v1 may have, stays as it is. */
const replaceWritten = (
  source: string,
  brace: string,
  show: (variable: string, fallback: Fallback) => string,
): string =>
  source.replace(WRITTEN, (written, variable?: string, fallback?: string) => {
    if (variable === undefined) return brace
    const value = fallback && attempt(() => JSON.parse(fallback) as string | number)
    return value === undefined && fallback !== undefined ? written : show(variable, value)
  })

/** @param show the placeholder of a variable */
export const toText = (source: string, show: (variable: string, fallback: Fallback) => string): string =>
  replaceWritten(source, '{', show)

/** A source with other fallbacks; all that is not ours, such as conditions and loops, stays. */
export const withFallbacks = (source: string, fallbacks: ReadonlyMap<string, Fallback>): string =>
  replaceWritten(source, ESCAPED, (variable) => write(variable, fallbacks.get(variable)))

const VARIABLES: Readonly<Record<string, string>> = {
  RESEND_UNSUBSCRIBE_URL: 'unsubscribe_url',
  UNSUBSCRIBE_URL: 'unsubscribe_url',
  FIRST_NAME: 'contact.first_name',
  LAST_NAME: 'contact.last_name',
  EMAIL: 'contact.email',
}

/** The source of a broadcast. A contact without a value gets the fallback, or nothing. */
export const toBroadcastSource = (text: string): string =>
  toSource(text, (name, fallback) => {
    const variable = Object.hasOwn(VARIABLES, name) ? VARIABLES[name] : name
    if (variable === 'unsubscribe_url') return [variable, undefined]
    if (variable !== undefined && /^contact\.[A-Za-z_]\w*$/.test(variable)) return [variable, fallback ?? '']
    throw invalid(
      'html',
      `{{{${name.slice(0, 50)}}}} is no placeholder of a broadcast; use RESEND_UNSUBSCRIBE_URL, or contact. and the name of a property, such as {{{contact.first_name|there}}}.`,
    )
  })

export const toBroadcastText = (source: string): string =>
  toText(source, (variable, fallback) => {
    const name = variable === 'unsubscribe_url' ? 'RESEND_UNSUBSCRIBE_URL' : variable
    return `{{{${name}${fallback ? `|${fallback}` : ''}}}}`
  })
