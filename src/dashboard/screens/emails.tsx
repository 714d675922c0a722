/** @module The list of emails: newest first, with one search box and filters, live. */
import { Text, VisuallyHidden } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import type { EmailSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import type { PageOf } from '../api/data.ts'
import { saveText } from '../api/download.ts'
import { ActionButton, RunButton } from '../parts/buttons.tsx'
import { toSendCommand } from '../parts/commands.ts'
import { formatCount, toShownState } from '../parts/format.ts'
import { NameLink, PersonLink } from '../parts/links.tsx'
import { type List, ListScreen, useList } from '../parts/list.tsx'
import { EmptyState, LoadingState, useSay } from '../parts/page.tsx'
import { StatusBadge } from '../parts/status.tsx'
import { type Column, column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { Closest, useClosest } from './emails/closest.tsx'
import { countRecipients, toCsv, toEmailQuery, toShownTime } from './emails/format.ts'
import { EMAIL_FILTERS } from './filters.ts'
import { useExampleDomain, useStreams } from './queries.ts'

export default function EmailsScreen() {
  const list = useList({
    read: (query) => read.emails.list(toEmailQuery(query)),
    filters: EMAIL_FILTERS,
    isSteady: true,
    isCapped: () => true,
    isConcerned: ({ email_id: id }) => id !== null,
  })
  const { data: streams = [] } = useStreams().data ?? {}
  const rows = list.page?.data ?? []
  return (
    <ListScreen
      title="Emails"
      list={list}
      columns={toColumns(rows, new Map(streams.map(({ id, slug }) => [id, slug])))}
      noun="email"
      action={<Export list={list} />}
      choices={{ ...useKnown(list.values), stream: new Map(streams.map(({ slug, name }) => [slug, name])) }}
      empty={<NoEmailYet />}
      {...(list.values['q'] !== undefined && { noMatch: <NotFound q={list.values['q']} list={list} /> })}
    />
  )
}

/** Senders and tags of the emails that were listed, to choose from. */
function useKnown({ from, tag }: List<unknown>['values']) {
  const queries = useQueryClient()
  const rows = queries
    .getQueriesData<PageOf<EmailSummary>>({ queryKey: ['emails', 'list'] })
    .flatMap(([, page]) => page?.data ?? [])
  const toChoices = (values: readonly (string | undefined)[]) => {
    const known = [...new Set(values)].flatMap((value) => value ?? []).sort()
    return new Map(known.slice(0, MAX_KNOWN).map((value) => [value, value]))
  }
  const senders = toChoices([from, ...rows.map(({ from_address: sender }) => sender)])
  return {
    from: senders.size > 1 || from !== undefined ? senders : toChoices([]),
    tag: toChoices([tag, ...rows.flatMap(({ tags }) => tags)]),
  }
}

const MAX_KNOWN = 50

const MAX_EXPORTED = 10_000

/** The emails of the list, with its filters, as a CSV file that the browser makes. */
function Export({ list }: { readonly list: List<EmailSummary> }) {
  const say = useSay()
  const save = async () => {
    const { isFiltered, values } = list
    const query = toEmailQuery(values)
    const rows: EmailSummary[] = []
    for await (const row of read.emails.list({ ...query, per_page: 100 }).call(AbortSignal.timeout(EXPORT_MS)))
      if (rows.push(row) >= MAX_EXPORTED) break
    saveText(toCsv(rows), isFiltered ? 'emails-found.csv' : 'emails.csv', 'text/csv')
    const isCut = rows.length >= MAX_EXPORTED
    say(
      `${isCut ? 'The newest ' : ''}${formatCount(rows.length, 'email')} ${rows.length === 1 ? 'is' : 'are'} in the file.`,
    )
  }
  return <RunButton label="Export" variant="default" run={save} />
}

const EXPORT_MS = 300_000

/** A mail that never existed is told from a typing error. */
function NotFound({ q, list }: { readonly q: string; readonly list: List<EmailSummary> }) {
  const others = Object.keys(list.values).length - 1
  const { found, people, since, isLoading } = useClosest(q)
  if (others > 0 && found && found.emails.length > 0)
    return (
      <EmptyState title={`Nothing for “${q}” with these filters`}>
        <ActionButton variant="default" onClick={() => list.filter({ q })} label="Remove the other filters" />
      </EmptyState>
    )
  if (isLoading) return <LoadingState rows={1} />
  return (
    <EmptyState
      title={q.includes('@') ? `No mail to ${q}${since}` : `No mail with “${q}”${since}`}
      text="It was never sent from this account, or is older than what is stored. Check the spelling."
    >
      <Closest people={people} />
      {found?.people.map(({ address }) => (
        <Text key={address}>
          <PersonLink address={address} /> is known, and got no mail.
        </Text>
      ))}
    </EmptyState>
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

/** Columns whose cells say the same in every row are left out. @param slugs of the streams, by their ids */
function toColumns(rows: readonly EmailSummary[], slugs: ReadonlyMap<string, string>): readonly Column<EmailSummary>[] {
  const differs = (value: (row: EmailSummary) => unknown) => new Set(rows.map(value)).size > 1
  const toStream = ({ stream_id: id }: EmailSummary) => (id ? slugs.get(id) : undefined)
  const sender: Column<EmailSummary> = column('Sender', { width: '18%', phone: 'none' }, ({ from_address: from }) => (
    <bdi title={from}>{from.replace(/^.*<(.*)>$/, '$1')}</bdi>
  ))
  const stream: Column<EmailSummary> = column('Stream', { width: '7rem', phone: 'none' }, (row) => toStream(row) ?? '–')
  return [
    column('Recipient', { width: '22%' }, (row) => <Recipient row={row} />),
    column('Subject', { phone: 'bare' }, (row) => <Subject row={row} />),
    ...(differs(({ from_address: from }) => from) ? [sender] : []),
    ...(differs(toStream) ? [stream] : []),
    column('Status', { width: '9.5rem', phone: 'bare' }, (row) => (
      <StatusBadge status={toShownState(row, row.state)} />
    )),
    column('Time', { width: '8.5rem', phone: 'aside' }, (row) => <Time iso={toShownTime(row)} />),
  ]
}

interface RowProps {
  readonly row: EmailSummary
}

const Subject = ({ row: { subject, tags } }: RowProps) => (
  <span className="subject">
    <bdi title={subject}>{subject || '(no subject)'}</bdi>
    {tags.length > 0 && (
      <span className="tag" title={`Tags: ${tags.join(', ')}`}>
        {tags[0]}
        {tags.length > 1 && ` +${tags.length - 1}`}
      </span>
    )}
  </span>
)

function Recipient({ row }: RowProps) {
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
