/** @module The content of an email, in tabs: HTML, text, headers, source, links. */
import { Stack, Text } from '@mantine/core'
import type { Email, EmailLink } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { read } from '../../api/client.ts'
import { isMissing, useData } from '../../api/data.ts'
import { CopyText } from '../../parts/copy.tsx'
import { LongText } from '../../parts/long-text.tsx'
import { MessageContent } from '../../parts/message-content.tsx'
import { Facts, QueryView } from '../../parts/page.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { EMAIL_TABS } from '../filters.ts'

export const EmailContent = ({ email }: { readonly email: Email }) =>
  email.content === 'hidden' ? (
    <Text>Your role does not show what emails contain.</Text>
  ) : (
    <MessageContent
      tabs={EMAIL_TABS}
      html={email.html_body}
      text={email.text_body}
      frame={`/app/mail/${email.id}/html`}
      isMissing={email.content === 'missing'}
      panels={{
        headers: () => <Headers email={email} />,
        source: () => <Source id={email.id} />,
        links: () => <Links id={email.id} />,
      }}
    />
  )

function Headers({ email }: { readonly email: Email }) {
  const own = Object.entries(email.headers).map(
    ([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)] as const,
  )
  return (
    <Stack gap="xs">
      <Facts
        facts={[
          ['From', <Mailbox key="from" text={email.from_address} />],
          ['To', email.to],
          ['Cc', email.cc.join(', ')],
          ['Reply-To', email.reply_to],
          ['Subject', email.subject],
          ['Message-ID', email.message_id],
          ...own,
        ]}
      />
      <Text size="sm" c="dimmed">
        These are the headers as requested; this service adds others, such as Date and DKIM-Signature.
      </Text>
    </Stack>
  )
}

/** The message as it is composed, when `/v1` has it. */
function Source({ id }: { readonly id: string }) {
  const query = useData(read.emails.getSource(id), { staleTime: 60_000 })
  if (isMissing(query.error)) return <Text>The source of this email is not available.</Text>
  return (
    <QueryView query={query}>
      {({ source, headers }) => <LongText label="Source of the email" text={source ?? headers} />}
    </QueryView>
  )
}

const LINK_COLUMNS: readonly Column<EmailLink>[] = [
  { header: 'Link', cell: ({ url }) => <CopyText value={url} what="link" /> },
  { header: 'Clicks', width: '6rem', cell: ({ clicks }) => clicks },
  { header: 'Days', width: '6rem', cell: ({ unique_clicks: days }) => days },
  { header: 'By machines', width: '8rem', cell: ({ machine_clicks: clicks }) => clicks },
  { header: 'Last click', width: '9rem', cell: ({ last_clicked_at: at }) => <Time iso={at} /> },
]

function Links({ id }: { readonly id: string }) {
  const query = useData(read.emails.listLinks(id))
  if (query.error instanceof TassisError && query.error.code === 'tracking_not_in_plan')
    return <Text>{query.error.message}</Text>
  return (
    <QueryView query={query}>
      {(data) =>
        data.length === 0 ? (
          <Text>No link was clicked. Clicked links appear here when tracking is on for the email.</Text>
        ) : (
          <DataTable label="Clicked links" columns={LINK_COLUMNS} rows={data} toKey={({ url }) => url} />
        )
      }
    </QueryView>
  )
}

function Mailbox({ text }: { readonly text: string }) {
  const start = text.lastIndexOf('<')
  if (start <= 0) return <bdi>{text}</bdi>
  return (
    <>
      <bdi>{text.slice(0, start).trim()}</bdi> <bdi>{text.slice(start)}</bdi>
    </>
  )
}
