/** @module The mail to owners that sending is paused on their account. `pause.ts` schedules and cancels it. */
import type { OwnerNotice } from '#features/core/notices/notices.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { Millis } from '#platform/time/clock.ts'

/** Data of the notice; its topic is the account. */
export interface NoticedPause {
  readonly since: Millis
  readonly reason: string
}

export const PAUSE_NOTICE: OwnerNotice = {
  kind: 'pause',
  intervalMs: 0,
  isForParent: true,
  compose(_, { name }, [notice]) {
    const { since, reason } = JSON.parse(notice?.data ?? '{}') as NoticedPause
    return {
      subject: 'Sending is paused on your account',
      text: [
        `Sending was paused on the account ${name} on ${isoTime(since).slice(0, 10)} at ${isoTime(since).slice(11, 16)} UTC.`,
        `Reason: ${reason}`,
        'Until sending is resumed, new emails are rejected with the error "account_paused". Emails accepted before are held and sent when sending is resumed.',
        'Receiving, reading and your data are not affected. To resume sending, contact the operator of the service.',
      ].join('\n\n'),
    }
  },
}
