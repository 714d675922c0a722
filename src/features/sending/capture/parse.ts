/**
 * @module Parses the bodies of a captured message for display. Reads a limited part of the message and trusts nothing
 * in it.
 */
import { MiB } from '#platform/units.ts'
import { parseMessage } from '#protocols/mime/parse.ts'
import { UnparseableError } from '#protocols/mime/parsed.ts'

interface ReadableMessage {
  readonly text: string | null
  readonly html: string | null
  /** Whether text or HTML may be missing or truncated: they come before all other parts. */
  readonly isTruncated: boolean
}

/** Bodies precede attachments, so the start of a message has the readable part. */
const MAX_PARSED_BYTES = MiB

/** Parses the first MiB of a message. Everything is empty if the message cannot be parsed. */
export async function parseCaptured(raw: Uint8Array): Promise<ReadableMessage> {
  const isCut = raw.length > MAX_PARSED_BYTES
  try {
    const { text, html, attachments } = await parseMessage(raw.subarray(0, MAX_PARSED_BYTES), { mailFrom: '' })
    return { text, html, isTruncated: isCut && attachments.length === 0 }
  } catch (error) {
    if (!(error instanceof UnparseableError)) throw error
    return { text: null, html: null, isTruncated: isCut }
  }
}
