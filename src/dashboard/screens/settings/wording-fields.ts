/** @module The texts of the wording as fields: where each is shown, and its label. */
import type { AccountWordingTexts, WordingTexts } from '#client/api.ts'

export type TextName = keyof WordingTexts
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
  Record<string, { readonly label: string; readonly fields: { readonly [Name in TextName]?: string } }>
>

export type PlaceName = keyof typeof PLACES
export const PLACE_NAMES = Object.keys(PLACES) as readonly PlaceName[]

export const listFields = (place: PlaceName): readonly (readonly [name: TextName, label: string])[] =>
  Object.entries(PLACES[place].fields) as [TextName, string][]

export const hasLines = (name: TextName): boolean => /_(text|intro|footer)$/.test(name)
