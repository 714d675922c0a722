/** @module The attachments of a received message, each to download. Names and types are those of the sender. */
import { Anchor, Text } from '@mantine/core'
import { formatBytes } from '../../parts/format.ts'
import { type Column, DataTable } from '../../parts/table.tsx'
import { toVisible } from './visible.ts'

export interface ShownAttachment {
  readonly filename: string | null
  readonly content_type: string
  readonly size: number
}

interface AttachmentsProps {
  readonly attachments: readonly ShownAttachment[]
  /** Path in `/v1` of an attachment, by its position. */
  toUrl(index: number): string
}

interface Row extends ShownAttachment {
  readonly index: number
}

export function Attachments({ attachments, toUrl }: AttachmentsProps) {
  if (attachments.length === 0) return <Text size="sm">It has none.</Text>
  const columns: readonly Column<Row>[] = [
    {
      header: 'Name',
      cell: ({ filename, index }) => (
        // The server names the file; it is saved and never shown.
        <Anchor href={toUrl(index)} download size="sm">
          <bdi>{toVisible(filename ?? '') || `attachment ${index + 1}`}</bdi>
        </Anchor>
      ),
    },
    { header: 'Type', width: '35%', phone: 'bare', cell: ({ content_type: type }) => <bdi>{toVisible(type)}</bdi> },
    { header: 'Size', width: '7rem', isNumeric: true, phone: 'aside', cell: ({ size }) => formatBytes(size) },
  ]
  return (
    <>
      <DataTable
        label="Attachments"
        columns={columns}
        rows={attachments.map((attachment, index) => ({ ...attachment, index }))}
        toKey={({ index }) => String(index)}
      />
      <Text size="xs" c="dimmed">
        Named by the sender, and not checked for viruses.
      </Text>
    </>
  )
}
