/** @module Wire form of the account. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime } from '#platform/http/envelope.ts'
import { extra, StrictObject, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { AccountState } from './accounts.ts'

const TRACKING_PRIVACY =
  'Opens and clicks are stored without IP address and user agent. Applies from the change on; stored data stays.'

export const AccountRecord = Type.Object({
  id: Uuid({ description: 'Id of the account.' }),
  name: Type.String({ description: 'Name.' }),
  email: Type.String({ description: 'Email address of the owner.' }),
  plan: Type.String({ description: 'free, starter, pro, business, enterprise or unlimited.' }),
  monthly_quota: Type.Integer({ description: 'Recipients per calendar month (UTC); 2147483647 means unlimited.' }),
  emails_sent_this_month: Type.Integer({ description: 'Recipients accepted this month, without cancelled ones.' }),
  quota_reset_at: Timestamp({ description: 'First instant of the next month (UTC).' }),
  tracking_default: extra(
    Type.Boolean({ description: 'Open and click tracking of emails that do not set it themselves.' }),
  ),
  tracking_privacy: extra(Type.Boolean({ description: TRACKING_PRIVACY })),
  created_at: Timestamp({ description: 'When the account was created.' }),
  events_read_at: extra(
    Type.Optional(Timestamp({ description: 'When an API key first read the event feed; absent: never.' })),
  ),
  paused: extra(
    Type.Optional(
      Type.Object(
        {
          since: Timestamp({ description: 'When sending was paused.' }),
          source: Type.String({ description: 'reputation, scam_classifier, registration_burst or admin.' }),
          reason: Type.String({ description: 'Why, in one sentence.' }),
        },
        { description: 'Present only while sending is paused, for the account or its parent.' },
      ),
    ),
  ),
})
export type AccountRecord = Static<typeof AccountRecord>

export const AccountChange = StrictObject(
  {
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'Name.' })),
    tracking_default: Type.Optional(
      Type.Boolean({ description: 'Open and click tracking of emails that do not set it themselves.' }),
    ),
    tracking_privacy: Type.Optional(Type.Boolean({ description: TRACKING_PRIVACY })),
  },
  { description: 'At least one field; omitted fields keep their value.' },
)
export type AccountChange = Static<typeof AccountChange>

export const toAccountWire = ({ account, usedThisMonth, quotaResetAt, pause }: AccountState): AccountRecord => ({
  id: formatUuid(account.uuid),
  name: account.name,
  email: account.email,
  plan: account.plan,
  monthly_quota: account.monthlyQuota,
  emails_sent_this_month: usedThisMonth,
  quota_reset_at: isoTime(quotaResetAt),
  tracking_default: account.trackingDefault,
  tracking_privacy: account.trackingPrivacy,
  created_at: isoTime(account.createdAt),
  ...(account.eventsReadAt !== null && { events_read_at: isoTime(account.eventsReadAt) }),
  ...(pause && { paused: { since: isoTime(pause.since), source: pause.source, reason: pause.reason } }),
})
