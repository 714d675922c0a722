/** @module The states of contacts in words. */
import type { Contact } from '#client/api.ts'
import type { State } from '../../parts/tone.ts'

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
