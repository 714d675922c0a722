/** @module Wire shapes of sub-accounts. */
import { type Static, Type } from '@sinclair/typebox'
import { UNLIMITED } from '#features/core/accounts/plans.ts'
import { MAX_PASSWORD_LENGTH, MIN_PASSWORD_LENGTH } from '#features/people/team/passwords.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { OptionalNullable, StrictObject, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { SubAccount } from './sub-accounts.ts'

export const SubAccountRecord = Type.Object(
  {
    id: Uuid({ description: 'Id of the sub-account.' }),
    name: Type.String({ description: 'Name.' }),
    email: Type.String({ description: 'Address of its owner.' }),
    plan: Type.String({ description: 'Plan: always that of the parent.' }),
    monthly_quota: Type.Integer({ description: 'Recipients per calendar month (UTC); 2147483647 is unlimited.' }),
    emails_sent_this_month: Type.Integer({ description: 'Recipients accepted this month, minus cancelled ones.' }),
    parent_account_id: Uuid({ description: 'Id of the parent account.' }),
    is_active: Type.Boolean({
      description: 'False: requests with its keys and sessions get a 401, and its waiting mail is held.',
    }),
    created_at: Timestamp({ description: 'When it was created.' }),
  },
  { title: 'SubAccount' },
)
export type SubAccountRecord = Static<typeof SubAccountRecord>

const NAME = Type.String({ minLength: 1, maxLength: 200, description: 'Name.' })
const QUOTA = Type.Integer({
  minimum: 0,
  maximum: UNLIMITED,
  description: "Recipients per calendar month (UTC), at most the parent's quota.",
})

export const NewSubAccountBody = StrictObject({
  name: NAME,
  email: Type.String({ minLength: 3, maxLength: 320, description: 'Address of its owner, who signs in with it.' }),
  password: Type.String({
    maxLength: MAX_PASSWORD_LENGTH * 4,
    description: `Password of its owner, ${MIN_PASSWORD_LENGTH} to ${MAX_PASSWORD_LENGTH} characters.`,
  }),
  monthly_quota: OptionalNullable(QUOTA, {
    description: "Recipients per calendar month (UTC), at most the parent's quota, which is the default.",
  }),
})
export type NewSubAccountBody = Static<typeof NewSubAccountBody>

export const SubAccountChangeBody = StrictObject(
  {
    name: Type.Optional(NAME),
    monthly_quota: OptionalNullable(QUOTA, {
      description: "Recipients per calendar month (UTC), at most the parent's quota; null: the parent's quota.",
    }),
    is_active: Type.Optional(
      Type.Boolean({
        description:
          'False disables it: requests with its keys and sessions get a 401 immediately, waiting mail is held.',
      }),
    ),
  },
  { description: 'At least one field; fields that are left out keep their value.' },
)

export const SubAccountDeletion = Type.Object({
  message: Type.String({ description: 'What happens now.' }),
  account_id: Uuid({ description: 'Id of the sub-account.' }),
})

export const subAccountWire = ({ account, parentUuid, usedThisMonth }: SubAccount): SubAccountRecord => ({
  id: formatUuid(account.uuid),
  name: account.name,
  email: account.email,
  plan: account.plan,
  monthly_quota: account.monthlyQuota,
  emails_sent_this_month: usedThisMonth,
  parent_account_id: parentUuid,
  is_active: account.disabledAt === null,
  created_at: isoTime(account.createdAt),
})
