/** @module What lists say about an email: its recipients, its state with what the recipient did, its stream and tags. */
import { VisuallyHidden } from '@mantine/core'
import type { EmailSummary } from '#client/api.ts'
import { toShownState } from '../../parts/format.ts'
import { NameLink } from '../../parts/links.tsx'
import { StatusBadge } from '../../parts/status.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { countRecipients, toShownTime } from './format.ts'

type Row = EmailSummary

const SUBJECT: Column<Row> = {
  header: 'Subject',
  phone: 'bare',
  cell: ({ subject, tags }) => (
    <span className="subject">
      <bdi title={subject}>{subject || '(no subject)'}</bdi>
      {tags.length > 0 && (
        <span className="tag" title={`Tags: ${tags.join(', ')}`}>
          {tags[0]}
          {tags.length > 1 && ` +${tags.length - 1}`}
        </span>
      )}
    </span>
  ),
}

const STATUS: Column<Row> = {
  header: 'Status',
  width: '9.5rem',
  phone: 'bare',
  cell: (row) => <StatusBadge status={toShownState(row, row.state)} />,
}

const TIME: Column<Row> = {
  header: 'Time',
  width: '8.5rem',
  phone: 'aside',
  cell: (row) => <Time iso={toShownTime(row)} />,
}

const RECIPIENT: Column<Row> = { header: 'Recipient', width: '22%', cell: (row) => <Recipient row={row} /> }

const SENDER: Column<Row> = {
  header: 'Sender',
  width: '18%',
  phone: 'none',
  cell: ({ from_address: sender }) => <bdi title={sender}>{sender.replace(/^.*<(.*)>$/, '$1')}</bdi>,
}

/** Columns whose cells say the same in every row are left out. @param slugs of the streams, by their ids */
export function toColumns(rows: readonly Row[], slugs: ReadonlyMap<string, string>): readonly Column<Row>[] {
  const differs = (value: (row: Row) => unknown) => new Set(rows.map(value)).size > 1
  const toStream = ({ stream_id: id }: Row) => (id ? slugs.get(id) : undefined)
  return [
    RECIPIENT,
    SUBJECT,
    ...(differs(({ from_address: sender }) => sender) ? [SENDER] : []),
    ...(differs(toStream)
      ? [{ header: 'Stream', width: '7rem', phone: 'none', cell: (row: Row) => toStream(row) ?? '–' } as const]
      : []),
    STATUS,
    TIME,
  ]
}

function Recipient({ row }: { readonly row: Row }) {
  const more = countRecipients(row) - 1
  return (
    <>
      <NameLink to="/emails/$id" params={{ id: row.id }} title={row.to} name={row.to_address || '(no recipient)'} />
      {more > 0 && (
        <>
          {' '}
          <span className="dimmed" aria-hidden="true">
            +{more}
          </span>
          <VisuallyHidden>and {more} more</VisuallyHidden>
        </>
      )}
    </>
  )
}
