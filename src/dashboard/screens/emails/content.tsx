/** @module The content of an email, in tabs: HTML, text, headers, source, links. */
import { Button, Code, CopyButton, Group, Stack, Text } from '@mantine/core'
import type { Email, EmailLink } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { read } from '../../api/client.ts'
import { isMissing, useData } from '../../api/data.ts'
import { ContentTabs } from '../../parts/content-tabs.tsx'
import { LongText } from '../../parts/long-text.tsx'
import { MailFrame } from '../../parts/mail-frame.tsx'
import { Mailbox } from '../../parts/mailbox.tsx'
import { Facts, QueryView } from '../../parts/page.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { EMAIL_TABS } from '../filters.ts'

type EmailTab = (typeof EMAIL_TABS)[number]

interface EmailContentProps {
  readonly email: Email
  readonly tab: EmailTab | undefined
  onTab(tab: EmailTab): void
}

export const EmailContent = ({ email, tab, onTab }: EmailContentProps) => (
  <ContentTabs tabs={EMAIL_TABS} current={tab ?? (email.html_body ? 'html' : 'text')} onTab={onTab}>
    {(name) => <Panel name={name} email={email} />}
  </ContentTabs>
)

function Panel({ name, email }: { readonly name: EmailTab; readonly email: Email }) {
  if (name === 'html')
    return email.html_body ? (
      <MailFrame html={email.html_body ?? ''} src={`/app/mail/${email.id}/html`} />
    ) : (
      <NoBody email={email} what="HTML" />
    )
  if (name === 'text')
    return email.text_body ? (
      <LongText label="Text of the email" text={email.text_body} />
    ) : (
      <NoBody email={email} what="text" />
    )
  if (name === 'headers') return <Headers email={email} />
  return name === 'source' ? <Source id={email.id} /> : <Links id={email.id} />
}

const NoBody = ({ email, what }: { readonly email: Email; readonly what: string }) => (
  <Text>
    {email.content === 'missing'
      ? 'The content is missing from the storage of this service; ask its operator to restore it from a backup.'
      : `This email has no ${what}, or it is no longer stored.`}
  </Text>
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
  {
    header: 'Link',
    cell: ({ url }) => (
      <Group gap="xs" wrap="nowrap" align="flex-start">
        <Code style={{ minWidth: 0 }}>{url}</Code>
        <CopyButton value={url}>
          {({ copied, copy }) => (
            <Button size="compact-xs" variant="default" onClick={copy} flex="none">
              {copied ? 'Copied' : 'Copy'}
            </Button>
          )}
        </CopyButton>
      </Group>
    ),
  },
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
