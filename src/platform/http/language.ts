/**
 * @module The languages of the pages and emails for recipients, and the choice between them: the reader's if it is
 * translated, else English. Pure.
 */
import { type Html, unlistedResponse } from './html.ts'

/** All languages (BCP 47); the first is the default. Each has a file in `setup/wording/languages`. */
export const LANGUAGES = ['en', 'de', 'fr', 'es', 'it', 'nl', 'pl', 'pt'] as const
export type Language = (typeof LANGUAGES)[number]

const MAX_HEADER_LENGTH = 1000
const MAX_RANGES = 30
const MAX_TAG_LENGTH = 35
// RFC 4647 §2.1 with the weight of RFC 9110 §12.4.2. Subtags of a language (de-AT) are ignored.
const RANGE = /^\s*([a-z]{1,8}|\*)(?:-[a-z0-9]{1,8})*\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?$/i
const TAG = /^([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*$/i

const findLanguage = (name: string): Language | undefined =>
  LANGUAGES.find((language) => language === name.toLowerCase())

/**
 * The reader's preferred language; English by default. @param accepted value of Accept-Language (RFC 9110 §12.5.4);
 * accepts any text
 */
export function chooseLanguage(accepted: string | null): Language {
  let best: { readonly language: Language; readonly weight: number } = { language: 'en', weight: 0 }
  for (const range of (accepted ?? '').slice(0, MAX_HEADER_LENGTH).split(',', MAX_RANGES)) {
    const [, name = '', weight = '1'] = RANGE.exec(range) ?? []
    const language = name === '*' ? 'en' : findLanguage(name)
    // The first of equal weights wins.
    if (language && Number(weight) > best.weight) best = { language, weight: Number(weight) }
  }
  return best.language
}

/** The language of a tag such as `de`, `de-AT` or `pt_BR`; undefined for other values and languages. */
export function parseLanguage(tag: unknown): Language | undefined {
  if (typeof tag !== 'string' || tag.length > MAX_TAG_LENGTH) return undefined
  return findLanguage(TAG.exec(tag)?.[1] ?? '')
}

/** An unlisted page in a language that depends on Accept-Language. */
export const localisedResponse = (
  language: Language,
  page: Html,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response => unlistedResponse(page, status, { 'content-language': language, vary: 'accept-language', ...headers })
