/** @module The fields of a signup form as they are edited, and as `/v1` takes them. */
import type { SignupForm, UpdateSignupFormRequest } from '#client/api.ts'
import type { Field, Values } from '../../parts/fields.ts'

export type FormField = SignupForm['custom_fields'][number]

export const PARTS_OF_FIELD: readonly Field<keyof FormField & ('label' | 'name' | 'type' | 'required')>[] = [
  { name: 'label', label: 'Label', isRequired: true },
  { name: 'name', label: 'Name in the metadata', kind: 'code', placeholder: 'first_name', isRequired: true },
  {
    name: 'type',
    label: 'Type',
    kind: 'choice',
    options: [
      { value: 'text', label: 'Text' },
      { value: 'textarea', label: 'Text of several lines' },
      { value: 'email', label: 'Email address' },
      { value: 'number', label: 'Number' },
      { value: 'tel', label: 'Telephone number' },
      { value: 'url', label: 'URL' },
      { value: 'date', label: 'Date' },
      { value: 'checkbox', label: 'Checkbox' },
    ],
  },
  { name: 'required', label: 'Must be filled in', kind: 'check' },
]

export const MAIN_FIELDS: readonly Field[] = [
  { name: 'title', label: 'Title', hint: 'The heading of the page.', isRequired: true },
  { name: 'description', label: 'Description', hint: 'Below the title.', kind: 'lines' },
]

export const CONFIRMATION_FIELDS: readonly Field[] = [
  {
    name: 'from_address',
    label: 'Sender of confirmations',
    hint: 'At one of your verified domains. Empty: no-reply at the first verified domain.',
    placeholder: 'News <news@example.com>',
  },
  { name: 'success_message', label: 'Text after signing up', kind: 'lines' },
  {
    name: 'redirect_url',
    label: 'Page after signing up',
    hint: 'A URL to which visitors are led instead of seeing the text.',
    placeholder: 'https://example.com/thanks',
  },
]

export const THEME_FIELDS: readonly Field[] = [
  { name: 'theme.bg_color', label: 'Background', placeholder: '#ffffff' },
  { name: 'theme.text_color', label: 'Text', placeholder: '#1b1f24' },
  { name: 'theme.button_color', label: 'Button', placeholder: 'seagreen' },
  { name: 'theme.button_text_color', label: 'Text of the button', placeholder: 'white' },
  { name: 'theme.border_color', label: 'Borders', placeholder: 'rgb(107 116 128)' },
  { name: 'theme.accent_color', label: 'Links and focus', placeholder: '#0b57d0' },
  { name: 'theme.border_radius', label: 'Corner radius', placeholder: '8px' },
  { name: 'theme.font_family', label: 'Fonts', placeholder: 'Georgia, serif' },
]

export const THEME_SWITCHES: readonly Field[] = [
  { name: 'theme.hide_branding', label: 'Hide the name of this service', kind: 'switch' },
  {
    name: 'theme.embed',
    label: 'Let other pages embed the address of the form itself',
    kind: 'switch',
    hint: 'They may always embed it with the code above.',
  },
]

export const MESSAGE_FIELDS: readonly Field[] = [
  { name: 'messages.submit_button', label: 'Button', placeholder: 'Subscribe' },
  { name: 'messages.email_label', label: 'Label of the address', placeholder: 'Email address' },
  { name: 'messages.email_placeholder', label: 'Example in the empty address field' },
  { name: 'messages.confirmation_sent', label: 'A confirmation was sent' },
  { name: 'messages.confirmation_pending', label: 'The address is not confirmed yet' },
  { name: 'messages.already_subscribed', label: 'The address is on the list' },
  { name: 'messages.invalid_email', label: 'The address is invalid' },
  { name: 'messages.error', label: 'The address could not be subscribed' },
]

/** The body of a change. Theme and messages are replaced as a whole, so what was not changed is kept from the form. */
export function toFormBody(form: SignupForm, changes: Values): UpdateSignupFormRequest {
  const body: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(changes)) {
    const [group = '', key] = name.split('.')
    const before = body[group] ?? (form as Values)[group]
    body[group] = key === undefined ? value : { ...(before as object), [key]: value }
  }
  return body
}
