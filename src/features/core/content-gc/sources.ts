/**
 * @module Lists every column that refers to the content stores. The sweep would delete blobs to which only an unlisted
 * column refers, so test/features/core/content-gc/sources.test.ts compares the list with the tables.
 */
import type { StoreName } from './garbage.ts'

export interface Source {
  readonly table: string
  /** Columns that hold one reference. */
  readonly columns: readonly string[]
  /** Columns that hold a JSON array of objects with the reference in `ref`. */
  readonly json?: readonly string[]
}

export const SOURCES: Readonly<Record<StoreName, readonly Source[]>> = {
  content: [
    { table: 'emails', columns: ['html_ref', 'text_ref'], json: ['attachments'] },
    { table: 'broadcasts', columns: ['html_ref', 'text_ref'] },
    { table: 'inbound_emails', columns: ['headers_ref', 'text_ref', 'html_ref'], json: ['attachments'] },
    { table: 'mailbox_messages', columns: ['text_ref', 'stripped_ref', 'html_ref'], json: ['attachments'] },
    { table: 'received_reports', columns: ['content_ref'] },
  ],
  rawMail: [
    { table: 'inbound_receipts', columns: ['raw_ref'] },
    { table: 'inbound_emails', columns: ['raw_ref'] },
    { table: 'mailbox_messages', columns: ['raw_ref'] },
    { table: 'operator_mail', columns: ['raw_ref'] },
    { table: 'complaints', columns: ['raw_ref'] },
  ],
}
