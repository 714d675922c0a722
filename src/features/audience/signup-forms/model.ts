/** @module Wire shapes of signup forms. */
import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '#platform/errors.ts'
import { toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import { FIELD_TYPES, MAX_FIELDS, MAX_LABEL_LENGTH, readFields } from './custom-fields.ts'
import { DEFAULT_MESSAGES, MAX_MESSAGE_LENGTH, type MessageName, readMessages } from './messages.ts'
import { embedCode, formUrl } from './page.ts'
import type { FormChange, SignupForm } from './signup-forms.ts'
import { type GivenTheme, readTheme } from './theme.ts'

const MAX_TITLE_LENGTH = 200
const MAX_DESCRIPTION_LENGTH = 2000
const MAX_URL_LENGTH = 2000
const MAX_COLOUR_LENGTH = 64
const MAX_FONT_LENGTH = 200
const MAX_ADDRESS_LENGTH = 1000

const MESSAGE_USES: Readonly<Record<MessageName, string>> = {
  submit_button: 'Text of the button.',
  email_label: 'Label of the address.',
  email_placeholder: 'Example in the empty address field.',
  submitting: 'Stored for your own front ends; the page works without scripts and does not use it.',
  already_subscribed: 'Shown when the address is already on the list.',
  confirmation_sent: 'Shown when a confirmation was sent.',
  confirmation_pending: 'Shown when the address has not been confirmed yet.',
  invalid_email: 'Shown when the address is invalid.',
  error: 'Shown when the address could not be subscribed.',
}

const createColourSchema = (what: string) =>
  Type.String({ maxLength: MAX_COLOUR_LENGTH, description: `Colour of ${what}.` })
const THEME = {
  bg_color: createColourSchema('the background of the form'),
  text_color: createColourSchema('the text'),
  button_color: createColourSchema('the button'),
  button_text_color: createColourSchema('the text of the button'),
  border_color: createColourSchema('the borders'),
  accent_color: createColourSchema('links, ticks and the focus outline'),
  border_radius: Type.Union([Type.String({ maxLength: 16 }), Type.Number()], {
    description: 'Corner radius of fields and button: a number of pixels, or a text such as `8px`, `0.5rem` or `10%`.',
    errorMessage: 'a number of pixels, or a text such as 8px, 0.5rem or 10%',
  }),
  font_family: Type.String({ maxLength: MAX_FONT_LENGTH, description: 'Font names, separated by commas.' }),
  embed: Type.Boolean({ description: 'Whether the page itself may be embedded in another page, not only `?embed=1`.' }),
  hide_branding: Type.Boolean({ description: 'Whether the page hides the name of this service.' }),
}
const messageFields = Object.fromEntries(
  Object.entries(MESSAGE_USES).map(([name, use]) => [
    name,
    Type.String({
      maxLength: MAX_MESSAGE_LENGTH,
      description: `${use} Default: ${DEFAULT_MESSAGES[name as MessageName] || 'nothing'}`,
    }),
  ]),
) as Record<MessageName, ReturnType<typeof Type.String>>

/** In a request each field may be left out; null or empty means the default. */
const toNullableFields = <T extends Record<string, Parameters<typeof S.OptionalNullable>[0]>>(fields: T) =>
  S.StrictObject(
    Object.fromEntries(
      Object.entries(fields).map(([name, schema]) => [
        name,
        S.OptionalNullable(schema, {
          ...(schema.description !== undefined && { description: schema.description }),
          ...(typeof schema['errorMessage'] === 'string' && { errorMessage: schema['errorMessage'] }),
        }),
      ]),
    ) as { [Name in keyof T]: ReturnType<typeof S.OptionalNullable<T[Name]>> },
  )
/** PHP encodes an empty map as `[]`. */
const emptyFromPhp = Type.Array(Type.Unknown(), { maxItems: 0 })

const Title = Type.String({ maxLength: MAX_TITLE_LENGTH, description: 'Heading of the page.' })
const OPTIONAL = {
  description: S.OptionalNullable(Type.String({ maxLength: MAX_DESCRIPTION_LENGTH }), {
    description: 'Text below the title; line breaks are kept.',
  }),
  from_address: S.OptionalNullable(Type.String({ maxLength: MAX_ADDRESS_LENGTH }), {
    description: 'Sender of confirmations, at a verified domain; default: no-reply at the first verified domain.',
  }),
  redirect_url: S.OptionalNullable(Type.String({ maxLength: MAX_URL_LENGTH }), {
    description:
      'http or https URL without credentials, where a visitor is redirected after signing up; it takes precedence over `success_message`.',
  }),
  success_message: S.OptionalNullable(Type.String({ maxLength: MAX_MESSAGE_LENGTH }), {
    description: 'Text that a visitor sees after signing up.',
  }),
  custom_fields: S.OptionalNullable(
    Type.Array(
      S.StrictObject({
        name: Type.String({ maxLength: 64, description: "Name in the contact's metadata: `[a-z][a-z0-9_]*`." }),
        label: Type.String({ maxLength: MAX_LABEL_LENGTH, description: 'Label that a visitor sees.' }),
        type: Type.Optional(S.StringEnum(FIELD_TYPES, { description: 'Type of the field; default text.' })),
        required: S.OptionalNullable(Type.Boolean(), {
          description: 'Whether it must be filled in; default false.',
        }),
      }),
      { maxItems: MAX_FIELDS },
    ),
    { description: `Fields besides the address, at most ${MAX_FIELDS}; a change replaces all of them.` },
  ),
  // One union, so that errors name the property within.
  theme: Type.Optional(
    Type.Union([toNullableFields(THEME), emptyFromPhp, Type.Null()], {
      description:
        'Look of the page. Properties that are left out have the default; a change replaces the whole theme.',
    }),
  ),
  messages: Type.Optional(
    Type.Union([toNullableFields(messageFields), emptyFromPhp, Type.Null()], {
      description:
        'Texts of the page. Texts that are left out have the English default; a change replaces all of them.',
    }),
  ),
}

export const NewForm = S.StrictObject(
  { list_id: S.Uuid({ description: "Id of the form's contact list." }), title: Title, ...OPTIONAL },
  {
    examples: [
      {
        list_id: '01980f4e-6b1c-7d3a-9c52-3f1e0a7b9d24',
        title: 'Our newsletter',
        custom_fields: [{ name: 'first_name', label: 'First name', type: 'text', required: false }],
        theme: { button_color: '#0b57d0', border_radius: 8 },
      },
    ],
  },
)

export const FormChangeBody = S.StrictObject(
  { title: Type.Optional(Title), ...OPTIONAL },
  {
    description: 'At least one field; fields that are left out keep their value, and null clears one.',
    examples: [{ title: 'Our newsletter', messages: { submit_button: 'Keep me posted' } }],
  },
)

const toOptionalFields = <T extends Record<string, Parameters<typeof Type.Optional>[0]>>(fields: T) =>
  Object.fromEntries(Object.entries(fields).map(([name, schema]) => [name, Type.Optional(schema)]))

export const FormRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the form.' }),
  account_id: S.Uuid({ description: 'Id of the account.' }),
  list_id: S.Uuid({ description: 'Contact list of the form.' }),
  slug: S.Text('Last part of `form_url`; it stays when the title changes.'),
  title: S.Text('Heading of the page.'),
  description: S.TextOrNull('Text below the title.'),
  from_address: S.TextOrNull('Sender of confirmations; null: no-reply at the first verified domain.'),
  redirect_url: S.TextOrNull('Where a visitor is redirected after signing up.'),
  success_message: S.TextOrNull('Text that a visitor sees after signing up.'),
  custom_fields: Type.Array(
    Type.Object({
      name: S.Text("Name in the contact's metadata."),
      label: S.Text('Label that a visitor sees.'),
      type: S.StringEnum(FIELD_TYPES, { description: 'Type of the field.' }),
      required: Type.Boolean({ description: 'Whether it must be filled in.' }),
    }),
    { description: 'Fields besides the address.' },
  ),
  theme: Type.Object(toOptionalFields(THEME), { description: 'Differences from the default look.' }),
  messages: Type.Object(toOptionalFields(messageFields), { description: 'Differences from the English defaults.' }),
  is_active: Type.Boolean({ description: 'Whether the page is available.' }),
  form_url: S.Text('URL of the page.'),
  embed_code: S.Text('HTML that embeds the form in another page.'),
  created_at: S.Timestamp({ description: 'When it was created.' }),
  updated_at: S.Timestamp({ description: 'When it was last changed.' }),
})
export type FormRecord = Static<typeof FormRecord>

