/** @module JSON of the wording. */
import { type Static, type TOptional, type TString, Type } from '@sinclair/typebox'
import { LANGUAGES, type Language } from '#platform/http/language.ts'
import { Nullable, OptionalNullable, StrictObject } from '#platform/http/schemas.ts'
import { listAllowedPlaceholders, MAX_NAME_LENGTH, TEXT_NAMES, TEXT_USES, type TextName } from './texts.ts'
import { LOGO_PATH, type Wording } from './wording.ts'

const describeText = (name: TextName): string => {
  const placeholders = listAllowedPlaceholders(name).map((placeholder) => `{{${placeholder}}}`)
  return `${TEXT_USES[name].use} ${placeholders.join(' and ')} can be used.`
}

const textFields = Object.fromEntries(
  TEXT_NAMES.map((name) => [
    name,
    OptionalNullable(Type.String({ maxLength: TEXT_USES[name].maxLength }), { description: describeText(name) }),
  ]),
) as Record<TextName, ReturnType<typeof OptionalNullable<ReturnType<typeof Type.String>>>>

const shownFields = Object.fromEntries(
  TEXT_NAMES.map((name) => [name, Type.Optional(Type.String({ description: describeText(name) }))]),
) as Record<TextName, TOptional<TString>>

/** Names as in English texts. */
const LANGUAGE_NAMES = new Intl.DisplayNames('en', { type: 'language' })

const byLanguage = <T extends object>(schema: T) =>
  Object.fromEntries(
    LANGUAGES.map((language) => [language, { ...schema, description: `${LANGUAGE_NAMES.of(language)}.` }]),
  ) as Record<Language, T>

const EXAMPLE = { de: { mail_subject: 'Noch ein Klick für {{list}}', confirm_button: 'Ja, gern' } }

const ShownTexts = Type.Object(byLanguage(Type.Optional(Type.Object(shownFields, { title: 'WordingTexts' }))))

export const WordingRecord = Type.Object({
  name: Nullable(Type.String(), {
    description: 'The name that readers see; null: the domain of the sender.',
    examples: ['Ada & Co'],
  }),
  logo: Nullable(
    Type.Object({
      url: Type.String({
        description: 'Where the logo is: the same for everybody, and another one for another logo.',
        examples: [`https://mail.example.com${LOGO_PATH}/47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU`],
      }),
      content_type: Type.String({ description: 'image/png or image/jpeg.', examples: ['image/png'] }),
      width: Type.Integer({
        description: 'Pixels; it is shown with half as many, for sharp screens.',
        examples: [480],
      }),
      height: Type.Integer({ description: 'Pixels.', examples: [120] }),
    }),
    { description: 'The logo; null: none.' },
  ),
  texts: { ...ShownTexts, description: "The account's own texts, by language.", examples: [EXAMPLE] },
  defaults: {
    ...ShownTexts,
    description: 'Our texts, which these replace; a text that is missing here adds to ours.',
    examples: [
      { de: { mail_subject: 'Bitte bestätigen Sie Ihre Anmeldung zu {{list}}', confirm_button: 'Bestätigen' } },
    ],
  },
})
export type WordingRecord = Static<typeof WordingRecord>

export const WordingChangeBody = StrictObject(
  {
    name: OptionalNullable(Type.String({ maxLength: MAX_NAME_LENGTH }), {
      description: 'The name that readers see; null or empty: the domain of the sender.',
    }),
    texts: Type.Optional(
      StrictObject(byLanguage(OptionalNullable(StrictObject(textFields, { title: 'NewWordingTexts' }))), {
        description:
          'Texts by language. The texts of a language that is named are replaced as a whole; null: ours again.',
      }),
    ),
  },
  {
    description: 'At least one field; omitted fields and languages keep their value.',
    examples: [{ name: 'Ada & Co', texts: EXAMPLE }],
  },
)

/** @param publicUrl without trailing slashes */
export const toWordingWire = ({ name, logo, texts }: Wording, publicUrl: string): Omit<WordingRecord, 'defaults'> => ({
  name,
  logo: logo && {
    url: `${publicUrl}${LOGO_PATH}/${logo.hash}`,
    content_type: logo.type,
    width: logo.width,
    height: logo.height,
  },
  texts,
})
