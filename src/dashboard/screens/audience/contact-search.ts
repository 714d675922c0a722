/** @module The states of contacts in words. */
import type { Contact } from '#client/api.ts'
import type { Tone } from '../../parts/tone.ts'

export type ContactStatus = Contact['status']

interface ContactState {
  readonly word: string
  readonly tone: Tone
  /** For its mail. */
  readonly meaning: string
}

export const CONTACT_STATES: Readonly<Record<ContactStatus, ContactState>> = {
  active: { word: 'Subscribed', tone: 'good', meaning: 'Gets broadcasts.' },
  pending: {
    word: 'Waiting for confirmation',
    tone: 'waiting',
    meaning: 'Gets nothing until the link in the confirmation is used.',
  },
  unsubscribed: { word: 'Unsubscribed', tone: 'neutral', meaning: 'Left the list and gets no mail of it.' },
  bounced: { word: 'Undeliverable', tone: 'bad', meaning: 'The mailbox does not exist, so nothing is sent to it.' },
  complained: {
    word: 'Reported as spam',
    tone: 'bad',
    meaning: 'Reported mail of yours as spam, so nothing is sent to it.',
  },
}
