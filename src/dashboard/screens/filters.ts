/** @module What the URLs of screens may have: the filters of lists, with the words of what they may be; the tabs of messages. */
import type { Contact, Log } from '#client/api.ts'
import type { Filters } from '../parts/filters.ts'
import type { State } from '../parts/tone.ts'
import { INBOUND_STATES, NOT_FORWARDED, ROUTE_DELIVERY_STATES, SPAM_STATES } from './inbound/format.ts'
import { KNOWN_REASONS } from './suppressions/reasons.ts'
import { DELIVERY_STATES, EVENT_NAMES, TEST_EVENT } from './webhooks/state.ts'

export const EMAIL_TABS = ['html', 'text', 'headers', 'source', 'links'] as const
export const INBOUND_TABS = ['text', 'html', 'headers', 'source'] as const
export const CAPTURED_TABS = ['html', 'text', 'headers', 'source', 'attachments', 'links'] as const

const MAX_WORDS_LENGTH = 200

const toWords = (states: Readonly<Record<string, { readonly word: string }>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(states).map(([name, { word }]) => [name, word]))

export type ContactStatus = Contact['status']

/** With what they mean for mail. */
export const CONTACT_STATES: Readonly<Record<ContactStatus, State>> = {
  active: { word: 'Subscribed', tone: 'good', title: 'Gets broadcasts.' },
  pending: {
    word: 'Waiting for confirmation',
    tone: 'waiting',
    title: 'Gets nothing until the link in the confirmation is used.',
  },
  unsubscribed: { word: 'Unsubscribed', tone: 'neutral', title: 'Left the list and gets no mail of it.' },
  bounced: { word: 'Undeliverable', tone: 'bad', title: 'The mailbox does not exist, so nothing is sent to it.' },
  complained: {
    word: 'Reported as spam',
    tone: 'bad',
    title: 'Reported mail of yours as spam, so nothing is sent to it.',
  },
}

export const INTERFACES = {
  api: 'API',
  smtp: 'SMTP',
  mcp: 'MCP',
  resend: 'Resend',
  postmark: 'Postmark',
  supabase: 'Supabase',
  mailgun: 'Mailgun',
  postal: 'Postal',
} as const satisfies Readonly<Record<Log['kind'], string>>

/** With what recipients did; some statuses are shown divided, but are one to `/v1`. */
const EMAIL_STATUSES = {
  sent: 'Delivered or captured',
  opened: 'Opened',
  clicked: 'Clicked',
  complained: 'Spam complaint',
  bounced: 'Bounced',
  queued: 'Queued or deferred',
  scheduled: 'Scheduled',
  draft: 'Drafts',
  processing: 'Sending',
  rejected: 'Suppressed',
  failed: 'Failed',
  uncertain: 'Uncertain',
  cancelled: 'Cancelled',
}

const CUSTOM = ['range', 'custom'] as const

export const EMAIL_FILTERS = {
  q: { label: 'Search', placeholder: 'Address, name, subject or id' },
  status: { label: 'Status', words: EMAIL_STATUSES },
  range: { label: 'Time', words: { '1': 'Today', '7': 'Last 7 days', '30': 'Last 30 days', custom: 'Custom days' } },
  from_date: { label: 'From day', only: CUSTOM },
  to_date: { label: 'Until day', only: CUSTOM },
  from: { label: 'Sender' },
  stream: { label: 'Stream' },
  tag: { label: 'Tag' },
  to: { label: 'Recipient', isHidden: true },
  subject: { label: 'Subject', isHidden: true },
  domain: { label: 'Domain', isHidden: true },
  operation_id: { label: 'Broadcast', isHidden: true },
} as const satisfies Filters

export const INBOUND_FILTERS = {
  from: { label: 'Sender', placeholder: 'bob@example.com' },
  status: { label: 'Status', words: toWords(INBOUND_STATES) },
  spam: { label: 'Spam', words: toWords(SPAM_STATES) },
  forward: { label: 'Forwarding', words: { refused: NOT_FORWARDED.word } },
  domain_id: { label: 'Domain' },
  route_id: { label: 'Route' },
} as const satisfies Filters

