/** @module The texts of a form: the English defaults, and the account's own texts that replace them. */

/** The names of the messages, with their default texts. */
export const DEFAULT_MESSAGES = {
  submit_button: 'Subscribe',
  email_label: 'Email address',
  email_placeholder: '',
  submitting: 'Subscribing…',
  already_subscribed: 'This address is already subscribed.',
  confirmation_sent: 'Please confirm your subscription: we are sending you a message with a link.',
  confirmation_pending:
    'This address has not been confirmed yet. Look for the message with the link, and check your spam folder.',
  invalid_email: 'Enter an email address such as name@example.com.',
  error: 'Something went wrong. Please try again in a few minutes.',
} as const

export type MessageName = keyof typeof DEFAULT_MESSAGES

export const MESSAGE_NAMES = Object.keys(DEFAULT_MESSAGES) as readonly MessageName[]

/** The account's own texts. */
export type Messages = { readonly [Name in MessageName]?: string }

export const MAX_MESSAGE_LENGTH = 500

/** Messages in their stored form: null and an empty text mean the default. */
export const readMessages = (provided: { readonly [Name in MessageName]?: string | null | undefined }): Messages =>
  Object.fromEntries(MESSAGE_NAMES.flatMap((name) => (provided[name] ? [[name, provided[name]]] : [])))

/** The account's text, or the default. */
export const getMessage = (messages: Messages, name: MessageName): string => messages[name] ?? DEFAULT_MESSAGES[name]
