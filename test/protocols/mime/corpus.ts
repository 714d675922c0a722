/**
 * @module The expected content of the messages in `test/corpus/messages`, most of it in `expected.json` there. Written
 * from the sources when the messages were created, never from the parser's output.
 */
import { readFileSync } from 'node:fs'

/** `[file name, type, size in octets, start of the SHA-256 in hex, disposition, content id]`. */
export type ExpectedAttachment = readonly [
  filename: string | null,
  contentType: string,
  sizeBytes: number,
  sha256: string,
  disposition: string,
  contentId: string | null,
]

export interface Expected {
  readonly subject: string
  readonly text: string | null
  readonly html: string | null
  readonly attachments: readonly ExpectedAttachment[]
  /** Only where the message tests it. */
  readonly from?: string | null
  readonly to?: string | null
  readonly cc?: string | null
  readonly replyTo?: string | null
  readonly fromAddresses?: readonly string[]
  readonly toAddresses?: readonly string[]
  readonly messageId?: string | null
  readonly inReplyTo?: string | null
  readonly referenceCount?: number
  readonly isAutomatic?: boolean
}

const MANY = Array.from({ length: 300 }, (_, index) => `user${String(index).padStart(3, '0')}@tassis.example`)

const FILE = new URL('../../corpus/messages/expected.json', import.meta.url)

export const CORPUS: Readonly<Record<string, Expected>> = {
  ...(JSON.parse(readFileSync(FILE, 'utf8')) as Record<string, Expected>),
  'addresses-300': {
    subject: 'all',
    text: 'x\n',
    html: null,
    attachments: [],
    from: 'ann@sender.example',
    to: MANY.join(', '),
    toAddresses: MANY,
  },
  'base64-one-long-line': { subject: 'b64', text: 'x'.repeat(9000), html: null, attachments: [] },
}
