/** @module Wire form of the account: for its users, and for operators. */
import { type Static, Type } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { isoTime, toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import {
  ACCOUNT_SENDING_STATES,
  type Account,
  type AccountState,
  findAccount,
  monthOf,
  readMonthlyUsage,
} from './accounts.ts'
import { UNLIMITED } from './plans.ts'

const TRACKING_PRIVACY =
  'Opens and clicks are stored without IP address and user agent. Applies from the change on; stored data stays.'

const TIME_ZONE = 'Time zone of the days in analytics, an IANA name such as Europe/Berlin; at first UTC.'

export const AccountRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the account.' }),
  name: Type.String({ description: 'Name.' }),
  email: Type.String({ description: 'Email address of the owner.' }),
  plan: Type.String({ description: 'free, starter, pro, business, enterprise or unlimited.' }),
  monthly_quota: Type.Integer({ description: 'Recipients per calendar month (UTC); 2147483647 means unlimited.' }),
  emails_sent_this_month: Type.Integer({ description: 'Recipients accepted this month, without cancelled ones.' }),
  quota_reset_at: S.Timestamp({ description: 'First instant of the next month (UTC).' }),
  tracking_default: S.extra(
    Type.Boolean({ description: 'Open and click tracking of emails that do not set it themselves.' }),
  ),
  tracking_privacy: S.extra(Type.Boolean({ description: TRACKING_PRIVACY })),
  timezone: S.extra(Type.String({ description: TIME_ZONE })),
  created_at: S.Timestamp({ description: 'When the account was created.' }),
  events_read_at: S.extra(
    Type.Optional(S.Timestamp({ description: 'When an API key first read the event feed; absent: never.' })),
  ),
  paused: S.extra(
    Type.Optional(
      Type.Object(
        {
          since: S.Timestamp({ description: 'When sending was paused.' }),
          source: Type.String({ description: 'reputation, scam_classifier, registration_burst or admin.' }),
          reason: Type.String({ description: 'Why, in one sentence.' }),
        },
        { description: 'Present only while sending is paused, for the account or its parent.' },
      ),
    ),
  ),
})
export type AccountRecord = Static<typeof AccountRecord>

export const AccountChange = S.StrictObject(
  {
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'Name.' })),
    tracking_default: Type.Optional(
      Type.Boolean({ description: 'Open and click tracking of emails that do not set it themselves.' }),
    ),
    tracking_privacy: Type.Optional(Type.Boolean({ description: TRACKING_PRIVACY })),
    timezone: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: TIME_ZONE })),
  },
  { description: 'At least one field; omitted fields keep their value.' },
)
export type AccountChange = Static<typeof AccountChange>

export function toAccountWire({ account, usedThisMonth, quotaResetAt, pause }: AccountState): AccountRecord {
  const row = { ...account, paused: null }
  return toWire(AccountRecord, row, {
    emails_sent_this_month: usedThisMonth,
    quota_reset_at: isoTime(quotaResetAt),
    ...(pause && { paused: { since: isoTime(pause.since), source: pause.source, reason: pause.reason } }),
  })
}

/** Of a list of operators about all accounts or one. */
export const OfAccountQuery = Type.Object({
  ...S.PAGE_FIELDS,
  account_id: S.Filter('Only of the account with this id.'),
})

export const AccountsQuery = Type.Object({
  ...S.PAGE_FIELDS,
  q: S.Filter('Part of the name or address, or the id of an account.'),
  state: Type.Optional(S.StringEnum(ACCOUNT_SENDING_STATES, { description: 'Only accounts in this state.' })),
})
export const OPERATOR_ACCOUNT_FIELDS = {
  id: S.Uuid({ description: 'Id of the account.' }),
  name: S.Text('Name of the account.'),
  email: S.Text('Address of its owner.'),
  plan: S.Text('Plan of the account.'),
  parent_account_id: S.Nullable(S.Uuid(), { description: 'Id of the parent account; null: it is not a sub-account.' }),
  disabled_at: S.Nullable(S.Timestamp(), { description: 'When its parent disabled it; null: it did not.' }),
  monthly_quota: S.Nullable(Type.Integer(), { description: 'Recipients per month; null: unlimited.' }),
  used_this_month: S.Count('Recipients used in this month.'),
  paused_at: S.Nullable(S.Timestamp(), { description: 'When it was paused; null: it is not paused.' }),
  created_at: S.Timestamp({ description: 'When it was created.' }),
}
export const OperatorAccount = Type.Object(OPERATOR_ACCOUNT_FIELDS)
export type OperatorAccount = Static<typeof OperatorAccount>

export const toOperatorAccount = (app: App, account: Account): OperatorAccount =>
  toWire(OperatorAccount, account, {
    parent_account_id: findParentUuid(app, account),
    monthly_quota: account.monthlyQuota >= UNLIMITED ? null : account.monthlyQuota,
    used_this_month: readMonthlyUsage(app.db, account.id, monthOf(app.clock.now())),
  })

function findParentUuid(app: App, { parentId }: Account): string | null {
  const parent = parentId === null ? undefined : findAccount(app.config, app.db, parentId)
  return parent ? formatUuid(parent.uuid) : null
}
