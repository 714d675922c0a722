/** @module The list of emails: newest first, with filters, live. */
import { Badge, Group, Text, VisuallyHidden } from '@mantine/core'
import type { EmailSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { toSendCommand } from '../parts/commands.ts'
import { NameLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import { EmptyState } from '../parts/page.tsx'
import { StatusBadge } from '../parts/status.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { useStreams } from './analytics/queries.ts'
import { useExampleDomain } from './domains/queries.ts'
import { EMAIL_FILTERS } from './filters.ts'

export default function EmailsScreen() {
  const list = useList({
    read: read.emails.list,
    filters: EMAIL_FILTERS,
    isSteady: true,
    isCapped: () => true,
    isConcerned: ({ email_id: id }) => id !== null,
  })
  const { data: streams = [] } = useStreams().data ?? {}
  return (
    <ListScreen
      title="Emails"
      list={list}
      label="Emails"
      columns={toColumns(new Map(streams.map(({ id, slug }) => [id, slug])))}
      noun="email"
      empty={<NoEmailYet />}
      advice="A recipient or sender is a whole address, or @example.com for all of a domain; a subject is searched by whole words."
    />
  )
}

function NoEmailYet() {
  const domain = useExampleDomain()
  return (
    <EmptyState title="No email yet" command={toSendCommand(domain?.domain)}>
      <Text>
        Every email that you send appears here, with what happened to it. This command sends the first one; put in one
        of your API keys{domain ? '' : ' and your domain'}. From a domain that is neither verified nor below one that
        is, it is only captured.
      </Text>
    </EmptyState>
  )
}

const toColumns = (slugs: ReadonlyMap<string, string>): readonly Column<EmailSummary>[] => [
  { header: 'Recipient', width: '30%', cell: (row) => <Recipient row={row} /> },
  {
    header: 'Subject',
    phone: 'bare',
    cell: ({ subject }) => <bdi title={subject}>{subject || '(no subject)'}</bdi>,
  },
  { header: 'Status', width: '9rem', phone: 'bare', cell: ({ state }) => <StatusBadge status={state} /> },
  { header: 'Time', width: '9rem', phone: 'aside', cell: ({ created_at: at }) => <Time iso={at} /> },
  {
    header: 'Stream, tags',
    width: '16%',
    phone: 'none',
    cell: ({ stream_id: id, tags }) => <Labels stream={id ? slugs.get(id) : undefined} tags={tags} />,
  },
]

/** `to` joins the addresses; their names are not in it. */
const countRecipients = ({ to, cc, bcc }: EmailSummary): number =>
  (to === '' ? 0 : to.split(', ').length) + cc.length + bcc.length

function Recipient({ row }: { readonly row: EmailSummary }) {
  const more = countRecipients(row) - 1
  return (
    <>
      <NameLink to="/emails/$id" params={{ id: row.id }} title={row.to} name={row.to_address || '(no recipient)'} />
      {more > 0 && (
        <>
          {' '}
          <span aria-hidden="true">+{more}</span>
          <VisuallyHidden>and {more} more</VisuallyHidden>
        </>
      )}
    </>
  )
}

const Labels = ({ stream, tags }: { readonly stream: string | undefined; readonly tags: readonly string[] }) => (
  <Group gap={4}>
    {stream && <Text size="sm">{stream}</Text>}
    {tags.map((tag) => (
      <Badge key={tag} variant="default" size="sm" tt="none" fw={500} maw="100%" title={tag}>
        {tag}
      </Badge>
    ))}
    {!stream && tags.length === 0 && '–'}
  </Group>
)
