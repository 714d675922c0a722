/** @module The texts of the wording as fields: where each is shown, and its label. */
import type { AccountWording, AccountWordingTexts, WordingTexts } from '#client/api.ts'
import type { Field } from '../../parts/fields.ts'

export type Language = keyof AccountWordingTexts

export const LANGUAGE_NAMES: Readonly<Record<Language, string>> = {
  en: 'English',
  de: 'German',
  fr: 'French',
  es: 'Spanish',
  it: 'Italian',
  nl: 'Dutch',
  pl: 'Polish',
  pt: 'Portuguese',
}

export const LANGUAGES = Object.keys(LANGUAGE_NAMES) as readonly Language[]

/** The mail and the pages with their texts. Each has the name of its preview. */
export const PLACES = {
  mail: {
    label: 'Confirmation mail',
    fields: { mail_subject: 'Subject', mail_intro: 'Beginning', mail_button: 'Button', mail_footer: 'End' },
  },
  confirm: {
    label: 'Page behind its link',
    fields: { confirm_heading: 'Heading', confirm_text: 'Text', confirm_button: 'Button' },
  },
  confirmed: { label: 'Page after confirming', fields: { confirmed_heading: 'Heading', confirmed_text: 'Text' } },
  unsubscribe: {
    label: 'Unsubscribe page',
    fields: { unsubscribe_heading: 'Heading', unsubscribe_text: 'Text', unsubscribe_button: 'Button' },
  },
  unsubscribed: {
    label: 'Page after unsubscribing',
    fields: { unsubscribed_heading: 'Heading', unsubscribed_text: 'Text' },
  },
} as const satisfies Readonly<
  Record<string, { readonly label: string; readonly fields: { readonly [Name in keyof WordingTexts]?: string } }>
>

export type PlaceName = keyof typeof PLACES
export const PLACE_NAMES = Object.keys(PLACES) as readonly PlaceName[]

/** Empty ones have our text. */
export const listFields = (place: PlaceName, language: Language, defaults: AccountWording['defaults']): Field[] =>
  Object.entries<string>(PLACES[place].fields).map(([name, label]) => ({
    name: `texts.${language}.${name}`,
    label,
    kind: /_(text|intro|footer)$/.test(name) ? 'lines' : 'text',
    placeholder: defaults[language]?.[name as keyof WordingTexts] ?? '',
    lang: language,
  }))

/** All texts of each language that has a change: they are stored together. @param changes by the names of their fields */
export function mergeTexts(stored: AccountWordingTexts, changes: Readonly<Record<string, string | null>>) {
  const texts: { [L in Language]?: WordingTexts } = {}
  for (const [name, text] of Object.entries(changes)) {
    const [, language, key = ''] = name.split('.') as [string, Language, string]
    texts[language] = { ...stored[language], ...texts[language], [key]: text ?? '' }
  }
  return texts
}
