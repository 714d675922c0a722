/**
 * @module The texts that an account may set in place of ours, or beside ours, and their limits. Pure. What a mail or
 * page says about the address, the list and the sender, its link and its button always stay.
 */
import { invalid } from '#platform/errors.ts'
import { LANGUAGES, type Language } from '#platform/http/language.ts'
import { fillPlain, listPlaceholders, type OurTexts, TEXTS } from './languages.ts'

/** `line`: replaces a line of ours. `lines`: a paragraph, which may have line breaks. */
type TextKind = 'line' | 'lines'

interface TextUse {
  readonly kind: TextKind
  readonly maxLength: number
  readonly use: string
}

const BUTTON = { kind: 'line', maxLength: 60 } as const
const HEADING = { kind: 'line', maxLength: 120 } as const
const PARAGRAPH = { kind: 'lines', maxLength: 1000 } as const

export const TEXT_USES = {
  mail_subject: { kind: 'line', maxLength: 200, use: 'Subject of the confirmation mail.' },
  mail_intro: { ...PARAGRAPH, use: 'Beginning of the confirmation mail, in place of the greeting.' },
  mail_button: { ...BUTTON, use: 'Button of the confirmation mail.' },
  mail_footer: { ...PARAGRAPH, use: 'End of the confirmation mail, such as an address.' },
  confirm_heading: { ...HEADING, use: 'Heading of the page behind the link of the mail.' },
  confirm_text: { ...PARAGRAPH, use: 'Text below that heading, before ours.' },
  confirm_button: { ...BUTTON, use: 'Button of that page.' },
  confirmed_heading: { ...HEADING, use: 'Heading of the page after the button.' },
  confirmed_text: { ...PARAGRAPH, use: 'Text below that heading, before ours.' },
  unsubscribe_heading: { ...HEADING, use: 'Heading of the page behind an unsubscribe link.' },
  unsubscribe_text: { ...PARAGRAPH, use: 'Text below that heading, before ours.' },
  unsubscribe_button: { ...BUTTON, use: 'Button of that page.' },
  unsubscribed_heading: { ...HEADING, use: 'Heading of the page after unsubscribing.' },
  unsubscribed_text: { ...PARAGRAPH, use: 'Text below that heading, before ours.' },
} as const satisfies Readonly<Record<string, TextUse>>

export type TextName = keyof typeof TEXT_USES
export const TEXT_NAMES = Object.keys(TEXT_USES) as readonly TextName[]

/** The texts of one language; missing ones are ours. */
export type Texts = { readonly [Name in TextName]?: string }
export type TextsByLanguage = { readonly [L in Language]?: Texts }

export const MAX_NAME_LENGTH = 100

/** Those of our texts that an account may replace. */
export const DEFAULT_TEXTS: TextsByLanguage = Object.fromEntries(
  LANGUAGES.map((language) => {
    const ours: Texts = TEXTS[language]
    return [language, Object.fromEntries(TEXT_NAMES.flatMap((name) => (ours[name] ? [[name, ours[name]]] : [])))]
  }),
)

type PlaceholderValues = {
  /** The account's own name, else the domain of the sender. */
  readonly name: string
  /** Name of the contact list; undefined where there may be none. */
  readonly list: string | undefined
}

/** The placeholders that a text may have: unsubscribe links are also in mail that belongs to no list. */
export const listAllowedPlaceholders = (name: TextName): readonly string[] =>
  name.startsWith('unsubscribe') ? ['name'] : ['name', 'list']

/** C0 without the line feed, DEL, C1, Unicode line ends, and characters that turn the direction of the text after them. */
const CONTROL = /[\0-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/
/** Letters and digits that show nothing. */
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\u2800]/gu
const LETTER_OR_DIGIT = /[\p{L}\p{N}]/u

/** Whether a text has a letter or digit that people see: a button without one has no label. */
const isReadable = (text: string): boolean => LETTER_OR_DIGIT.test(text.replace(INVISIBLE, ''))

/** Of a line in RFC 5322 §2.1.1. A subject that repeats a long name may exceed it. */
const MAX_LINE_LENGTH = 998

/** Our texts, some replaced by those of an account, and its paragraphs beside them. */
export type ReplacedTexts = OurTexts & Omit<Texts, keyof OurTexts>

/**
 * Our texts with those of the account in their place or beside them. What the names leave without a letter or digit, or
 * too long for a line, is ours.
 */
export function replaceTexts(ours: OurTexts, own: Texts, values: PlaceholderValues): ReplacedTexts {
  const replacements: Texts = Object.fromEntries(
    TEXT_NAMES.flatMap((name) => {
      const text = fillPlain(own[name] ?? '', values)
      const isTooLong = TEXT_USES[name].kind === 'line' && text.length > MAX_LINE_LENGTH
      return isReadable(text) && !isTooLong ? [[name, text]] : []
    }),
  )
  return { ...ours, mail_subject: fillPlain(ours.mail_subject, values), ...replacements }
}

/**
 * A text as it is stored; undefined when it is empty. Throws 422 that names `field` for control characters, for line
 * breaks in a line, and for texts without a letter or digit.
 */
export function parseText(field: string, provided: string, kind: TextKind): string | undefined {
  const text = provided.toWellFormed().replaceAll('\r\n', '\n').trim()
  if (text === '') return undefined
  if (CONTROL.test(text))
    throw invalid(field, `${field} must have no control characters, and none that turn the direction of the text.`)
  if (kind === 'line' && text.includes('\n')) throw invalid(field, `${field} must be one line.`)
  if (!isReadable(text)) throw invalid(field, `${field} must have a letter or digit; leave it empty to use our text.`)
  return text
}

type ProvidedTexts = { readonly [Name in TextName]?: string | null | undefined }

/** The texts of a language as they are stored. Throws 422 for the first invalid one. */
export function parseTexts(language: Language, provided: ProvidedTexts): Texts {
  const texts: Partial<Record<TextName, string>> = {}
  for (const name of TEXT_NAMES) {
    const field = `texts.${language}.${name}`
    const text = parseText(field, provided[name] ?? '', TEXT_USES[name].kind)
    if (text === undefined) continue
    requireKnownPlaceholders(field, name, text)
    texts[name] = text
  }
  return texts
}

function requireKnownPlaceholders(field: string, name: TextName, text: string): void {
  const known = listAllowedPlaceholders(name)
  const unknown = listPlaceholders(text).find((placeholder) => !known.includes(placeholder.trim()))
  // Left over: an opening or closing pair without the other.
  const isBroken = /\{\{|\}\}/.test(fillPlain(text, {}))
  if (unknown === undefined && !isBroken) return
  const list = known.map((placeholder) => `{{${placeholder}}}`).join(' and ')
  const problem = unknown === undefined ? 'a placeholder is incomplete' : `{{${unknown}}} is not a placeholder`
  throw invalid(field, `${field}: ${problem}; ${list} can be used here.`, 'unknown_placeholder')
}
