/**
 * @module Parses a captured message for display: text, HTML and pictures. Reads a limited part of the message and
 * trusts nothing in it.
 */
import { MiB } from '#platform/units.ts'
import type { InlinePicture } from '#protocols/mime/inline-pictures.ts'
import { parseMessage } from '#protocols/mime/parse.ts'
import { UnparseableError } from '#protocols/mime/parsed.ts'

export interface ReadableMessage {
  readonly text: string | null
  readonly html: string | null
  /** The parts that the HTML can refer to, as far as they were parsed whole. */
  readonly pictures: readonly InlinePicture[]
  /** Whether only the start of the message was parsed: the last parts may be missing. */
  readonly isCut: boolean
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
    // The last part that was reached may end there.
    const whole = isCut ? attachments.slice(0, -1) : attachments
    const pictures = whole.flatMap(({ contentId, contentType, content }) =>
      contentId === null ? [] : [{ contentId, contentType, content }],
    )
    return { text, html, pictures, isCut, isTruncated: isCut && attachments.length === 0 }
  } catch (error) {
    if (!(error instanceof UnparseableError)) throw error
    return { text: null, html: null, pictures: [], isCut, isTruncated: isCut }
  }
}
