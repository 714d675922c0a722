/** @module Wire shapes of signup forms. */
import { type Static, Type } from '@sinclair/typebox'
import type { Config } from '#platform/config.ts'
import { invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import {
  mapFromPhp,
  Nullable,
  OptionalNullable,
  StrictObject,
  StringEnum,
  Timestamp,
  Uuid,
} from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { FIELD_TYPES, MAX_FIELDS, MAX_LABEL_LENGTH, readFields } from './custom-fields.ts'
import { DEFAULT_MESSAGES, MAX_MESSAGE_LENGTH, type MessageName, readMessages } from './messages.ts'
import type { FormChange, FormInput, SignupForm } from './signup-forms.ts'
import { type GivenTheme, readTheme } from './theme.ts'
import { embedCode, formUrl } from './urls.ts'

const MAX_TITLE_LENGTH = 200
const MAX_DESCRIPTION_LENGTH = 2000
const MAX_URL_LENGTH = 2000
const MAX_COLOUR_LENGTH = 64
const MAX_FONT_LENGTH = 200
const MAX_ADDRESS_LENGTH = 1000

/** What each message is for, as the description of the API says it. */
const MESSAGE_USES: Readonly<Record<MessageName, string>> = {
  submit_button: 'The button.',
  email_label: 'Label of the address.',
  email_placeholder: 'Example in the empty field of the address.',
  submitting: 'Stored for front ends of your own; the page works without scripts and has no use for it.',
  already_subscribed: 'Said to who is on the list already.',
  confirmation_sent: 'Said when a confirmation was sent.',
  confirmation_pending: 'Said when the address still waits to be confirmed.',
  invalid_email: 'Said when the address cannot be one.',
  error: 'Said when the address could not be taken.',
}

const createColourSchema = (what: string) =>
  Type.String({ maxLength: MAX_COLOUR_LENGTH, description: `Colour of ${what}.` })
const THEME = {
  bg_color: createColourSchema('the background of the form'),
  text_color: createColourSchema('the text'),
  button_color: createColourSchema('the button'),
  button_text_color: createColourSchema('the text of the button'),
  border_color: createColourSchema('the borders'),
  accent_color: createColourSchema('links, ticks and the mark of what has the focus'),
  border_radius: Type.Union([Type.String({ maxLength: 16 }), Type.Number()], {
    description: 'Roundness of fields and button: a number of pixels, or a text such as `8px`, `0.5rem` or `10%`.',
    errorMessage: 'a number of pixels, or a text such as 8px, 0.5rem or 10%',
  }),
  font_family: Type.String({ maxLength: MAX_FONT_LENGTH, description: 'Names of fonts, with commas between them.' }),
  embed: Type.Boolean({ description: 'Whether the page itself may stand in another page, not only `?embed=1`.' }),
  hide_branding: Type.Boolean({ description: 'Whether the page says nothing of this service.' }),
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

/** In a request each may be left out, and null or empty means the default. */
const toNullableFields = <T extends Record<string, Parameters<typeof OptionalNullable>[0]>>(fields: T) =>
  StrictObject(
    Object.fromEntries(
      Object.entries(fields).map(([name, schema]) => [
        name,
        OptionalNullable(schema, {
          ...(schema.description !== undefined && { description: schema.description }),
          ...(typeof schema['errorMessage'] === 'string' && { errorMessage: schema['errorMessage'] }),
        }),
      ]),
    ) as { [Name in keyof T]: ReturnType<typeof OptionalNullable<T[Name]>> },
  )
/** PHP encodes an empty map as `[]`. */
const emptyFromPhp = Type.Array(Type.Unknown(), { maxItems: 0 })

const Title = Type.String({ maxLength: MAX_TITLE_LENGTH, description: 'Heading of the page.' })
const OPTIONAL = {
  description: OptionalNullable(Type.String({ maxLength: MAX_DESCRIPTION_LENGTH }), {
    description: 'Text below the title, with its line breaks.',
  }),
  from_address: OptionalNullable(Type.String({ maxLength: MAX_ADDRESS_LENGTH }), {
    description:
      'Sender of confirmations, at a verified domain; without one it is no-reply at the first verified domain.',
  }),
  redirect_url: OptionalNullable(Type.String({ maxLength: MAX_URL_LENGTH }), {
    description:
      'http or https URL without credentials, where a visitor is led after signing up; it comes before `success_message`.',
  }),
  success_message: OptionalNullable(Type.String({ maxLength: MAX_MESSAGE_LENGTH }), {
    description: 'What a visitor reads after signing up.',
  }),
  custom_fields: OptionalNullable(
    Type.Array(
      StrictObject({
        name: Type.String({ maxLength: 64, description: "Name in the contact's metadata: `[a-z][a-z0-9_]*`." }),
        label: Type.String({ maxLength: MAX_LABEL_LENGTH, description: 'What a visitor reads.' }),
        type: Type.Optional(StringEnum(FIELD_TYPES, { description: 'What is asked for; text unless given.' })),
        required: OptionalNullable(Type.Boolean(), {
          description: 'Whether it must be filled in; false unless given.',
        }),
      }),
      { maxItems: MAX_FIELDS },
    ),
    { description: `Fields beside the address, at most ${MAX_FIELDS}; given again, they are replaced as a whole.` },
  ),
  // One union, so that what is wrong within is named.
  theme: Type.Optional(
    Type.Union([toNullableFields(THEME), emptyFromPhp, Type.Null()], {
      description: 'Look of the page. What is left out is the default; given again, it is replaced as a whole.',
    }),
  ),
  messages: Type.Optional(
    Type.Union([toNullableFields(messageFields), emptyFromPhp, Type.Null()], {
      description:
        'What the page says. What is left out is the English default; given again, it is replaced as a whole.',
    }),
  ),
}

export const NewForm = StrictObject(
  { list_id: Uuid({ description: 'Id of the contact list that the form is for.' }), title: Title, ...OPTIONAL },
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

export const FormChangeBody = StrictObject(
  { title: Type.Optional(Title), ...OPTIONAL },
  {
    description: 'At least one field; those left out keep their value, and null takes one away.',
    examples: [{ title: 'Our newsletter', messages: { submit_button: 'Keep me posted' } }],
  },
)

const toOptionalFields = <T extends Record<string, Parameters<typeof Type.Optional>[0]>>(fields: T) =>
  Object.fromEntries(Object.entries(fields).map(([name, schema]) => [name, Type.Optional(schema)]))

export const FormRecord = Type.Object({
  id: Uuid({ description: 'Id of the form.' }),
  account_id: Uuid({ description: 'Account it belongs to.' }),
  list_id: Uuid({ description: 'Contact list that it is for.' }),
  slug: Type.String({ description: 'Last part of `form_url`; it stays when the title changes.' }),
  title: Type.String({ description: 'Heading of the page.' }),
  description: Nullable(Type.String(), { description: 'Text below the title.' }),
  from_address: Nullable(Type.String(), {
    description: 'Sender of confirmations; null: no-reply at the first verified domain.',
  }),
  redirect_url: Nullable(Type.String(), { description: 'Where a visitor is led after signing up.' }),
  success_message: Nullable(Type.String(), { description: 'What a visitor reads after signing up.' }),
  custom_fields: Type.Array(
    Type.Object({
      name: Type.String({ description: "Name in the contact's metadata." }),
      label: Type.String({ description: 'What a visitor reads.' }),
      type: StringEnum(FIELD_TYPES, { description: 'What is asked for.' }),
      required: Type.Boolean({ description: 'Whether it must be filled in.' }),
    }),
    { description: 'Fields beside the address.' },
  ),
  theme: Type.Object(toOptionalFields(THEME), { description: 'What differs from the default look.' }),
  messages: Type.Object(toOptionalFields(messageFields), { description: 'What differs from the English defaults.' }),
  is_active: Type.Boolean({ description: 'Whether the page is there.' }),
  form_url: Type.String({ description: 'URL of the page.' }),
  embed_code: Type.String({ description: 'HTML that puts the form into another page.' }),
  created_at: Timestamp({ description: 'When it was made.' }),
  updated_at: Timestamp({ description: 'When it was last changed.' }),
})
export type FormRecord = Static<typeof FormRecord>

const textOrNull = (text: string | null | undefined): string | null => text?.trim() || null

function requireTitle(text: string): string {
  const title = text.replace(/\s+/g, ' ').trim()
  if (title === '') throw invalid('title', 'A title is required: it is the heading of the page.')
  return title
}

const parseTheme = (provided: Static<typeof FormChangeBody>['theme']) =>
  provided === undefined ? undefined : readTheme((mapFromPhp(provided) ?? {}) as GivenTheme)
const parseMessages = (provided: Static<typeof FormChangeBody>['messages']) =>
  provided === undefined ? undefined : readMessages(mapFromPhp(provided) ?? {})

/** What a POST asks for; 422 for values that cannot be. */
export const toFormInput = (body: Static<typeof NewForm>): FormInput => ({
  title: requireTitle(body.title),
  description: textOrNull(body.description),
  fromAddress: textOrNull(body.from_address),
  redirectUrl: textOrNull(body.redirect_url),
  successMessage: textOrNull(body.success_message),
  customFields: readFields(body.custom_fields ?? []),
  theme: parseTheme(body.theme) ?? {},
  messages: parseMessages(body.messages) ?? {},
})

/** What a PUT asks for; a field that is left out is undefined. 422 for values that cannot be. */
export const toFormChange = (body: Static<typeof FormChangeBody>): FormChange => ({
  title: body.title === undefined ? undefined : requireTitle(body.title),
  description: body.description === undefined ? undefined : textOrNull(body.description),
  fromAddress: body.from_address === undefined ? undefined : textOrNull(body.from_address),
  redirectUrl: body.redirect_url === undefined ? undefined : textOrNull(body.redirect_url),
  successMessage: body.success_message === undefined ? undefined : textOrNull(body.success_message),
  customFields: body.custom_fields === undefined ? undefined : readFields(body.custom_fields ?? []),
  theme: parseTheme(body.theme),
  messages: parseMessages(body.messages),
})

export const formWire = (form: SignupForm, config: Pick<Config, 'publicUrl'>): FormRecord => ({
  id: formatUuid(form.uuid),
  account_id: formatUuid(form.accountUuid),
  list_id: formatUuid(form.listUuid),
  slug: form.slug,
  title: form.title,
  description: form.description,
  from_address: form.fromAddress,
  redirect_url: form.redirectUrl,
  success_message: form.successMessage,
  custom_fields: [...form.customFields],
  theme: form.theme,
  messages: form.messages,
  is_active: form.isActive,
  form_url: formUrl(config, form),
  embed_code: embedCode(config, form),
  created_at: isoTime(form.createdAt),
  updated_at: isoTime(form.updatedAt),
})
