/** @module The fields of a signup form as they are edited, and as `/v1` takes them. */
import type { SignupForm, UpdateSignupFormRequest } from '#client/api.ts'

export type FormField = SignupForm['custom_fields'][number]
/** `key` tells rows apart while their names are edited. */
export type EditedField = FormField & { readonly key: number }

export const FIELD_TYPES: readonly { readonly value: FormField['type']; readonly label: string }[] = [
  { value: 'text', label: 'Text' },
  { value: 'textarea', label: 'Text of several lines' },
  { value: 'email', label: 'Email address' },
  { value: 'number', label: 'Number' },
  { value: 'tel', label: 'Telephone number' },
  { value: 'url', label: 'URL' },
  { value: 'date', label: 'Date' },
  { value: 'checkbox', label: 'Checkbox' },
]

/** Texts by the name of their field; a dot separates a group from the name in it. */
export type FormTexts = Readonly<Record<string, string>>

interface TextField {
  readonly name: string
  readonly label: string
  readonly description?: string
  readonly placeholder?: string
  readonly isLong?: boolean
}

export const MAIN_FIELDS: readonly TextField[] = [
  { name: 'title', label: 'Title', description: 'The heading of the page.' },
  { name: 'description', label: 'Description', description: 'Below the title.', isLong: true },
]

export const CONFIRMATION_FIELDS: readonly TextField[] = [
  {
    name: 'from_address',
    label: 'Sender of confirmations',
    description: 'At one of your verified domains. Empty: no-reply at the first verified domain.',
    placeholder: 'News <news@example.com>',
  },
  { name: 'success_message', label: 'Text after signing up', isLong: true },
  {
    name: 'redirect_url',
    label: 'Page after signing up',
    description: 'A URL to which visitors are led instead of seeing the text.',
    placeholder: 'https://example.com/thanks',
  },
]

export const THEME_FIELDS: readonly TextField[] = [
  { name: 'theme.bg_color', label: 'Background', placeholder: '#ffffff' },
  { name: 'theme.text_color', label: 'Text', placeholder: '#1b1f24' },
  { name: 'theme.button_color', label: 'Button', placeholder: 'seagreen' },
  { name: 'theme.button_text_color', label: 'Text of the button', placeholder: 'white' },
  { name: 'theme.border_color', label: 'Borders', placeholder: 'rgb(107 116 128)' },
  { name: 'theme.accent_color', label: 'Links and focus', placeholder: '#0b57d0' },
  { name: 'theme.border_radius', label: 'Corner radius', placeholder: '8px' },
  { name: 'theme.font_family', label: 'Fonts', placeholder: 'Georgia, serif' },
]

export const MESSAGE_FIELDS: readonly TextField[] = [
  { name: 'messages.submit_button', label: 'Button', placeholder: 'Subscribe' },
  { name: 'messages.email_label', label: 'Label of the address', placeholder: 'Email address' },
  { name: 'messages.email_placeholder', label: 'Example in the empty address field' },
  { name: 'messages.confirmation_sent', label: 'A confirmation was sent' },
  { name: 'messages.confirmation_pending', label: 'The address is not confirmed yet' },
  { name: 'messages.already_subscribed', label: 'The address is on the list' },
  { name: 'messages.invalid_email', label: 'The address is invalid' },
  { name: 'messages.error', label: 'The address could not be subscribed' },
]

const ALL = [...MAIN_FIELDS, ...CONFIRMATION_FIELDS, ...THEME_FIELDS, ...MESSAGE_FIELDS]

type Groups = Readonly<Record<string, unknown>>

export function toFormTexts(form: SignupForm): FormTexts {
  return Object.fromEntries(
    ALL.map(({ name }) => {
      const [first = '', second] = name.split('.')
      const value = (form as Groups)[first]
      const found = second === undefined ? value : (value as Groups)[second]
      return [name, found === null || found === undefined ? '' : String(found)]
    }),
  )
}

interface FormSwitches {
  readonly embed: boolean
  readonly hide_branding: boolean
}

/** The body of a change. Theme and messages are replaced as a whole, so what is not edited here is kept from the form. */
export function toFormBody(
  form: SignupForm,
  texts: FormTexts,
  switches: FormSwitches,
  fields: readonly EditedField[],
): UpdateSignupFormRequest {
  const group = (prefix: string, before: object) => ({
    ...before,
    ...Object.fromEntries(
      ALL.filter(({ name }) => name.startsWith(`${prefix}.`)).map(({ name }) => [
        name.slice(prefix.length + 1),
        texts[name]?.trim() || null,
      ]),
    ),
  })
  return {
    ...Object.fromEntries(
      [...MAIN_FIELDS, ...CONFIRMATION_FIELDS].map(({ name }) => [
        name,
        // The server explains why a form must have a title.
        name === 'title' ? (texts[name] ?? '') : texts[name]?.trim() || null,
      ]),
    ),
    theme: { ...group('theme', form.theme), ...switches },
    messages: group('messages', form.messages),
    custom_fields: fields.map(({ name, label, type, required }) => ({ name, label, type, required })),
  }
}
