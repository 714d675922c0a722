/** @module Who does not get a broadcast, in sentences. */
import type { RecipientCountRecord } from '#features/sending/broadcasts/read-routes.ts'

const REASONS: Readonly<Record<keyof RecipientCountRecord['left_out'], string>> = {
  suppressed: 'on the suppression list',
  unsubscribed: 'unsubscribed',
  pending: 'not confirmed yet',
  bounced: 'undeliverable',
  complained: 'reported mail as spam',
}

/** One sentence for each reason that applies to somebody. */
export const describeLeftOut = ({ left_out: leftOut }: RecipientCountRecord): readonly string[] =>
  (Object.keys(REASONS) as (keyof typeof REASONS)[])
    .filter((reason) => leftOut[reason] > 0)
    .map((reason) => `${leftOut[reason].toLocaleString()} ${REASONS[reason]}`)
