/** @module Wire shapes of /v1/operator/accounts/{id} and /v1/operator/findings. */
import { type Static, Type } from '@sinclair/typebox'
import { OPERATOR_ACCOUNT_FIELDS } from '#features/core/accounts/model.ts'
import { POOL_FIELDS } from '#features/sending/delivery/control/pools.ts'
import * as S from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import { formatUuid } from '#platform/ids.ts'
import type { AbuseFinding } from './findings.ts'

export const MAX_PAUSE_REASON_LENGTH = 300

const STATUS_FIELDS = {
  ...OPERATOR_ACCOUNT_FIELDS,
  ...POOL_FIELDS,
  stopped: S.TextOrNull('Why it may not send, a sentence; null: it may.'),
  paused: S.NullablePart('Its pause, or that of its parent; null: neither is paused.', {
    since: S.Timestamp({ description: 'Since when.' }),
    source: S.Text('What paused it: reputation, scam_classifier, registration_burst or admin.'),
    reason: S.Text('Why, a sentence that its users see.'),
  }),
  held: S.Count('Recipients whose mail is held, as far as they are counted.'),
  judged: Type.Boolean({ description: 'Whether its rates can pause it, which depends on its plan.' }),
  last_24_hours: S.Part('Since it was resumed, at most 24 hours.', {
    delivered: S.Count('Delivered recipients.'),
    bounced: S.Count('Bounced recipients.'),
    complained: S.Count('Complaints from verified feedback loops.'),
    bounce_percent: S.Nullable(Type.Number(), { description: 'Bounces per 100; null: nothing was sent.' }),
    complaints_per_mille: S.Nullable(Type.Number(), { description: 'Complaints per 1,000; null: none delivered.' }),
  }),
  thresholds: S.Part('When it is paused automatically.', {
    minimum_volume: S.Count('Recipients from which on the rates are checked.'),
    bounce_percent: Type.Number({ description: 'Bounces per 100 at which it is paused.' }),
    complaints_per_mille: Type.Number({ description: 'Complaints per 1,000 at which it is paused.' }),
  }),
}
export const OperatorAccountStatus = Type.Object(STATUS_FIELDS)
export type OperatorAccountStatus = Static<typeof OperatorAccountStatus>
export const OperatorAccountDetail = Type.Object({
  ...STATUS_FIELDS,
  last_30_days: S.Part('Complaint rate of 30 days.', {
    delivered: S.Count('Delivered recipients, without sandbox mail.'),
    complaints: S.Count('Complaints.'),
    rate: S.Nullable(Type.Number(), { description: 'Complaints per delivered recipient; null: none delivered.' }),
  }),
  members: Type.Array(Type.Object({ email: S.Text('Address of the user.'), role: S.Text('Role of the user.') }), {
    description: 'Its team, at most 20.',
  }),
})
export type OperatorAccountDetail = Static<typeof OperatorAccountDetail>

export const PauseRequest = S.StrictObject({
  reason: Type.String({
    minLength: 1,
    maxLength: MAX_PAUSE_REASON_LENGTH,
    description: 'Why, in one sentence; the users of the account read it.',
  }),
})
export const ResumeResult = Type.Object({
  account: S.Text('Name of the account.'),
  released: S.Count('Recipients whose mail is released, as far as they are counted.'),
  released_is_at_least: Type.Boolean({ description: 'Whether there may be more.' }),
  still_stopped: S.TextOrNull('Why it still may not send; null: it may.'),
})
export type ResumeResult = Static<typeof ResumeResult>

export const Finding = Type.Object({
  id: S.Text('Id of the finding.'),
  account_id: S.Uuid({ description: 'Id of the account.' }),
  account: S.Text('Name of the account.'),
  source: S.Text('What found it: reputation, scam_classifier, registration_burst or admin.'),
  reason: S.Text('The finding, a sentence.'),
  paused: Type.Boolean({ description: 'Whether it paused the account.' }),
  email_id: S.UuidOrNull('Id of the email; null: none, or it is deleted.'),
  detail: S.Nullable(Type.Unknown(), { description: 'Figures, links and words of the finding.' }),
  created_at: S.Timestamp({ description: 'When it was found.' }),
})
export type Finding = Static<typeof Finding>

export const toFindingWire = ({ accountUuid, accountName, ...finding }: AbuseFinding): Finding =>
  toWire(Finding, finding, {
    id: String(finding.id),
    account_id: formatUuid(accountUuid),
    account: accountName,
    paused: finding.paused === 1,
    email_id: finding.emailUuid && formatUuid(finding.emailUuid),
    detail: finding.detail === null ? null : JSON.parse(finding.detail),
  })
