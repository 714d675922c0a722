/**
 * @module Our texts of the mails and pages that readers see, by language: a file each in `languages/`. The keys of
 * en.json are the list of all texts. Readers know the list and its sender, not this service. Translations use the
 * quotation marks of their language, the polite form and gender-neutral sentences, and contain no HTML. Pure.
 */
import { type Html, html } from '#platform/http/html.ts'
import type { Language } from '#platform/http/language.ts'
import de from './languages/de.json' with { type: 'json' }
import en from './languages/en.json' with { type: 'json' }
import es from './languages/es.json' with { type: 'json' }
import fr from './languages/fr.json' with { type: 'json' }
import it from './languages/it.json' with { type: 'json' }
import nl from './languages/nl.json' with { type: 'json' }
import pl from './languages/pl.json' with { type: 'json' }
import pt from './languages/pt.json' with { type: 'json' }

/**
 * {{address}}, {{sender}}, {{list}} and {{part}} are names; {{mail}} is one of the `list_mail…`, `no_more_…` or
 * `as_before_…`, as in "gets {{mail}}"; {{days}} is a number of days with its unit.
 */
export type OurTexts = Readonly<typeof en>

export const TEXTS: Readonly<Record<Language, OurTexts>> = { en, de, fr, es, it, nl, pl, pt }

const PLACEHOLDER = /\{\{([^{}]*)\}\}/

/** The names of the placeholders of a text, as written. */
export const listPlaceholders = (text: string): string[] => text.split(PLACEHOLDER).filter((_, i) => i % 2 === 1)

/** Fills the placeholders of a text; for plain text. */
export const fillPlain = (text: string, values: Readonly<Record<string, string | undefined>>): string =>
  text
    .split(PLACEHOLDER)
    .map((piece, i) => (i % 2 === 0 ? piece : (values[piece.trim()] ?? '')))
    .join('')

export const fillHtml = (text: string, values: Readonly<Record<string, Html | string>>): Html =>
  html`${text.split(PLACEHOLDER).map((piece, i) => (i % 2 === 0 ? piece : values[piece.trim()]))}`