const textOrNull = (text: string | null): string | null => text?.trim() || null

function requireTitle(text: string): string {
  const title = text.replace(/\s+/g, ' ').trim()
  if (title === '') throw invalid('title', 'A title is required: it is the heading of the page.')
  return title
}

/** The input of a POST. Throws 422 for invalid values. */
export const toFormInput = (body: Static<typeof NewForm>) => ({
  ...toFormChange(body),
  title: requireTitle(body.title),
})

/** The input of a PUT; a field that is left out is undefined. Throws 422 for invalid values. */
export const toFormChange = (body: Static<typeof FormChangeBody>): FormChange => {
  const read = <In, Out>(value: In | undefined, parse: (value: In) => Out): Out | undefined =>
    value === undefined ? undefined : parse(value)
  return {
    title: read(body.title, requireTitle),
    description: read(body.description, textOrNull),
    fromAddress: read(body.from_address, textOrNull),
    redirectUrl: read(body.redirect_url, textOrNull),
    successMessage: read(body.success_message, textOrNull),
    customFields: read(body.custom_fields, (fields) => readFields(fields ?? [])),
    theme: read(body.theme, (theme) => readTheme((S.mapFromPhp(theme) ?? {}) as GivenTheme)),
    messages: read(body.messages, (messages) => readMessages(S.mapFromPhp(messages) ?? {})),
  }
}

export const formWire = (form: SignupForm, config: Pick<Config, 'publicUrl'>): FormRecord =>
  toWire(FormRecord, form, {
    account_id: formatUuid(form.accountUuid),
    list_id: formatUuid(form.listUuid),
    custom_fields: [...form.customFields],
    theme: form.theme,
    messages: form.messages,
    form_url: formUrl(config, form),
    embed_code: embedCode(config, form),
  })
