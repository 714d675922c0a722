/**
 * @module Parses a captured message for display: the main header fields, text, HTML, names of attachments. Reads a
 * limited part of the message and trusts nothing in it; the result is plain text that the page must escape.
 */
import { type AddressObject, simpleParser } from 'mailparser'
import { MiB } from '#platform/units.ts'
import type { InlinePicture } from '#protocols/mime/inline-pictures.ts'

export interface ReadableHead {
  readonly from: string
  readonly to: string
  readonly cc: string
  readonly replyTo: string
  readonly subject: string
  readonly messageId: string
  /** The Date field if it is valid. */
  readonly date: Date | undefined
}

export interface ReadableMessage extends ReadableHead {
  readonly text: string | undefined
  readonly html: string | undefined
  readonly attachments: readonly { readonly filename: string; readonly contentType: string }[]
  /** The parts that the HTML can refer to, as far as they were parsed whole. */
  readonly pictures: readonly InlinePicture[]
  /** Whether only the start of the message was parsed: the last parts may be missing. */
  readonly isCut: boolean
  /** Whether text or HTML may be missing or truncated: they come before all other parts. */
  readonly isTruncated: boolean
}

/** Bodies precede attachments, so the start of a message has the readable part. */
const MAX_PARSED_BYTES = MiB

const OPTIONS = {
  keepCidLinks: true,
  skipHtmlToText: true,
  skipImageLinks: true,
  skipTextLinks: true,
  skipTextToHtml: true,
}

const EMPTY_HEAD: ReadableHead = {
  from: '',
  to: '',
  cc: '',
  replyTo: '',
  subject: '',
  messageId: '',
  date: undefined,
}

/** The fields of a header; empty if the header cannot be parsed. */
export async function parseHead(head: Uint8Array): Promise<ReadableHead> {
  const { from, to, cc, replyTo, subject, messageId, date } = await parseMessage(head)
  return { from, to, cc, replyTo, subject, messageId, date }
}

/** Parses the first MiB of a message. All fields are empty if the message cannot be parsed. */
export async function parseMessage(raw: Uint8Array): Promise<ReadableMessage> {
  const isCut = raw.length > MAX_PARSED_BYTES
  const start = Buffer.from(raw.buffer, raw.byteOffset, Math.min(raw.length, MAX_PARSED_BYTES))
  try {
    const mail = await simpleParser(start, OPTIONS)
    // The last part that was reached may end there.
    const whole = isCut ? mail.attachments.slice(0, -1) : mail.attachments
    return {
      from: formatAddresses(mail.from),
      to: formatAddresses(mail.to),
      cc: formatAddresses(mail.cc),
      replyTo: formatAddresses(mail.replyTo),
      subject: mail.subject ?? '',
      messageId: mail.messageId ?? '',
      date: mail.date && !Number.isNaN(mail.date.getTime()) ? mail.date : undefined,
      text: mail.text,
      html: mail.html === false ? undefined : mail.html,
      attachments: mail.attachments.map(({ filename, contentType }) => ({ filename: filename ?? '', contentType })),
      pictures: whole.flatMap(({ cid, contentType, content }) =>
        cid === undefined ? [] : [{ contentId: cid, contentType, content }],
      ),
      isCut,
      isTruncated: isCut && mail.attachments.length === 0,
    }
  } catch {
    const nothing = { text: undefined, html: undefined, attachments: [], pictures: [] }
    return { ...EMPTY_HEAD, ...nothing, isCut, isTruncated: isCut }
  }
}

const formatAddresses = (field: AddressObject | AddressObject[] | undefined): string =>
  [field ?? []]
    .flat()
    .map(({ text }) => text)
    .join(', ')
