/** @module Wire shapes of sub-accounts. */
import { type Static, Type } from '@sinclair/typebox'
import { type Account, monthOf, readMonthlyUsage } from '#features/core/accounts/accounts.ts'
import { PLANS, UNLIMITED } from '#features/core/accounts/plans.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { MAX_PASSWORD_LENGTH, MIN_PASSWORD_LENGTH } from '#features/people/team/passwords.ts'
import { Count, OptionalNullable, StrictObject, StringEnum, Text, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'

export const SubAccountRecord = Type.Object(
  {
    id: Uuid({ description: 'Id of the sub-account.' }),
    name: Text('Name.'),
    email: Text('Address of its owner.'),
    plan: Text('Plan: always that of the parent.'),
    monthly_quota: Count('Recipients per calendar month (UTC); 2147483647 is unlimited.'),
    emails_sent_this_month: Count('Recipients accepted this month, minus cancelled ones.'),
    parent_account_id: Uuid({ description: 'Id of the parent account.' }),
    is_active: Type.Boolean({
      description: 'False: requests with its keys and sessions get a 401, and its waiting mail is held.',
    }),
    created_at: Timestamp({ description: 'When it was created.' }),
  },
  { title: 'SubAccount' },
)

const NAME = Type.String({ minLength: 1, maxLength: 200, description: 'Name.' })
const QUOTA = Type.Integer({
  minimum: 0,
  maximum: UNLIMITED,
  description: "Recipients per calendar month (UTC), at most the parent's quota.",
})

export const NewAccountBody = StrictObject({
  name: Text('Name of the account.'),
  email: Text('Address of its owner.'),
  plan: StringEnum(PLANS, { description: 'Its plan.' }),
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

/** @param actor of the parent account */
export const subAccountWire = (
  { clock, db }: Pick<App, 'clock' | 'db'>,
  actor: Actor,
  account: Account,
): Static<typeof SubAccountRecord> =>
  toWire(SubAccountRecord, account, {
    emails_sent_this_month: readMonthlyUsage(db, account.id, monthOf(clock.now())),
    parent_account_id: actor.accountUuid,
    is_active: account.disabledAt === null,
  })
