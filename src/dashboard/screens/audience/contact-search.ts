/** @module Contacts in words: their state, and their metadata as text. */
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

const MAX_SHOWN_ENTRIES = 10
const MAX_ENTRY_LENGTH = 200

/** The first values of the metadata, shortened: `first_name: Ada`, `plan: pro`. */
export const toMetadataEntries = (metadata: Readonly<Record<string, unknown>>): readonly string[] =>
  Object.entries(metadata)
    .slice(0, MAX_SHOWN_ENTRIES)
    .map(([name, value]) => {
      const text = `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`
      return text.length > MAX_ENTRY_LENGTH ? `${[...text.slice(0, MAX_ENTRY_LENGTH)].slice(0, -1).join('')}…` : text
    })