export const ROUTE_DELIVERY_FILTERS = { status: { label: 'Status', words: toWords(ROUTE_DELIVERY_STATES) } } as const

export const THREAD_FILTERS = {
  q: {
    label: 'Search the messages',
    placeholder: 'Whole words of subject, sender or text',
    maxLength: MAX_WORDS_LENGTH,
  },
} as const satisfies Filters

export const CAPTURED_FILTERS = {
  q: { label: 'Recipient, sender or subject', maxLength: MAX_WORDS_LENGTH },
  unread: { label: 'Show', words: { true: 'Only unread' } },
} as const satisfies Filters

export const SUPPRESSION_FILTERS = {
  email: { label: 'Address', placeholder: 'bob@example.com' },
  reason: { label: 'Reason', words: toWords(KNOWN_REASONS) },
} as const satisfies Filters

export const CONTACT_FILTERS = {
  starts_with: { label: 'Address', placeholder: 'The beginning of an address' },
  status: { label: 'Status', words: toWords(CONTACT_STATES) },
} as const satisfies Filters

export const TEMPLATE_FILTERS = { search: { label: 'Name or alias contains', maxLength: MAX_WORDS_LENGTH } } as const

export const DELIVERY_FILTERS = {
  status: { label: 'Status', words: toWords(DELIVERY_STATES) },
  event: { label: 'Event', words: Object.fromEntries([...EVENT_NAMES, TEST_EVENT].map((name) => [name, name])) },
} as const satisfies Filters

export const LOG_FILTERS = {
  q: { label: 'Path, error or request id', maxLength: MAX_WORDS_LENGTH },
  status: { label: 'Status', words: { '2xx': '2xx, accepted', '4xx': '4xx, refused', '5xx': '5xx, failed' } },
  kind: { label: 'Interface', words: INTERFACES },
  actor_id: { label: 'Key or user' },
  from_date: { label: 'From day' },
  to_date: { label: 'Until day' },
  request_id: { label: 'Request id', isHidden: true },
} as const satisfies Filters

export const AUDIT_FILTERS = {
  action: { label: 'Action', placeholder: 'Action, such as domain.created', maxLength: 512 },
  actor_type: { label: 'Actor', words: { user: 'Users', api_key: 'API keys', operator: 'Operator', system: 'Tassis' } },
  actor_id: { label: 'User or key' },
  resource_type: { label: 'Type', placeholder: 'domain' },
  resource_id: { label: 'Id' },
  from_date: { label: 'From day' },
  to_date: { label: 'Until day' },
} as const satisfies Filters

export const ACCOUNT_FILTER = { account_id: { label: 'Account', isHidden: true } } as const satisfies Filters

export const QUEUE_FILTERS = {
  domain: { label: 'Domain of the recipients', placeholder: 'example.com' },
  ...ACCOUNT_FILTER,
} as const satisfies Filters

export const ACCOUNT_FILTERS = {
  q: { label: 'Name, address or id', placeholder: 'acme' },
  state: { label: 'Status', words: { active: 'Active', paused: 'Paused', disabled: 'Disabled' } },
} as const satisfies Filters

export const REPORT_FILTERS = { domain: { label: 'Domain', placeholder: 'example.com' } } as const satisfies Filters

export const OPERATOR_MAIL_FILTERS = {
  kind: {
    label: 'Kind',
    words: {
      postmaster: 'Postmaster',
      abuse: 'Abuse',
      bounce: 'Bounce',
      complaint: 'Complaint',
      unsubscribe: 'Unsubscribe',
      report: 'Report',
      other: 'Other',
    },
  },
} as const satisfies Filters

export const SETTING_FILTERS = {
  q: { label: 'Name or meaning', placeholder: 'disk' },
  set: { label: 'Show', words: { true: 'Only those that are set' } },
} as const satisfies Filters
