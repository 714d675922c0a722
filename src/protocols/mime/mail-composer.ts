/**
 * @module Composes mail by nodemailer's MailComposer, which creates the header and the tree: mail with attachments, and
 * with fields that `plain.ts` leaves to it. Never opens a file or a URL.
 *
 * Behaviour of MailComposer that its input does not show:
 * - Order: custom fields first, then From, To, Cc, Reply-To, Subject, Message-ID, Date, MIME-Version, Content-Type.
 * - MailComposer encodes a value with a character beyond ASCII or a double quote as a whole (RFC 2047). It would leave
 *   a value that looks like an encoded word unchanged; we encode such a value, so that the text arrives as the caller
 *   wrote it.
 * - Fields fold at 76 characters before white space; a long first word moves to a line of its own.
 * - With a UTF-8 local part the domain becomes U-labels again in the header, where SMTPUTF8 is needed anyway.
 * - MailComposer turns multipart/* into a branch of the tree; `attachment.ts` leaves it only to a sealed message, which
 *   is the root and has no branches.
 */
import MailComposer from 'nodemailer/lib/mail-composer'
import { type Attachment, cleanFilename, sanitiseContentType } from './attachment.ts'
import type { EncodedPart } from './encode.ts'
import {
  BOUNDARY_PREFIX,
  type Bodies,
  encodeAsWords,
  looksEncodedOrUnfoldable,
  type MessageFields,
  type NamedAddress,
  prepareFieldValue,
} from './fields.ts'
import { type SerialisedMessage, serialiseTree } from './serialise.ts'

const FALLBACK_NAME = 'attachment'

export function composeByMailComposer(
  fields: MessageFields,
  bodies: Bodies,
  { attachments, reportType }: { readonly attachments: readonly Attachment[]; readonly reportType?: string },
): SerialisedMessage {
  const leaves: EncodedPart[] = []
  /** MailComposer receives the index of a part instead of the content, because it would scan the content. */
  const addLeaf = (part: EncodedPart) => ({
    content: part.pieces.length === 0 ? '' : String(leaves.push(part) - 1),
    contentTransferEncoding: part.encoding === '7bit' ? (false as const) : part.encoding,
  })
  const composer = new MailComposer({
    from: toMutable(fields.from),
    to: toMutable(fields.to),
    cc: toMutable(fields.cc),
    ...(fields.replyTo && { replyTo: toMutable(fields.replyTo) }),
    subject: fields.subject,
    date: fields.date,
    messageId: fields.messageId,
    headers: fields.headers.map(([key, value]) => ({ key, value: prepareFieldValue(key, value) })),
    alternatives: bodies.map(([contentType, part]) => ({ contentType, ...addLeaf(part) })),
    attachments: attachments.map(({ filename, contentId, content, contentType }) => ({
      filename: cleanFilename(filename) ?? FALLBACK_NAME,
      contentType: sanitiseContentType({ filename, contentType, content }),
      ...(contentId === undefined
        ? { contentDisposition: 'attachment' }
        : { contentDisposition: 'inline', cid: contentId }),
      ...addLeaf(content),
      contentTransferEncoding: content.encoding,
    })),
    boundaryPrefix: BOUNDARY_PREFIX,
    baseBoundary: fields.baseBoundary,
    disableFileAccess: true,
    disableUrlAccess: true,
    // Keeps the case of names as the caller wrote them; MailComposer would change it.
    normalizeHeaderKey: (name: string) => fields.spellings.get(name.toLowerCase()) ?? name,
  })
  const root = composer.compile()
  if (reportType !== undefined) root.setHeader('Content-Type', `multipart/report; report-type=${reportType}`)
  // RFC 2045 §6.4: no part has a wider encoding than what contains it.
  if (attachments.some(({ content }) => content.encoding === '8bit'))
    root.setHeader('Content-Transfer-Encoding', '8bit')
  extendEncoders(root)
  return serialiseTree(root, ({ content }) => (content === '' ? undefined : leaves[Number(content)]))
}

const toMutable = (addresses: readonly NamedAddress[]) => addresses.map((each) => ({ ...each }))

/** Members of MimeNode that its type does not declare. */
interface Encoders {
  _encodeWords(value: string): string
  _encodeAddressName(name: string): string
  readonly childNodes: readonly Encoders[]
}

const PRINTABLE_ASCII = /^[\t\x20-\x7e]*$/

/**
 * Makes the nodes of a tree encode two more kinds of text; see `looksEncodedOrUnfoldable`. This applies to subjects,
 * header values, and names of people and files. Quotes stay as they are, for programs that read JSON in a field.
 */
function extendEncoders(node: object): void {
  const encoders = node as Encoders
  const { _encodeWords: encodeWords, _encodeAddressName: encodeName } = encoders
  encoders._encodeWords = (text) =>
    looksEncodedOrUnfoldable(text)
      ? encodeAsWords(text)
      : PRINTABLE_ASCII.test(text)
        ? text
        : encodeWords.call(encoders, text)
  encoders._encodeAddressName = (name) =>
    looksEncodedOrUnfoldable(name) ? encodeAsWords(name) : encodeName.call(encoders, name)
  for (const child of encoders.childNodes) extendEncoders(child)
}
