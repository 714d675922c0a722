/** @module What a form says: the words that an account may put in place of the English ones. */

/** The names of them, with what is said by default. */
export const DEFAULT_MESSAGES = {
  submit_button: 'Subscribe',
  email_label: 'Email address',
  email_placeholder: '',
  submitting: 'Subscribing…',
  already_subscribed: 'This address is subscribed already.',
  confirmation_sent: 'Please confirm your subscription: a message with a link is on its way to you.',
  confirmation_pending:
    'This address still waits to be confirmed. Look for the message with the link, also among the spam.',
  invalid_email: 'Enter an email address such as name@example.com.',
  error: 'That did not work. Please try again in a few minutes.',
} as const

export type MessageName = keyof typeof DEFAULT_MESSAGES

export const MESSAGE_NAMES = Object.keys(DEFAULT_MESSAGES) as readonly MessageName[]

/** What an account says otherwise. */
export type Messages = { readonly [Name in MessageName]?: string }

export const MAX_MESSAGE_LENGTH = 500

/** What is kept of messages as they come in: null and an empty text mean the default. */
export const readMessages = (provided: { readonly [Name in MessageName]?: string | null | undefined }): Messages =>
  Object.fromEntries(MESSAGE_NAMES.flatMap((name) => (provided[name] ? [[name, provided[name]]] : [])))

/** What the form says. */
export const getMessage = (messages: Messages, name: MessageName): string => messages[name] ?? DEFAULT_MESSAGES[name]
