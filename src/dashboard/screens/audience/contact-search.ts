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

/** Metadata as text to be edited; empty for none. */
export const toMetadataText = (metadata: Readonly<Record<string, unknown>>): string =>
  Object.keys(metadata).length === 0 ? '' : JSON.stringify(metadata, null, 2)

/** The metadata of an edited text, or what is wrong with it. */
export function parseMetadataText(
  text: string,
): { readonly metadata: Record<string, unknown> } | { readonly problem: string } {
  if (text.trim() === '') return { metadata: {} }
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? { metadata: value as Record<string, unknown> }
      : { problem: 'This must be a JSON object, such as {"first_name": "Ada"}.' }
  } catch (error) {
    return { problem: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` }
  }
}
